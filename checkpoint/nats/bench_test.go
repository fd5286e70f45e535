// SPDX-License-Identifier: Apache-2.0

package nats

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
)

func benchRows(from, n, version int) *checkpoint.Batch {
	rows := make(map[string]checkpoint.Row, n)
	for i := from; i < from+n; i++ {
		rows[fmt.Sprintf("namespace-%d/deployment-5d78c9869d-%05x", i%100, i)] = checkpoint.Row{
			UID:             fmt.Sprintf("%08x-0c5b-4b8e-9a11-%012x", i*2654435761%(1<<32), i),
			ResourceVersion: fmt.Sprint(48_000_000 + version), Epoch: 1_764_000_000, Version: uint64(48_000_000 + version),
			Sequence: uint64(version), Digest: [16]byte{byte(i), byte(i >> 8), 1},
		}
	}
	return &checkpoint.Batch{
		Identity: audit, Streams: map[string]checkpoint.Stream{"pods.v1": {Position: fmt.Sprint(version)}},
		Put: map[string]map[string]checkpoint.Row{"pods.v1": rows},
	}
}

// What it takes to begin where another process has ended, with a server in this one.
func BenchmarkOpen(b *testing.B) {
	for _, n := range []int{1000, 100_000, 300_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			cfg := at(newServer(b).ClientURL())
			s := mustOpen(b.Context(), b, cfg)
			require.NoError(b, s.Commit(b.Context(), benchRows(0, n, 1)))
			for i := range 500 {
				require.NoError(b, s.Commit(b.Context(), benchRows(i*100%n, 100, i)))
			}
			b.ReportAllocs()
			for b.Loop() {
				s := mustOpen(b.Context(), b, cfg)
				state, err := s.Load(b.Context())
				if err != nil || len(state.Rows["pods.v1"]) != n {
					b.Fatalf("%d rows: %v", len(state.Rows["pods.v1"]), err)
				}
			}
		})
	}
}

// What commits take, the bases that they make necessary included, of a checkpoint of 100,000 rows.
func BenchmarkCommit(b *testing.B) {
	for _, n := range []int{1, 100, 1000, 10_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			s := mustOpen(b.Context(), b, at(newServer(b).ClientURL()))
			require.NoError(b, s.Commit(b.Context(), benchRows(0, 100_000, 1)))
			rows := benchRows(0, n, 2)
			b.ReportAllocs()
			for b.Loop() {
				require.NoError(b, s.Commit(b.Context(), rows))
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/row")
		})
	}
}

// What a commit takes that moves the position of one stream of so many.
func BenchmarkCommit_of_one_stream(b *testing.B) {
	for _, streams := range []int{10, 5000} {
		b.Run(fmt.Sprintf("streams=%d", streams), func(b *testing.B) {
			s := mustOpen(b.Context(), b, at(newServer(b).ClientURL()))
			all := &checkpoint.Batch{Identity: audit, Streams: map[string]checkpoint.Stream{}}
			for i := range streams {
				all.Streams[fmt.Sprintf("configmaps.v1/n%d", i)] = checkpoint.Stream{Position: "1"}
			}
			require.NoError(b, s.Commit(b.Context(), all))
			version := 1
			b.ReportAllocs()
			for b.Loop() {
				version++
				require.NoError(b, s.Commit(b.Context(), &checkpoint.Batch{
					Identity: audit, Streams: map[string]checkpoint.Stream{"configmaps.v1/n7": {Position: fmt.Sprint(version)}},
				}))
			}
		})
	}
}
