// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"testing"

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
	s := &lateStore{open: func(context.Context) (openStore, error) {
		if opened++; opened < 3 {
			return nil, away
		}
		return inner, nil
	}}
	if err := s.Close(); err != nil {
		t.Errorf("what was never opened: %v", err)
	}
	if _, err := s.Load(t.Context()); !errors.Is(err, away) {
		t.Errorf("load: %v", err)
	}
	if err := s.Commit(t.Context(), nil); !errors.Is(err, away) {
		t.Errorf("commit: %v", err)
	}
	for range 2 {
		must.Get(s.Load(t.Context()))(t)
		must.Do(t, s.Commit(t.Context(), nil))
	}
	must.Do(t, s.Close())
	if opened != 3 || *inner != (countedStore{loads: 2, commits: 2, closes: 1}) {
		t.Errorf("opened %d times, %+v", opened, *inner)
	}
}
