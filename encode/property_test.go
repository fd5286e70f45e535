// SPDX-License-Identifier: Apache-2.0

package encode

import (
	"bytes"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/kube-eventbridge/kube-eventbridge/encode/jsonscan"
	"github.com/kube-eventbridge/kube-eventbridge/encode/jsonscan/jsonscantest"
	"github.com/kube-eventbridge/kube-eventbridge/encode/redact"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
	"github.com/kube-eventbridge/kube-eventbridge/sink"
	"github.com/kube-eventbridge/kube-eventbridge/source"
)

func draw(t *rapid.T, depth int) string {
	o := jsonscantest.Objects{T: t, White: rapid.Bool().Draw(t, "white"), Repeat: rapid.Bool().Draw(t, "repeat")}
	return o.Space() + o.Object(depth) + o.Space()
}

func TestChange_of_any_object_removes_what_decoding_it_would(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		b := []byte(draw(r, 5))
		cfg := config()
		cfg.Mode = rapid.SampledFrom([]Mode{Binary, Structured}).Draw(r, "mode")
		cfg.Payload = rapid.SampledFrom([]Payload{Object, Metadata}).Draw(r, "payload")
		cfg.Keep = rapid.SampledFrom([][]string{nil, {KeepManagedFields}, {KeepLastApplied}}).Draw(r, "keep")
		checkSplice(r, cfg, b)
	})
}

func TestLandmarks_never_differ_from_reading(t *testing.T) {
	found := 0
	rapid.Check(t, func(r *rapid.T) {
		o := jsonscantest.Objects{T: r}
		list := o.ManagedFields(2)
		if rapid.Bool().Draw(r, "as an API server sends it") {
			entry := `{"manager":"kubectl","time":"2026-01-02T03:04:05Z","fieldsV1":{"f:spec":` + o.Object(1) + `}}`
			list = "[" + strings.Repeat(entry+",", rapid.IntRange(0, 3).Draw(r, "more")) + entry + "]"
		}
		b := []byte(`{"managedFields":` + list + rapid.SampledFrom([]string{`,"name":"x"}`, `},"spec":{}`, `}`}).Draw(r,
			"behind"))
		i := bytes.IndexByte(b, '[')
		var quick, slow walk
		end, ok := quick.landmarks(b, i)
		if !ok {
			return
		}
		found++
		if e := slow.entries(b, i); e != end || quick.changed != slow.changed || !bytes.Equal(quick.manager, slow.manager) {
			r.Errorf("%s: landmarks say %d %s %q, reading says %d %s %q", b, end, quick.changed, quick.manager, e, slow.changed,
				slow.manager)
		}
	})
	assert.NotEqual(t, 0, found, "no object had landmarks")
}

func TestSecret_of_any_form_keeps_its_values(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		o := jsonscantest.Objects{T: r, White: rapid.Bool().Draw(r, "white"), Repeat: rapid.Bool().Draw(r, "repeat")}
		values := func(name string) string {
			v := strings.ReplaceAll(o.Value(2), `"x"`, `"`+canary+`"`)
			return o.Text(name) + o.Space() + ":" + v
		}
		parts := []string{
			values("data"), values("stringData"), values("Data"), values("other"),
			o.Text("metadata") + ":" + o.Object(3),
		}
		parts = rapid.Permutation(parts).Draw(r, "parts")
		b := "{" + strings.Join(parts, ",") + "}"
		cfg := config()
		cfg.Mode = rapid.SampledFrom([]Mode{Binary, Structured}).Draw(r, "mode")
		cfg.Payload = rapid.SampledFrom([]Payload{Object, Metadata}).Draw(r, "payload")
		checkSecret(r, cfg, []byte(b))
	})
}

// kubernetesNames generates what the API server takes as names, RBAC's among them.
func kubernetesNames() *rapid.Generator[string] {
	return rapid.StringOfN(rapid.SampledFrom([]rune("ab_.-*> :%A日\t")), 1, 8, -1)
}

func TestSubject_gives_each_object_its_own_and_can_be_read_back(t *testing.T) {
	subjects := map[string]source.Ident{}
	e := New(source.Stream{Resource: databases}, config())
	rapid.Check(t, func(r *rapid.T) {
		id := source.Ident{Name: kubernetesNames().Draw(r, "name")}
		if rapid.Bool().Draw(r, "namespaced") {
			id.Namespace = kubernetesNames().Draw(r, "namespace")
		}
		m := &sink.Message{}
		require.NoError(r, e.Change(m, &source.Change{Op: source.Added, Ident: id, Body: source.NewBody([]byte("{}"))}))
		other, ok := subjects[m.Subject]
		assert.True(r, !ok || other == id, "%v and %v have the same subject %s", id, other, m.Subject)
		subjects[m.Subject] = id
		assert.NoError(r, validSubject(m.Subject), "%q", m.Subject)
		tokens := strings.Split(m.Subject, ".")
		require.Len(r, tokens, 6, "%q has %d tokens", m.Subject, len(tokens))
		assert.Equal(r, id, (source.Ident{Namespace: unescape(r, tokens[4]), Name: unescape(r, tokens[5])}),
			"%q reads as", m.Subject)
	})
}

func unescape(t *rapid.T, token string) string {
	if token == "_" {
		return ""
	}
	return must.Get(url.PathUnescape(token))(t)
}

// validSubject is NATS' rule for a subject to publish on.
func validSubject(s string) error {
	for token := range strings.SplitSeq(s, ".") {
		if token == "" || strings.ContainsAny(token, "*> \t\r\n\x00") {
			return fmt.Errorf("token %q", token)
		}
	}
	return nil
}

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
				cfg.Redact = append(cfg.Redact, jsonscan.MustParsePath(s))
			}
			benchmark(b, pods, "pod.json", cfg)
		})
	}
}

func BenchmarkChange_secretHashes(b *testing.B) {
	cfg := config()
	cfg.SecretHashes = redact.NewHashes([]byte("0123456789abcdef"))
	benchmark(b, secrets, "secret.json", cfg)
}
