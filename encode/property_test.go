// SPDX-License-Identifier: Apache-2.0

package encode

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
	"github.com/kube-eventbridge/kube-eventbridge/sink"
	"github.com/kube-eventbridge/kube-eventbridge/source"
)

// objects generates JSON made of the names and punctuation that a scanner could stumble over.
type objects struct {
	t      *rapid.T
	white  bool
	repeat bool
}

var (
	names = []string{
		"metadata", "managedFields", "annotations", lastApplied, "time", "manager", "creationTimestamp", "spec", "a", "", "m\u0065tadata", "tadata", "fieldsV1",
		`k:{"x":1},{`, `"`, `\`, "]},", "},{", "日本",
	}
	strs = []string{
		"", "x", "2026-01-02T03:04:05Z", "2026-12-31T23:59:59Z", "2026-01-02T03:04:05.5+01:00", "2026-02-30T00:00:00Z", "kubelet", `a"b`, `\`, `\"`, `}],"x":`, `]},"x`,
		`},{"manager":"m"`, `"managedFields":[`, `{"metadata":{`, "\n", "日本語", " ",
	}
)

func (o objects) space() string {
	if !o.white {
		return ""
	}
	return rapid.SampledFrom([]string{"", "", " ", "\n", "\t ", "\r\n"}).Draw(o.t, "space")
}

// text spells a string in one of the ways that JSON has.
func (o objects) text(s string) string {
	q := must.Get(json.Marshal(s))(o.t)
	if len(s) == 0 || rapid.IntRange(0, 9).Draw(o.t, "escape") > 0 {
		return string(q)
	}
	if strings.Contains(s, "/") {
		return strings.ReplaceAll(string(q), "/", `\/`)
	}
	if r := s[0]; r < 0x80 && r != '"' && r != '\\' && r >= ' ' {
		return fmt.Sprintf(`"\u%04x%s`, r, q[2:])
	}
	return string(q)
}

func (o objects) value(depth int) string {
	kinds := 7
	if depth == 0 {
		kinds = 5
	}
	switch rapid.IntRange(0, kinds-1).Draw(o.t, "kind") {
	case 0:
		return "null"
	case 1:
		return rapid.SampledFrom([]string{"0", "-1.5e+3", "true", "false"}).Draw(o.t, "scalar")
	case 2, 3, 4:
		return o.text(rapid.SampledFrom(strs).Draw(o.t, "text"))
	case 5:
		return o.list(depth - 1)
	default:
		return o.object(depth - 1)
	}
}

func (o objects) list(depth int) string {
	var items []string
	for range rapid.IntRange(0, 4).Draw(o.t, "items") {
		items = append(items, o.space()+o.value(depth)+o.space())
	}
	return "[" + strings.Join(items, ",") + "]"
}

func (o objects) object(depth int) string {
	var members []string
	used := map[string]bool{}
	for range rapid.IntRange(0, 6).Draw(o.t, "members") {
		name := rapid.SampledFrom(names).Draw(o.t, "name")
		if used[name] && !o.repeat {
			continue
		}
		used[name] = true
		members = append(members, o.space()+o.text(name)+o.space()+":"+o.space()+o.member(name, depth)+o.space())
	}
	return "{" + strings.Join(members, ",") + "}"
}

// member makes it likely that a name has what belongs to it.
func (o objects) member(name string, depth int) string {
	if depth > 0 && rapid.IntRange(0, 3).Draw(o.t, "fitting") > 0 {
		switch name {
		case "metadata", "annotations":
			return o.object(depth - 1)
		case "managedFields":
			return o.managed(depth - 1)
		}
	}
	return o.value(depth)
}

func (o objects) managed(depth int) string {
	var entries []string
	for range rapid.IntRange(0, 4).Draw(o.t, "entries") {
		entry := o.object(depth)
		if rapid.Bool().Draw(o.t, "like an API server") {
			times := strs[2:6]
			entry = `{"manager":` + o.text(rapid.SampledFrom(strs).Draw(o.t, "manager")) + `,"time":"` +
				rapid.SampledFrom(times).Draw(o.t, "time") + `","fieldsV1":` + o.object(min(depth, 1)) + `}`
		}
		entries = append(entries, o.space()+entry)
	}
	return "[" + strings.Join(entries, ",") + "]"
}

func draw(t *rapid.T, depth int) string {
	o := objects{t: t, white: rapid.Bool().Draw(t, "white"), repeat: rapid.Bool().Draw(t, "repeat")}
	return o.space() + o.object(depth) + o.space()
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
		o := objects{t: r}
		list := o.managed(2)
		if rapid.Bool().Draw(r, "as an API server sends it") {
			entry := `{"manager":"kubectl","time":"2026-01-02T03:04:05Z","fieldsV1":{"f:spec":` + o.object(1) + `}}`
			list = "[" + strings.Repeat(entry+",", rapid.IntRange(0, 3).Draw(r, "more")) + entry + "]"
		}
		b := []byte(`{"managedFields":` + list + rapid.SampledFrom([]string{`,"name":"x"}`, `},"spec":{}`, `}`}).Draw(r, "behind"))
		i := bytes.IndexByte(b, '[')
		var quick, slow walk
		end, ok := quick.landmarks(b, i)
		if !ok {
			return
		}
		found++
		if e := slow.entries(b, i); e != end || quick.changed != slow.changed || !bytes.Equal(quick.manager, slow.manager) {
			r.Errorf("%s: landmarks say %d %s %q, reading says %d %s %q", b, end, quick.changed, quick.manager, e, slow.changed, slow.manager)
		}
	})
	assert.NotEqual(t, 0, found, "no object had landmarks")
}

func TestSecret_of_any_form_keeps_its_values(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		o := objects{t: r, white: rapid.Bool().Draw(r, "white"), repeat: rapid.Bool().Draw(r, "repeat")}
		values := func(name string) string {
			v := strings.ReplaceAll(o.value(2), `"x"`, `"`+canary+`"`)
			return o.text(name) + o.space() + ":" + v
		}
		parts := []string{values("data"), values("stringData"), values("Data"), values("other"), o.text("metadata") + ":" + o.object(3)}
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
