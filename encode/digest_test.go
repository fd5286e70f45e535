// SPDX-License-Identifier: Apache-2.0

package encode

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/kube-eventbridge/kube-eventbridge/encode/jsonscan"
	"github.com/kube-eventbridge/kube-eventbridge/encode/jsonscan/jsonscantest"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
)

func digester(t testing.TB, all ...string) *Digester {
	t.Helper()
	var paths []jsonscan.Path
	for _, s := range all {
		paths = append(paths, jsonscan.MustParsePath(s))
	}
	return NewDigester(paths, nil)
}

func TestDigest_is_the_same_where_only_what_is_ignored_differs(t *testing.T) {
	for _, c := range []struct {
		paths, a, b string
		same        bool
	}{
		{
			"", `{"metadata":{"resourceVersion":"1","generation":1,"managedFields":[{"manager":"a"}],"name":"n"}}`,
			`{"metadata":{"resourceVersion":"2","name":"n"}}`, true,
		},
		{"", `{"metadata":{"name":"n"},"spec":{"x":1}}`, `{"metadata":{"name":"n"},"spec":{"x":2}}`, false},
		{"", `{"spec":{"generation":1}}`, `{"spec":{"generation":2}}`, false},
		{"", `{"metadata":{"labels":{"a":"b"}}}`, `{"metadata":{"labels":{"a":"c"}}}`, false},
		{"status", `{"spec":1,"status":{"x":1}}`, `{"spec":1,"status":{"x":[2]}}`, true},
		{"status", `{"spec":1}`, `{"spec":1,"status":{}}`, true},
		{"status", `{"status":{},"spec":1}`, `{"status":{},"spec":2}`, false},
		{"status.x", `{"status":{"x":1,"y":1}}`, `{"status":{"x":2,"y":1}}`, true},
		{"status.x", `{"status":{"x":1,"y":1}}`, `{"status":{"x":1,"y":2}}`, false},
		{"status.x", `{"spec":1}`, `{"spec":1,"status":{"x":1}}`, true},
		{
			`metadata.annotations["a/b"]`, `{"metadata":{"name":"n"}}`, `{"metadata":{"name":"n","annotations":{"a/b":"1"}}}`,
			true,
		},
		{
			`metadata.annotations["a/b"]`, `{"metadata":{"annotations":{"a/b":"1","c":"2"}}}`,
			`{"metadata":{"annotations":{"c":"2"}}}`, true,
		},
		{
			`metadata.annotations["a/b"]`, `{"metadata":{"annotations":{"a/b":"1","c":"2"}}}`,
			`{"metadata":{"annotations":{"a/b":"1"}}}`, false,
		},
		{"status.l[*].t", `{"status":{"l":[{"t":1,"s":1},{"t":2}]}}`, `{"status":{"l":[{"t":2,"s":1},{"t":3}]}}`, true},
		{"status.l[*].t", `{"status":{"l":[{"t":1,"s":1},{"t":2}]}}`, `{"status":{"l":[{"t":1,"s":1}]}}`, false},
		{"status.l[*].t", `{"status":{"l":[{"t":1},{"s":1}]}}`, `{"status":{"l":[{"s":1},{"t":1}]}}`, false},
		{"status.l.t", `{"status":{"l":[{"t":1,"s":1}]}}`, `{"status":{"l":[{"s":1}]}}`, true},
		{"status.l[*]", `{"status":{"l":[1,2]}}`, `{"status":{"l":[]}}`, true},
		{"spec.podSelector.x", `{"spec":{"podSelector":{}}}`, `{"spec":{}}`, false},
		{"spec.podSelector.x", `{"spec":{"y":1,"podSelector":{"x":1}}}`, `{"spec":{"y":1}}`, true},
		{"spec.from.s.x", `{"spec":{"from":[{"s":{}}]}}`, `{"spec":{"from":[{}]}}`, false},
		{"a b", `{"a":1,"c":{"b":1}}`, `{"b":2,"c":{"b":1}}`, true},
		{"a b", `{"a":1,"c":{"b":1}}`, `{"a":1,"c":{"b":2}}`, false},
		{"a", `{"b":"a\",\"c"}`, `{"b":"a","c":""}`, false},
	} {
		d := digester(t, strings.Fields(c.paths)...)
		assert.Equal(t, c.same, d.Digest([]byte(c.a)) == d.Digest([]byte(c.b)),
			"without %q, %s and %s are the same", c.paths, c.a, c.b)
	}
}

