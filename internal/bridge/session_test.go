// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge/delivery"
	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge/health"
	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge/stream"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
	"github.com/kube-eventbridge/kube-eventbridge/internal/testlog"
	"github.com/kube-eventbridge/kube-eventbridge/sink"
	"github.com/kube-eventbridge/kube-eventbridge/source"
	"github.com/kube-eventbridge/kube-eventbridge/source/catalog"
)

// Before anything is read, what the log was seen to have is saved.
func TestReadyz_says_that_the_checkpoint_cannot_be_written_at_a_start(t *testing.T) {
	api, log, store, logged := newAPIServer(t, 10), newReadableLog(), &memoryStore{}, &testlog.Text{}
	b := runBridge(t, api, log, store, nil)
	must.Happen(t, "the snapshot", func() bool { return len(log.lines()) == 2 })
	require.NoError(t, b.stop())
	full := func(err error) {
		store.mu.Lock()
		defer store.mu.Unlock()
		store.fail = err
	}
	full(errors.New("no space left on device"))
	b = runBridge(t, api, log, store, func(c *Config) { c.Log, c.Target = logged.Logger(), "stream X" })
	must.Happen(t, "the reason", func() bool {
		code, body := b.get("/readyz")
		return code == http.StatusServiceUnavailable && strings.Contains(body,
			"pipeline test: checkpoint: no space left on device\n")
	})
	if n := logged.Count("level=WARN"); n != 1 || logged.Count(`err="no space left on device"`) != 1 {
		t.Errorf("it is logged %d times, as %s", n, logged)
	}
	assert.Equal(t, 0, logged.Count("msg=publishing"), "it says that it publishes while it waits")
	full(nil)
	must.Happen(t, "the watch", func() bool { code, _ := b.get("/readyz"); return code == http.StatusOK })
	assert.Equal(t, 1, logged.Count(`msg=publishing pipeline=test to="stream X"`),
		"that it publishes is not said once: %s", logged)
	assert.Equal(t, 1, logged.Count("saved again"), "that it is over is not logged: %s", logged)
}

// shortLog loses something when it has run for a while.
type shortLog struct {
	*fakeLog
	lasts time.Duration
}

func (l shortLog) Run(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case <-time.After(l.lasts):
		return &sink.RewoundError{}
	}
}

// sessions runs a pipeline without streams, each of whose sessions lasts as long as the next of lasts; below zero there
// is no sink for it. It returns how long the pipeline waited after each.
func sessions(t *testing.T, c Config, lasts ...time.Duration) (waits []time.Duration, err error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	n, ended := 0, time.Time{}
	c.Name, c.Buffer, c.Store = "test", 1<<20, &memoryStore{}
	c.Catalog = must.Get(catalog.New(&rest.Config{}, nil, catalog.Config{}))(t)
	c.Sink = func(func() uint64) (sink.Sink, error) {
		if n > 0 {
			waits = append(waits, time.Since(ended))
		}
		if n == len(lasts) {
			cancel()
			return newFakeLog(), nil
		}
		l := lasts[n]
		n++
		ended = time.Now().Add(max(l, 0))
		if l < 0 {
			return nil, errors.New("no such file")
		}
		return shortLog{newFakeLog(), l}, nil
	}
	err = New(c).Run(ctx)
	return waits, err
}

func TestPipeline_starts_less_and_less_often_what_does_not_last(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		registry := prometheus.NewRegistry()
		short, long := time.Second, time.Hour
		waits, err := sessions(t, Config{Metrics: health.NewMetrics(registry)}, short, short, short, short, short, short,
			short, short, long, short)
		assert.NoError(t, err)
		for i, want := range []time.Duration{1, 2, 4, 8, 16, 32, 60, 60, 1, 2} {
			want *= time.Second
			require.True(t, i < len(waits) && waits[i] <= want && waits[i] >= want*3/4,
				"the waits are %v, and that of place %d is to be %v", waits, i, want)
		}
		n := value(t, registry, "log_losses_total")
		assert.True(t, n == 10, "%v losses are counted, want all 10, although none was saved", n)
	})
}

