// SPDX-License-Identifier: Apache-2.0

package sharing

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kube-eventbridge/kube-eventbridge/source/rawjson"
)

// alone is a follower of a watch without a reader.
func alone() *Follower {
	s := &sharedWatch{watches: NewWatches(nil, 1<<20), room: make(chan struct{}, 1), followers: map[string][]*Follower{}}
	return &Follower{watch: s, wake: make(chan struct{}, 1)}
}

func (f *Follower) pushed(version uint64) {
	f.watch.mu.Lock()
	defer f.watch.mu.Unlock()
	f.push(event{kind: rawjson.Added, version: version})
}

func TestFollower_whose_queue_is_never_empty_holds_what_waits(t *testing.T) {
	f := alone()
	f.pushed(1)
	for v := uint64(2); v < 100_000; v++ {
		f.pushed(v)
		ok, err := f.pop()
		require.True(t, ok && err == nil, "%v %v", ok, err)
	}
	assert.LessOrEqual(t, cap(f.queue), 100, "%d wait, and there is room", len(f.queue)-f.head)
}

func TestFollower_ends_with_its_context_whatever_waits(t *testing.T) {
	f := alone()
	f.pushed(1)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := f.Next(ctx)
	assert.ErrorIs(t, err, context.Canceled)
}
