// SPDX-License-Identifier: Apache-2.0

package kafkacheckpoint

import (
	"fmt"
	"testing"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint/kafka"
	"github.com/kube-eventbridge/kube-eventbridge/internal/kafka/batch"
)

const all = 100_000

// Commits of some rows and of all, then opening and loading: once with what these commits have left, and once with little more than the rows.
func BenchmarkStore(b *testing.B) {
	c := shared.ForTest(b)
	for _, compression := range []batch.Compression{batch.None, batch.Zstd} {
		cfg := kafka.Config{Brokers: c.Addresses(), Topic: "bench-" + string(compression), Partitions: 1, Compression: compression}
		s := mustOpen(b, cfg)
		for _, n := range []int{all, 100, 1000, 5000, 20_000} {
			b.Run(fmt.Sprintf("%s/commit of %d", compression, n), func(b *testing.B) {
				b.ReportAllocs()
				for i := range b.N {
					b.StopTimer()
					batch := rows(i*n%all, n, i+2)
					b.StartTimer()
					mustCommit(b.Context(), b, s, batch)
				}
				b.ReportMetric(float64(n)*float64(b.N)/b.Elapsed().Seconds(), "rows/s")
			})
		}
		fresh := cfg
		fresh.Topic += "-fresh"
		mustCommit(b.Context(), b, mustOpen(b, fresh), rows(0, all, 1))
		for name, cfg := range map[string]kafka.Config{"a full topic": cfg, "100,000 rows": fresh} {
			b.Run(fmt.Sprintf("%s/open and load %s", compression, name), func(b *testing.B) {
				b.ReportAllocs()
				for range b.N {
					s, err := kafka.Open(b.Context(), cfg, audit)
					if err != nil {
						b.Fatal(err)
					}
					if n := len(mustLoad(b, s).Rows["pods.v1"]); n != all {
						b.Fatalf("%d rows", n)
					}
					b.StopTimer()
					values, nulls := records(b, cfg)
					b.ReportMetric(float64(values+nulls), "records")
					if err := s.Close(); err != nil {
						b.Fatal(err)
					}
					b.StartTimer()
				}
			})
		}
	}
}
