// SPDX-License-Identifier: Apache-2.0

package wiring

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
)

type countedStore struct{ loads, commits, closes int }

func (s *countedStore) Load(context.Context) (*checkpoint.State, error) {
	s.loads++
	return &checkpoint.State{}, nil
}

func (s *countedStore) Commit(context.Context, *checkpoint.Batch) error {
	s.commits++
	return nil
}

func (s *countedStore) Close() error {
	s.closes++
	return nil
}

func TestLateStore_is_opened_by_its_first_use_that_succeeds(t *testing.T) {
	away, opened, inner := errors.New("the brokers are away"), 0, &countedStore{}
	s := &lateStore{open: func(context.Context) (Store, error) {
		if opened++; opened < 3 {
			return nil, away
		}
		return inner, nil
	}}
	assert.NoError(t, s.Close(), "what was never opened")
	assert.ErrorIs(t, must.Err(s.Load(t.Context())), away, "load")
	assert.ErrorIs(t, s.Commit(t.Context(), nil), away, "commit")
	for range 2 {
		must.Get(s.Load(t.Context()))(t)
		require.NoError(t, s.Commit(t.Context(), nil))
	}
	require.NoError(t, s.Close())
	assert.Equal(t, 3, opened, "opened %d times", opened)
	assert.Equal(t, (countedStore{loads: 2, commits: 2, closes: 1}), *inner, "opened %d times", opened)
}
