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

func TestPipeline_holds_a_checkpoint_that_others_can_reach(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &sharedStore{}
		p := &Pipeline{cfg: Config{Store: store}}
		session := &session{failure: make(chan error, 1)}
		p.current.Store(session)
		ctx, stop := context.WithCancel(t.Context())
		done := p.hold(ctx)
		<-time.After(10 * time.Second)
		assert.GreaterOrEqual(t, store.holds.Load(), int32(9), "in ten seconds")
		stop()
		away := errors.New("the broker is away")
		store.err.Store(&away)
		<-time.After(10 * time.Second)
		assert.GreaterOrEqual(t, store.holds.Load(), int32(18), "in twenty seconds, of which ten are those of a drain")
		var taken error = takenError{errors.New("another process has it")}
		store.err.Store(&taken)
		select {
		case err := <-session.failure:
			assert.ErrorIs(t, err, taken)
		case <-time.After(10 * time.Second):
			t.Error("the session goes on without its checkpoint")
		}
		done()
	})
}

func TestPipeline_holds_nothing_that_others_cannot_reach(t *testing.T) {
	(&Pipeline{cfg: Config{Store: &memoryStore{}}}).hold(t.Context())()
}

func TestPipeline_lets_a_checkpoint_go_with_its_term(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		held, lose := context.WithCancel(t.Context())
		store := &sharedStore{}
		done := (&Pipeline{cfg: Config{Store: store, Term: &Term{Held: held}}}).hold(t.Context())
		lose()
		<-time.After(10 * time.Second)
		assert.LessOrEqual(t, store.holds.Load(), int32(1))
		done()
	})
}
