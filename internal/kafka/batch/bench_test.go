// SPDX-License-Identifier: Apache-2.0

package batch

import (
	"fmt"
	"iter"
	"math/rand/v2"
	"testing"
)

// sampleValue returns n bytes that compress about as well as an object's JSON.
func sampleValue(r *rand.Rand, n int) []byte {
	words := []string{
		"metadata", "annotations", "containerPort", "image", "registry.example.com/team/app", "resources", "limits", "memory",
		"livenessProbe", "initialDelaySeconds", "status", "conditions", "lastTransitionTime", "True", "volumeMounts",
		"mountPath",
	}
	p := []byte("{")
	for len(p) < n {
		p = fmt.Appendf(p, "%q:{%q:%q,%q:%d},", words[r.IntN(len(words))], words[r.IntN(len(words))],
			words[r.IntN(len(words))],
			words[r.IntN(len(words))], r.IntN(100_000))
	}
	return p[:n]
}

// samples returns n records as the bridge writes them: 4 KiB of data and 20 headers.
func samples(n int) []Record {
	r := rand.New(rand.NewPCG(1, 2))
	out := make([]Record, n)
	for i := range out {
		name := fmt.Sprintf("web-%d", i)
		version := fmt.Sprintf("%020d", 1000+i)
		out[i] = Record{
			Key: "kluster/core/pods/default/" + name, Value: sampleValue(r, 4096), Timestamp: 1700000000000 + int64(i),
			Headers: []Header{
				{"ce_specversion", "1.0"},
				{"ce_type", "io.kube-eventbridge.resource.updated.v1"},
				{"ce_source", "/clusters/kluster/api/v1/pods"},
				{"ce_subject", "default/" + name},
				{"ce_id", fmt.Sprintf("%08x-0000-4000-8000-000000000000.%d", r.Uint32(), 1000+i)},
				{"ce_time", "2026-01-02T03:04:05Z"},
				{"content-type", "application/json"},
				{"ce_payload", "object"},
				{"ce_pipeline", "default"},
				{"ce_apiversion", "v1"},
				{"ce_kind", "Pod"},
				{"ce_namespace", "default"},
				{"ce_name", name},
				{"ce_objectuid", fmt.Sprintf("%08x-0000-4000-8000-000000000000", r.Uint32())},
				{"ce_resourceversion", version[10:]},
				{"ce_clustername", "kluster"},
				{"ce_partitionkey", "kluster/core/pods/default/" + name},
				{"ce_sequence", version},
				{"ce_recordedtime", "2026-01-02T03:04:05.123456789Z"},
				{"ce_reason", "watch"},
			},
		}
	}
	return out
}

func repeat(r Record) iter.Seq[*Record] {
	return func(yield func(*Record) bool) {
		for yield(&r) {
		}
	}
}

// One operation is a record: it is appended, and each time a batch is full it is compressed, sealed and begun again.
func BenchmarkBatch(b *testing.B) {
	all := samples(1000)
	for _, c := range compressions {
		b.Run(string(c), func(b *testing.B) {
			var batch Builder
			codec := NewCodec(c)
			plain, sent, i := 0, 0, 0
			b.SetBytes(int64(batch.SizeWith(&all[0]) - Overhead))
			b.ReportAllocs()
			for b.Loop() {
				r := &all[i%len(all)]
				i++
				if batch.Append(r, DefaultLimit) {
					continue
				}
				plain += batch.Size()
				batch.Compress(codec)
				sent += len(batch.Seal(1, 0, 0))
				batch.Reset(2 * DefaultLimit)
				batch.Append(r, DefaultLimit)
			}
			if sent > 0 {
				b.ReportMetric(float64(plain)/float64(sent), "ratio")
			}
		})
	}
}

func BenchmarkSeal(b *testing.B) {
	var batch Builder
	for r := range repeat(samples(1)[0]) {
		if !batch.Append(r, DefaultLimit) {
			break
		}
	}
	b.SetBytes(int64(batch.Size()))
	b.ReportAllocs()
	for b.Loop() {
		batch.Seal(1, 0, 0)
	}
}

func BenchmarkPartition(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		Partition("kluster/core/pods/default/web-0", 12)
	}
}
