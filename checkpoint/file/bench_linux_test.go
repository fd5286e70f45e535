// SPDX-License-Identifier: Apache-2.0

package file

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
)

const benchRows = 100_000

func benchKey(i int) string { return fmt.Sprintf("namespace-%d/deployment-5d78c9869d-%05x", i%100, i) }

func benchRow(i, v int) checkpoint.Row {
	return checkpoint.Row{
		UID:             fmt.Sprintf("%08x-0c5b-4b8e-9a11-%012x", i*2654435761%(1<<32), i),
		ResourceVersion: fmt.Sprint(48_000_000 + v), Epoch: 1_764_000_000, Version: uint64(48_000_000 + v),
		Sequence: uint64(v),
	}
}

// benchBatch has n different rows, chosen at random from all, or all.
func benchBatch(n, v int) *checkpoint.Batch {
	rows := make(map[string]checkpoint.Row, n)
	for j, i := range rand.New(rand.NewPCG(uint64(v), 3)).Perm(benchRows)[:n] {
		rows[benchKey(i)] = benchRow(i, v+j)
	}
	return &checkpoint.Batch{
		Identity: identity,
		Streams:  map[string]checkpoint.Stream{"pods.v1": {Position: fmt.Sprint(v)}},
		Put:      map[string]map[string]checkpoint.Row{"pods.v1": rows},
	}
}

func cpu(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// measured runs fn with the clock running, and returns the CPU time that it took.
func measured(b *testing.B, fn func()) time.Duration {
	b.Helper()
	b.StartTimer()
	start := cpu(b)
	fn()
	used := cpu(b) - start
	b.StopTimer()
	return used
}

func size(b *testing.B, path string) float64 {
	b.Helper()
	info := must.Get(os.Stat(path))(b)
	return float64(info.Size()) / (1 << 20)
}

func BenchmarkStore(b *testing.B) {
	path := filepath.Join(b.TempDir(), "audit.db")
	s := mustOpen(b, path)
	b.Run("first commit of 100,000", func(b *testing.B) {
		b.StopTimer()
		var used time.Duration
		for range b.N {
			batch := benchBatch(benchRows, 1)
			batch.Forget = []string{"pods.v1"}
			used += measured(b, func() { mustCommit(b, s, batch) })
		}
		b.ReportMetric(float64(used.Nanoseconds())/float64(b.N)/benchRows, "cpu-ns/row")
		b.ReportMetric(size(b, path), "MiB")
	})
	for _, n := range []int{100, 1000, 10_000, 40_000} {
		b.Run(fmt.Sprintf("commit of %d", n), func(b *testing.B) {
			b.StopTimer()
			var used time.Duration
			for i := range b.N {
				batch := benchBatch(n, i+2)
				used += measured(b, func() { mustCommit(b, s, batch) })
			}
			b.ReportMetric(float64(used.Nanoseconds())/float64(b.N)/float64(n), "cpu-ns/row")
			b.ReportMetric(size(b, path), "MiB")
		})
	}
	mustClose(b, s)
	b.Run("open", func(b *testing.B) {
		b.StopTimer()
		for range b.N {
			var s *Store
			measured(b, func() { s = mustOpen(b, path) })
			mustClose(b, s)
		}
	})
	b.Run("open and load", func(b *testing.B) {
		b.StopTimer()
		var heap uint64
		for range b.N {
			before := liveHeap()
			var s *Store
			var state *checkpoint.State
			measured(b, func() { s = mustOpen(b, path); state = mustLoad(b, s) })
			heap = liveHeap() - before
			runtime.KeepAlive(state)
			mustClose(b, s)
		}
		b.ReportMetric(float64(heap)/benchRows, "heap-B/row")
	})
}

func liveHeap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