func TestDigest_of_other_paths_is_another(t *testing.T) {
	object := []byte(`{"spec":1}`)
	seen := map[[16]byte]string{}
	for _, paths := range []string{"", "status", "status.x", "status[*]", "status x", "statusx", `status["[*]"]`} {
		digest := digester(t, strings.Fields(paths)...).Digest(object)
		before, again := seen[digest]
		assert.False(t, again, "%q and %q have one digest", before, paths)
		seen[digest] = paths
	}
}

func TestDigest_of_no_object_is_zero(t *testing.T) {
	for _, s := range []string{
		"", " ", "null", "[]", `"x"`, "{", `{"a"`, `{"metadata":{"name":[}`, `{"metadata":{"managedFields":[`,
		`{"metadata":{"x":[1 2]`, `{"metadata":[1`,
		`{"metadata":` + strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000) + `}`,
	} {
		assert.Equal(t, [16]byte{}, digester(t).Digest([]byte(s)), "%.30q", s)
	}
}

func (n *tree) json(b *bytes.Buffer) {
	quote := func(s string) {
		q, _ := json.Marshal(s)
		b.Write(q)
	}
	switch {
	case n.kind == '"':
		quote(n.text)
	case n.kind != '{' && n.kind != '[':
		b.WriteString(n.text)
	default:
		b.WriteByte(byte(n.kind))
		for i, c := range n.children {
			if i > 0 {
				b.WriteByte(',')
			}
			if n.kind == '{' {
				quote(n.names[i])
				b.WriteByte(':')
			}
			c.json(b)
		}
		b.WriteByte(byte(n.kind) + 2)
	}
}

// What redaction changes is what a digest of the same paths does not see, and all else it does.
func TestDigest_sees_what_paths_do_not_name(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := must.Get(parseTree([]byte(jsonscantest.Objects{T: t}.Object(4))))(t)
		render := func() []byte {
			var b bytes.Buffer
			n.json(&b)
			return b.Bytes()
		}
		p := drawPath(t)
		d := NewDigester([]jsonscan.Path{p}, nil)
		before := render()
		n.redact(p.Steps())
		redacted := render()
		require.True(t, d.Digest(before) == d.Digest(redacted) && d.Digest(before) != [16]byte{},
			"without %v %s and %s have different digests", p.Steps(), before, redacted)
		if other := NewDigester(nil, nil); !bytes.Equal(before, redacted) && other.Digest(before) == other.Digest(redacted) &&
			!strings.Contains(string(before), "metadata") {
			t.Fatalf("%s and %s have one digest", before, redacted)
		}
	})
}

func FuzzDigest(f *testing.F) {
	for _, s := range hostile {
		f.Add([]byte(s), "spec.x")
	}
	f.Add(body(f, "pod.json"), "status.conditions[*].lastProbeTime")
	f.Fuzz(func(t *testing.T, b []byte, s string) {
		p, err := jsonscan.ParsePath(s)
		if err != nil {
			return
		}
		d := NewDigester([]jsonscan.Path{p}, nil)
		digest := d.Digest(b)
		require.Equal(t, d.Digest(b), digest, "%q has two digests", b)
		o, err := decode(b)
		known := digest != [16]byte{}
		require.True(t, !json.Valid(b) || err != nil || known == (o != nil), "%q: the digest is %x", b, digest)
	})
}

func BenchmarkDigest(b *testing.B) {
	d, object := digester(b, "status", `metadata.annotations["example.com/token"]`), body(b, "pod.json")
	b.SetBytes(int64(len(object)))
	b.ReportAllocs()
	for b.Loop() {
		d.Digest(object)
	}
}

func TestDigest_with_a_key_tells_only_who_has_it_what_is_the_same(t *testing.T) {
	object := []byte(`{"data":{"password":"aHVudGVyMg=="}}`)
	without, with, again, other := NewDigester(nil, nil), NewDigester(nil, []byte("a")), NewDigester(nil, []byte("a")),
		NewDigester(nil, []byte("b"))
	d := with.Digest(object)
	assert.True(t, d == again.Digest(object) && d != other.Digest(object) && d != without.Digest(object), "%x", d)
}
