// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"errors"
	"testing"

	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
	"github.com/kube-eventbridge/kube-eventbridge/source"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A session ends while a stream of it cannot be read. In the next one it can.
func TestState_a_failure_is_over_whatever_session_it_began_in(t *testing.T) {
	r := start(t, newFakeLog(), &memoryStore{})
	spec := &StreamSpec{}
	s := r.stream(spec)
	s.status.State(source.Waiting, errors.New("away"))
	next := newSession(&r.pipeline.cfg, newFakeLog())
	defer next.queue.ShutDown()
	next.state, next.pasts = r.state, r.pasts
	s = must.Get(next.open(spec, source.Stream{Resource: configMaps}))(t)
	s.status.State(source.Listing, nil)
	assert.True(t, s.past.now().Cleared.IsZero(), "the failure is over before the stream watches")
	s.status.State(source.Watching, nil)
	past := s.past.now()
	require.Error(t, past.Failure.Err, "the stream watches, and its past is %+v", past)
	require.False(t, past.Cleared.IsZero(), "the stream watches, and its past is %+v", past)
	s.status.State(source.Watching, nil)
	assert.Equal(t, past.Cleared, s.past.now().Cleared, "the failure is over twice")
}
