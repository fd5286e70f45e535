// SPDX-License-Identifier: Apache-2.0

package encode

import (
	"testing"

	"github.com/kube-eventbridge/kube-eventbridge/sink"
	"github.com/kube-eventbridge/kube-eventbridge/source"
	"github.com/stretchr/testify/require"
)

// A message goes back to its pool between two changes, so its slices are there already.
func benchmark(b *testing.B, r source.Resource, file string, cfg Config) {
	e, m, c := New(source.Stream{Resource: r}, cfg), &sink.Message{}, change(b, source.Updated, file)
	b.SetBytes(int64(len(c.Body.Bytes())))
	b.ReportAllocs()
	for b.Loop() {
		require.NoError(b, e.Change(m, c))
	}
}

func BenchmarkChange_pod(b *testing.B) { benchmark(b, pods, "pod.json", config()) }

func BenchmarkChange_customResource(b *testing.B) {
	benchmark(b, databases, "customresource.json", config())
}

func BenchmarkChange_secret(b *testing.B) { benchmark(b, secrets, "secret.json", config()) }

func BenchmarkChange_structured(b *testing.B) {
	cfg := config()
	cfg.Mode = Structured
	benchmark(b, pods, "pod.json", cfg)
}

func BenchmarkChange_metadata(b *testing.B) {
	cfg := config()
	cfg.Payload = Metadata
	benchmark(b, pods, "pod.json", cfg)
}

func BenchmarkChange_redacted(b *testing.B) {
	for name, paths := range map[string][]string{
		"env":           {"spec.containers[*].env[*].value"},
		"annotation":    {`metadata.annotations["example.com/token"]`},
		"both":          {"spec.containers[*].env[*].value", `metadata.annotations["example.com/token"]`},
		"not-in-a-pod":  {"data[*]"},
		"all-of-status": {"status"},
	} {
		b.Run(name, func(b *testing.B) {
			cfg := config()
			for _, s := range paths {
				cfg.Redact = append(cfg.Redact, path(b, s))
			}
			benchmark(b, pods, "pod.json", cfg)
		})
	}
}

func BenchmarkChange_secretHashes(b *testing.B) {
	cfg := config()
	cfg.SecretHashes = NewHashes([]byte("0123456789abcdef"))
	benchmark(b, secrets, "secret.json", cfg)
}
