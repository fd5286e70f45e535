// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge/stream"
	"github.com/kube-eventbridge/kube-eventbridge/sink"
	"github.com/kube-eventbridge/kube-eventbridge/source"
)

// forgettingStore calls forget for each commit that forgets a stream, before it is stored, and fails where that does.
type forgettingStore struct {
	memoryStore
	forget func() error
}

func (s *forgettingStore) Commit(ctx context.Context, b *checkpoint.Batch) error {
	if len(b.Forget) > 0 && s.forget != nil {
		if err := s.forget(); err != nil {
			return err
		}
	}
	return s.memoryStore.Commit(ctx, b)
}

// forgetfulLog is one that neither knows ids nor checks what it has last, as Kafka.
type forgetfulLog struct{ readableLog }

func (l forgetfulLog) Publish(ctx context.Context, m *sink.Message, done sink.Done) {
	l.forgetIDs()
	free := *m
	free.Verify = false
	l.readableLog.Publish(ctx, &free, done)
}

// bury ends a stream of a resource that does not exist any more.
func (r *rig) bury(ctx context.Context, s *stream.Stream) error {
	return r.retire(ctx, ctx, s, always(source.ReasonRelist), "a test")
}

// Its definition is removed, and comes back with a backup of etcd, and so do its objects.
func TestEnded_stream_that_a_restoration_brings_back_takes_a_new_epoch(t *testing.T) {
	for _, restarted := range []bool{false, true} {
		log := newReadableLog()
		for _, to := range []sink.Sink{log, forgetfulLog{log}} {
			log.set(func() { log.log, log.byID, log.last, log.at = nil, map[string]int{}, map[string]int{}, nil })
			store := &memoryStore{}
			r := start(t, to, store)
			a, b := r.of(configMaps), r.of(secrets)
			snapshot(t, a, "10", "x u1 5")
			snapshot(t, b, "10", "y u9 6")
			r.settle()
			require.NoError(t, r.bury(t.Context(), a))
			rewind(t, b, "1000")
			if restarted {
				require.NoError(t, r.journal.Save(t.Context()))
				r.settleAndStop()
				r = start(t, to, store)
				b = r.of(secrets)
			}
			snapshot(t, b, "1000", "y u9 6")
			a = r.of(configMaps)
			snapshot(t, a, "1000", "x u1 5")
			r.settle()
			assert.Greater(t, a.Saved.Epoch, b.Saved.Epoch, "the epoch of a stream that comes back")
			checkOnce(t, log)
			r.stopSaved()
		}
	}
}

// Each namespace that comes and goes has a stream.
func TestEnded_streams_leave_nothing_in_the_checkpoint(t *testing.T) {
	log, store := newReadableLog(), &memoryStore{}
	r := start(t, log, store)
	b := r.of(secrets)
	snapshot(t, b, "10", "y u9 6")
	rewind(t, b, "1000")
	snapshot(t, b, "1000", "y u9 6")
	a := r.of(configMaps)
	snapshot(t, a, "1000", "x u1 5")
	r.settle()
	require.NoError(t, r.bury(t.Context(), a))
	require.NoError(t, r.journal.Save(t.Context()))
	kept, any := store.state.Streams[a.Name]
	assert.False(t, any, "the store keeps %+v", kept)
}

func TestEnded_stream_that_takes_long_to_forget_keeps_nobody_from_asking_how_all_is(t *testing.T) {
	log := newReadableLog()
	began, goOn := make(chan struct{}), make(chan struct{})
	store := &forgettingStore{}
	r, s := saved(t, log, store)
	store.forget = func() error {
		close(began)
		<-goOn
		return nil
	}
	ended := make(chan error, 1)
	go func() { ended <- r.bury(t.Context(), s) }()
	<-began
	told := make(chan struct{})
	go func() {
		r.unready()
		close(told)
	}()
	select {
	case <-told:
	case <-time.After(time.Minute):
		t.Error("nobody is told while a commit is under way")
	}
	close(goOn)
	require.NoError(t, <-ended)
	<-told
}
