// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"context"
	"fmt"
	"runtime"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	"github.com/kube-eventbridge/kube-eventbridge/encode"
	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge/health"
	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge/stream"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
	"github.com/kube-eventbridge/kube-eventbridge/sink"
	"github.com/kube-eventbridge/kube-eventbridge/source"
)

// swiftLog acknowledges at once and keeps nothing.
type swiftLog struct{ sequence atomic.Uint64 }

func (l *swiftLog) Run(ctx context.Context) error {
	<-ctx.Done()
	return nil
}

func (l *swiftLog) Ready() error { return nil }

func (l *swiftLog) Publish(_ context.Context, _ *sink.Message, done sink.Done) {
	done(sink.Receipt{Sequence: l.sequence.Add(1)}, nil)
}

// swiftStore takes every commit.
type swiftStore struct{}

func (swiftStore) Load(context.Context) (*checkpoint.State, error) { return &checkpoint.State{}, nil }
func (swiftStore) Commit(context.Context, *checkpoint.Batch) error { return nil }

// BenchmarkPipeline is the whole of the bridge's part of an event, encoding included, which the other benchmark has
// alone: budget, ticket, queue, ledger, and a commit every 40,000 events.
func BenchmarkPipeline(b *testing.B) {
	for _, objects := range []int{1, 10_000} {
		b.Run(fmt.Sprintf("objects=%d", objects), func(b *testing.B) {
			to := &swiftLog{}
			p := newSession(New(Config{
				Name: "test", Store: swiftStore{}, Buffer: 1 << 20,
				Metrics: health.NewMetrics(prometheus.NewRegistry()),
			}), to)
			defer p.delivery.ShutDown()
			p.delivery.Publisher = to
			s, err := p.open(&StreamSpec{Encoding: encode.Config{Cluster: "test", Pipeline: "test"}},
				source.Stream{Resource: configMaps})
			require.NoError(b, err)
			idents := make([]source.Ident, objects)
			for i := range idents {
				idents[i] = source.Ident{
					Namespace: "default", Name: fmt.Sprintf("an-object-with-a-name-%06d", i),
					UID: fmt.Sprintf("00000000-0000-4000-8000-%012d", i),
				}
			}
			body := []byte(`{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"a","namespace":"default","uid":"u",` +
				`"resourceVersion":"1"}}`)
			ctx := b.Context()
			b.ReportAllocs()
			version := 0
			for b.Loop() {
				version++
				id := idents[version%objects]
				id.ResourceVersion = strconv.Itoa(version)
				ticket := must.Get(s.Admit(ctx, id.ResourceVersion, len(body)))(b)
				s.Deliver(source.Change{
					Op: source.Updated, Ident: id, Body: source.NewBody(body), Reason: source.ReasonWatch, Seen: time.Now(),
					Ticket: ticket, Size: len(body),
				})
				p.delivery.Next(ctx)
				if version%40_000 == 0 {
					require.NoError(b, p.journal.Commit(ctx))
				}
			}
			require.Equal(b, 0, p.delivery.InFlight.Count(), "objects were not published")
		})
	}
}

// BenchmarkEncode is the part of BenchmarkPipeline that is not the bridge's.
func BenchmarkEncode(b *testing.B) {
	e := encode.New(source.Stream{Resource: configMaps}, encode.Config{Cluster: "test", Pipeline: "test"})
	body := source.NewBody([]byte(`{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"a","namespace":"default",` +
		`"uid":"u","resourceVersion":"1"}}`))
	c := source.Change{Op: source.Updated, Reason: source.ReasonWatch, Seen: time.Now(), Body: body}
	c.Ident = source.Ident{
		Namespace: "default", Name: "an-object-with-a-name-000001", UID: "00000000-0000-4000-8000-000000000001",
		ResourceVersion: "123456",
	}
	b.ReportAllocs()
	m := &sink.Message{}
	for b.Loop() {
		require.NoError(b, e.Change(m, &c))
	}
}

// onceStuck never acknowledges the first message.
type onceStuck struct {
	swiftLog
	stuck atomic.Bool
}

func (l *onceStuck) Publish(ctx context.Context, m *sink.Message, done sink.Done) {
	if l.stuck.Swap(true) {
		l.swiftLog.Publish(ctx, m, done)
	}
}

// BenchmarkChurn is what is held while one event is not acknowledged, so that the position stays, and objects come and
// go: a million of them, or as many as are read before the buffer is full.
func BenchmarkChurn(b *testing.B) {
	const million = 1_000_000
	for _, mib := range []int64{16, 256} {
		b.Run(fmt.Sprintf("buffer=%dMiB", mib), func(b *testing.B) {
			for b.Loop() {
				objects, held := churn(b, mib<<20, million)
				b.ReportMetric(float64(objects), "objects")
				b.ReportMetric(held/(1<<20), "heap-MiB")
			}
		})
	}
}

