// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
)

// sharedStore is a store that other processes can reach.
type sharedStore struct {
	memoryStore
	holds atomic.Int32
	err   atomic.Pointer[error]
}

func (s *sharedStore) Hold(context.Context) error {
	s.holds.Add(1)
	if err := s.err.Load(); err != nil {
		return *err
	}
	return nil
}

type takenError struct{ error }

func (takenError) Permanent() bool { return true }
func (takenError) Taken() bool     { return true }

func TestSession_holds_a_checkpoint_that_others_can_reach(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &sharedStore{}
		ended := make(chan error, 1)
		go func() { ended <- (&session{cfg: &Config{Store: store}}).hold(t.Context()) }()
		<-time.After(10 * time.Second)
		assert.GreaterOrEqual(t, store.holds.Load(), int32(9), "in ten seconds")
		away := errors.New("the broker is away")
		store.err.Store(&away)
		<-time.After(10 * time.Second)
		assert.GreaterOrEqual(t, store.holds.Load(), int32(18), "in twenty seconds")
		var taken error = takenError{errors.New("another process has it")}
		store.err.Store(&taken)
		assert.ErrorIs(t, <-ended, taken)
	})
}