// The file with the credentials may be about to be replaced.
func TestPipeline_waits_for_what_its_sink_is_made_of(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		logged := &testlog.Text{}
		waits, err := sessions(t, Config{Metrics: health.NewMetrics(prometheus.NewRegistry()), Log: logged.Logger()},
			time.Hour, -1, -1, time.Hour)
		assert.True(t, err == nil && len(waits) == 4 && logged.Count("no such file") == 2,
			"it ended with %v after %v, and logged %s", err, waits, logged)
		if _, err := sessions(t, Config{Metrics: health.NewMetrics(prometheus.NewRegistry())}, -1); err == nil ||
			!strings.Contains(err.Error(), "no such file") {
			t.Errorf("without a sink to begin with it ended with %v", err)
		}
	})
}

// A loss that ended a session is found again when the next one begins.
func TestPipeline_counts_a_loss_once(t *testing.T) {
	for counted, want := range map[bool]float64{true: 0, false: 1} {
		log, store := newReadableLog(), &memoryStore{}
		r, _ := saved(t, log, store)
		_ = r.stop()
		log.lose(1)
		registry := prometheus.NewRegistry()
		catalog := must.Get(catalog.New(&rest.Config{}, nil, catalog.Config{}))(t)
		p := New(Config{
			Catalog: catalog,
			Name:    "test", Identity: checkpoint.Identity{Cluster: "test", Pipeline: "test"}, Store: store, Buffer: 1 << 20,
			Metrics: health.NewMetrics(registry),
			Sink:    func(func() uint64) (sink.Sink, error) { return log, nil },
		})
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		ended := make(chan error, 1)
		p.counted = counted
		go func() { ended <- p.session(ctx) }()
		must.Happen(t, "the session", func() bool { return p.current.Load() != nil })
		<-p.current.Load().met
		n := value(t, registry, "log_losses_total")
		assert.True(t, n == want, "counted before %v: %v losses are counted, want %v", counted, n, want)
		cancel()
		assert.NoError(t, <-ended)
	}
}

// An event that is acknowledged while a commit collects the rows is not bounded by the mark that this commit saves.
func TestMarks_are_taken_before_the_rows(t *testing.T) {
	log, store := newReadableLog(), &memoryStore{}
	r, s := startStream(t, log, store)
	last, err := r.open(s.Spec, source.Stream{Resource: source.Resource{
		Version: "v1", Resource: "secrets", Kind: "Secret",
		Namespaced: true,
	}})
	require.NoError(t, err)
	snapshot(t, s, "10", "a u1 5")
	s.Ledger.Put("default/gone", checkpoint.Row{UID: "u9", ResourceVersion: "6", Deleted: true})
	last.Mu.Lock()
	committed := make(chan error, 1)
	go func() { committed <- r.journal.Commit(t.Context()) }()
	must.Happen(t, "the rows of the first stream", func() bool { _, ok := s.Ledger.Get("default/gone"); return !ok })
	send(t, s, source.Added, "b", "u2", "11", source.ReasonWatch)
	r.settle()
	last.Mu.Unlock()
	require.NoError(t, <-committed)
	row, _ := s.Ledger.Get("default/b")
	if _, saved := store.state.Rows[s.Name]["default/b"]; saved || store.state.Log.Marks[0] >= row.Sequence {
		t.Errorf("the mark is %d, and the event at %d is saved: %v", store.state.Log.Marks[0], row.Sequence, saved)
	}
}

// A waypoint that has a position has the events before it, too.
func TestMarks_know_of_an_event_before_its_ticket_is_settled(t *testing.T) {
	for name, publish := range map[string]func(*stream.Stream){
		"a change": func(s *stream.Stream) { send(t, s, source.Updated, "a", "u1", "11", source.ReasonWatch) },
		"a marker": func(s *stream.Stream) {
			s.Lists.QueueMarker(&delivery.Marker{Marker: source.Marker{Kind: source.MarkerGap, To: "11", Seen: time.Now()}})
		},
	} {
		log, _, r, s := listed(t, "10", "a u1 5")
		gate := log.hold()
		publish(s)
		high := make(chan uint64, 1)
		ticket := s.Tracker.OpenBarrier(time.Now(), func() {
			ends, _ := r.delivery.Offsets.Ends()
			high <- ends[0]
		})
		close(gate)
		got, want := <-high, uint64(len(log.lines()))
		assert.Equal(t, want, got, "%s at %d is settled, and the mark", name, want)
		s.Tracker.Settle(ticket)
		r.settle()
	}
}