// churn has up to n objects come and go behind an event that is stuck, and returns how many did before a watch waits,
// and by how much the live heap has grown.
func churn(b *testing.B, buffer int64, n int) (objects int, held float64) {
	to := &onceStuck{}
	pipeline := New(Config{
		Name: "test", Store: swiftStore{}, Buffer: buffer,
		Metrics: health.NewMetrics(prometheus.NewRegistry()),
	})
	p := newSession(pipeline, to)
	defer p.delivery.ShutDown()
	p.delivery.Publisher = to
	s := must.Get(p.open(&StreamSpec{Encoding: encode.Config{Cluster: "test", Pipeline: "test"}},
		source.Stream{Resource: configMaps}))(b)
	body := []byte(`{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"a","namespace":"default","uid":"u",` +
		`"resourceVersion":"1"}}`)
	version := 0
	deliver := func(op source.Op, name string) bool {
		version++
		ctx, cancel := context.WithTimeout(b.Context(), 100*time.Millisecond)
		defer cancel()
		id := source.Ident{Namespace: "default", Name: name, UID: name, ResourceVersion: strconv.Itoa(version)}
		ticket, err := s.Admit(ctx, id.ResourceVersion, len(body))
		if err != nil {
			return false
		}
		s.Deliver(source.Change{
			Op: op, Ident: id, Body: source.NewBody(body), Reason: source.ReasonWatch, Seen: time.Now(), Ticket: ticket,
			Size: len(body),
		})
		p.delivery.Next(b.Context())
		return true
	}
	before := heap()
	require.True(b, deliver(source.Added, "stuck"))
	for objects < n {
		name := fmt.Sprintf("an-object-with-a-name-%06d", objects)
		if !deliver(source.Added, name) || !deliver(source.Deleted, name) {
			break
		}
		objects++
		if objects%40_000 == 0 {
			require.NoError(b, p.journal.Commit(b.Context()))
		}
	}
	held = float64(heap()) - float64(before)
	runtime.KeepAlive(s)
	return objects, held
}

// BenchmarkCommit is what a commit of one event costs in a pipeline of so many streams.
func BenchmarkCommit(b *testing.B) {
	for _, streams := range []int{10, 5000} {
		b.Run(fmt.Sprintf("streams=%d", streams), func(b *testing.B) {
			to := &swiftLog{}
			p := newSession(New(Config{
				Name: "test", Store: swiftStore{}, Buffer: 1 << 20,
				Metrics: health.NewMetrics(prometheus.NewRegistry()),
			}), to)
			defer p.delivery.ShutDown()
			p.delivery.Publisher = to
			spec := &StreamSpec{Encoding: encode.Config{Cluster: "test", Pipeline: "test"}}
			all := make([]*stream.Stream, streams)
			for i := range all {
				all[i] = must.Get(p.open(spec, source.Stream{Resource: configMaps, Namespace: fmt.Sprint("n", i)}))(b)
			}
			require.NoError(b, p.journal.Commit(b.Context()))
			body := []byte(`{"metadata":{"name":"a","namespace":"n7","uid":"u","resourceVersion":"1"}}`)
			version := 0
			b.ReportAllocs()
			for b.Loop() {
				version++
				id := source.Ident{Namespace: "n7", Name: "a", UID: "u", ResourceVersion: strconv.Itoa(version)}
				ticket := must.Get(all[7].Admit(b.Context(), id.ResourceVersion, len(body)))(b)
				all[7].Deliver(source.Change{
					Op: source.Updated, Ident: id, Body: source.NewBody(body), Reason: source.ReasonWatch, Seen: time.Now(),
					Ticket: ticket, Size: len(body),
				})
				p.delivery.Next(b.Context())
				require.NoError(b, p.journal.Commit(b.Context()))
			}
		})
	}
}

// atRest returns the live heap of each of n objects that a pipeline has published and watches: ledger, queue.
func atRest(tb testing.TB, n int) float64 {
	api := newAPIServer(tb, 1000)
	b := runBridge(tb, api, &swiftLog{}, swiftStore{}, nil)
	s := b.only(tb)
	settled := func(objects int) {
		must.Happen(tb, "the objects", func() bool {
			return s.Ledger.Len() == objects && s.Tracker.Pending() == 0 &&
				s.Status.Watching()
		})
	}
	settled(0)
	before := heap()
	api.add(n)
	settled(n)
	require.NoError(tb, b.current.Load().journal.Commit(tb.Context()))
	after := heap()
	runtime.KeepAlive(b)
	require.NoError(tb, b.stop())
	return (float64(after) - float64(before)) / float64(n)
}

func heap() uint64 {
	// Pools give their memory up in two collections.
	runtime.GC()
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// Swiss maps grow by doubling, so that the worst is just behind a power of two.
func TestPipeline_needs_at_most_1_KiB_an_object_at_rest(t *testing.T) {
	for _, n := range []int{12_000, 20_000} {
		if per := atRest(t, n); per > 1024 {
			t.Errorf("%d objects: %.0f bytes each", n, per)
		} else {
			t.Logf("%d objects: %.0f bytes each", n, per)
		}
	}
}

func BenchmarkAtRest(b *testing.B) {
	const n = 20_000
	var per float64
	for b.Loop() {
		per = atRest(b, n)
	}
	b.ReportMetric(per, "bytes/object")
}
