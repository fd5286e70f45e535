// SPDX-License-Identifier: Apache-2.0

package kafka

import (
	"context"
	"fmt"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	"github.com/kube-eventbridge/kube-eventbridge/internal/kafka"
	"github.com/kube-eventbridge/kube-eventbridge/internal/kafka/batch"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
)

// sponge takes batches and keeps only their size.
type sponge struct {
	*fake
	taken int
}

func (s *sponge) Produce(_ context.Context, _ string, _ int32, sized []byte) (int64, error) {
	s.taken += len(sized)
	return 0, nil
}

func benchRows(n, version int) *checkpoint.Batch {
	rows := make(map[string]checkpoint.Row, n)
	for i := range n {
		rows[fmt.Sprintf("namespace-%d/deployment-5d78c9869d-%05x", i%100, i)] = checkpoint.Row{
			UID:             fmt.Sprintf("%08x-0c5b-4b8e-9a11-%012x", i*2654435761%(1<<32), i),
			ResourceVersion: fmt.Sprint(48_000_000 + version), Epoch: 1_764_000_000, Version: uint64(48_000_000 + version),
			Sequence: uint64(version),
		}
	}
	return &checkpoint.Batch{
		Identity: audit, Streams: map[string]checkpoint.Stream{"pods.v1": {Position: fmt.Sprint(version)}},
		Put: map[string]map[string]checkpoint.Row{"pods.v1": rows},
	}
}

// cpu returns how much time all processors together have spent.
func cpu(b *testing.B) float64 {
	b.Helper()
	var u syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return float64(u.Utime.Nano() + u.Stime.Nano())
}

// What a commit costs besides the broker.
func BenchmarkCommit(b *testing.B) {
	for _, compression := range []batch.Compression{batch.None, batch.Zstd} {
		for _, n := range []int{1, 100, 1000, 5000, 100_000} {
			b.Run(fmt.Sprintf("%s/%d", compression, n), func(b *testing.B) {
				f := newFake(1)
				s := must.Get(openFake(b.Context(), f, Config{Compression: compression}, audit))(b)
				to := &sponge{fake: f}
				s.log.reader, s.fence.broker, s.out.broker = to, to, to
				rows := benchRows(n, 1)
				b.ReportAllocs()
				start := cpu(b)
				for b.Loop() {
					require.NoError(b, s.Commit(b.Context(), rows))
				}
				b.ReportMetric(float64(to.taken)/float64(b.N)/float64(n), "wire-B/row")
				b.ReportMetric((cpu(b)-start)/float64(b.N)/float64(n), "cpu-ns/row")
			})
		}
	}
}

// What reading costs besides the broker.
func BenchmarkReplay(b *testing.B) {
	f := newFake(1)
	require.NoError(b, mustOpen(b.Context(), b, f).Commit(b.Context(), benchRows(100_000, 1)))
	var records []*kafka.Record
	if _, _, err := f.Fetch(b.Context(), "", home(f), 0,
		func(r *kafka.Record) error { records = append(records, r); return nil }); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	start := cpu(b)
	for b.Loop() {
		r := newReplay(cursor{prefix: newKeys("prod-eu-1/audit").prefix})
		for _, record := range records {
			require.NoError(b, r.record(record))
		}
	}
	b.ReportMetric((cpu(b)-start)/float64(b.N)/float64(len(records)), "cpu-ns/record")
}

// What a commit costs besides the broker that moves the position of one stream of so many.
func BenchmarkCommit_of_one_stream(b *testing.B) {
	for _, streams := range []int{10, 5000} {
		b.Run(fmt.Sprintf("streams=%d", streams), func(b *testing.B) {
			f := newFake(1)
			s := must.Get(openFake(b.Context(), f, Config{}, audit))(b)
			all := &checkpoint.Batch{Identity: audit, Streams: map[string]checkpoint.Stream{}}
			for i := range streams {
				all.Streams[fmt.Sprintf("configmaps.v1/n%d", i)] = checkpoint.Stream{Position: "1"}
			}
			require.NoError(b, s.Commit(b.Context(), all))
			to := &sponge{fake: f}
			s.log.reader, s.fence.broker, s.out.broker = to, to, to
			version := 1
			b.ReportAllocs()
			for b.Loop() {
				version++
				require.NoError(b, s.Commit(b.Context(), &checkpoint.Batch{
					Identity: audit, Streams: map[string]checkpoint.Stream{"configmaps.v1/n7": {Position: fmt.Sprint(version)}},
				}))
			}
			b.ReportMetric(float64(to.taken)/float64(b.N), "wire-B")
		})
	}
}
