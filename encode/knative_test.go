// SPDX-License-Identifier: Apache-2.0

package encode

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"pgregory.net/rapid"

	"github.com/kube-eventbridge/kube-eventbridge/encode/jsonscan/jsonscantest"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
	"github.com/kube-eventbridge/kube-eventbridge/internal/sequence"
	"github.com/kube-eventbridge/kube-eventbridge/sink"
	"github.com/kube-eventbridge/kube-eventbridge/source"
)

// The wanted values are what makeEvent of Knative's adapter gives for the same objects.
func TestKnative_type_source_and_subject_are_those_of_its_adapter(t *testing.T) {
	resource := func(group, plural, kind string) source.Resource {
		return source.Resource{Group: group, Version: "v1", Resource: plural, Kind: kind, Namespaced: true}
	}
	for _, c := range []struct {
		resource      source.Resource
		op            source.Op
		payload       Payload
		typ, subject  string
		clusterScoped bool
	}{
		{pods, source.Added, Object, "resource.add", "/apis/v1/namespaces/ns/pods/n", false},
		{pods, source.Updated, Object, "resource.update", "/apis/v1/namespaces/ns/pods/n", false},
		{pods, source.Deleted, Object, "resource.delete", "/apis/v1/namespaces/ns/pods/n", false},
		{pods, source.Added, Metadata, "ref.add", "/apis/v1/namespaces/ns/pods/n", false},
		{pods, source.Updated, Metadata, "ref.update", "/apis/v1/namespaces/ns/pods/n", false},
		{pods, source.Deleted, Metadata, "ref.delete", "/apis/v1/namespaces/ns/pods/n", false},
		{databases, source.Added, Object, "resource.add", "/apis/example.com/v1/namespaces/ns/databases/n", false},
		{nodes, source.Added, Object, "resource.add", "/apis/v1/namespaces//nodes/n", true},
		{
			resource("example.com", "policies", "Policy"), source.Added, Object, "resource.add",
			"/apis/example.com/v1/namespaces/ns/policies/n", false,
		},
		{
			resource("example.com", "buses", "Bus"), source.Added, Object, "resource.add",
			"/apis/example.com/v1/namespaces/ns/buses/n", false,
		},
		{
			resource("", "endpoints", "Endpoints"), source.Added, Object, "resource.add", "/apis/v1/namespaces/ns/endpoints/n",
			false,
		},
		// It guesses the plural from the kind, whatever the resource is called.
		{
			resource("example.com", "dbs", "Database"), source.Added, Object, "resource.add",
			"/apis/example.com/v1/namespaces/ns/databases/n", false,
		},
	} {
		cfg := config()
		inKnative(&cfg)
		cfg.Payload = c.payload
		ch, m := ident(c.op, `{"metadata":{}}`), dirty()
		if c.clusterScoped {
			ch.Namespace = ""
		}
		require.NoError(t, New(source.Stream{Resource: c.resource}, cfg).Change(m, ch))
		for name, want := range map[string]string{
			"type": "dev.knative.apiserver." + c.typ, "source": "https://10.96.0.1:443", "subject": c.subject,
			"kind": c.resource.Kind, "apiversion": c.resource.APIVersion(), "name": "n", "namespace": ch.Namespace,
		} {
			assert.Equal(t, want, attribute(m, name), "%s of %s: %s", c.op, c.resource, name)
		}
	}
}

func TestGuessPlural_is_what_Knative_would_guess(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		kind := rapid.StringOfN(rapid.SampledFrom([]rune("Pods y")), 0, 5, -1).Draw(r, "stem") +
			rapid.SampledFrom([]string{"", "s", "y", "ss", "Endpoints", "Policy", "Gateway"}).Draw(r, "end")
		want, _ := meta.UnsafeGuessKindToResource(schema.GroupVersionKind{Kind: kind})
		assert.Equal(r, want.Resource, guessPlural(kind), "%q", kind)
	})
}

// A consumer of the mode Reference decodes the data into a reference to an object.
func TestKnative_metadata_can_be_read_as_a_reference_to_the_object(t *testing.T) {
	for _, r := range []source.Resource{pods, secrets} {
		for _, body := range []string{
			`{"metadata":{"labels":{"a":"b"}},"kind":"x"}`, `{}`,
			`{"metadata":{"name":"n"},"data":{"a":"Yg=="}}`,
		} {
			cfg := config()
			inKnative(&cfg)
			cfg.Payload = Metadata
			m := dirty()
			require.NoError(t, New(source.Stream{Resource: r}, cfg).Change(m, ident(source.Added, body)))
			var ref struct{ Kind, Namespace, Name, APIVersion string }
			if err := json.Unmarshal(m.Data, &ref); err != nil || ref.Namespace != "ns" || ref.Name != "n" ||
				attribute(m, "payload") != "metadata" {
				t.Errorf("%s of %s: got %+v, %v in %s", r, body, ref, err, m.Data)
			}
		}
	}
}

// What Knative's events have besides differs in nothing, so that a log can go from one profile to the other.
func TestKnative_changes_nothing_but_type_source_and_subject(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		own, stream := config(), drawStream(r)
		own.Mode = rapid.SampledFrom([]Mode{Binary, Structured}).Draw(r, "mode")
		own.WriterTerm = rapid.IntRange(0, 2).Draw(r, "term")
		other := own
		inKnative(&other)
		c := drawChange(r, stream)
		a, b := dirty(), dirty()
		for e, m := range map[*Encoder]*sink.Message{New(stream, own): a, New(stream, other): b} {
			require.NoError(r, e.Change(m, c))
		}
		assert.True(r, a.ID == b.ID && a.Key == b.Key && a.Subject == b.Subject && a.Shared == b.Shared &&
			a.Last == b.Last, "messages differ: %+v and %+v", a, b)
		want, data := parts(r, a)
		got, gotData := parts(r, b)
		for _, name := range []string{"type", "source", "subject"} {
			assert.NotEqual(r, want[name], got[name], "%s is %q in both", name, got[name])
			got[name] = want[name]
		}
		require.Len(r, got, len(want), "got %v, want %v", got, want)
		assert.Equal(r, gotData, data, "got %v, want %v", got, want)
		for name, value := range want {
			assert.Equal(r, value, got[name], name)
		}
	})
}

// Whatever the profile, what was written is what is read back.
func TestStateOf_any_profile_reads_what_was_written(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		stream, cfg := drawStream(r), config()
		cfg.Mode = rapid.SampledFrom([]Mode{Binary, Structured}).Draw(r, "mode")
		cfg.Payload = rapid.SampledFrom([]Payload{Object, Metadata}).Draw(r, "payload")
		cfg.WriterTerm = rapid.IntRange(0, 2).Draw(r, "term")
		if rapid.Bool().Draw(r, "in Knative's") {
			inKnative(&cfg)
		}
		c := drawChange(r, stream)
		e, m := New(stream, cfg), dirty()
		require.NoError(r, e.Change(m, c))
		want := State{
			ID: m.ID[17:], Type: typeOf(c.Op), Source: sourceOf(cfg.Cluster, stream.Resource), Pipeline: "audit",
			Namespace: c.Namespace, Name: c.Name, UID: c.UID, ResourceVersion: c.ResourceVersion, Kind: stream.Kind,
			Sequence:   sequence.Sequence{Epoch: c.Epoch, Version: c.Version, Step: stepOf(c.Op)},
			WriterTerm: int64(cfg.WriterTerm), Reason: c.Reason, Deleted: c.Op == source.Deleted,
		}
		if rapid.Bool().Draw(r, "refused") {
			e.Rejected(m, c, errors.New("no"), 1)
			want.ID, want.Type, want.Rejected = want.ID+".rejected", TypeRejected, true
		}
		got := must.Get(StateOf(stored(m)))(r)
		assert.Equal(r, want, got)
		if back, ok := ResourceOf(got.Source, cfg.Cluster); !ok || back.String() != stream.Resource.String() {
			r.Errorf("%s is read as %s, want %s", got.Source, back, stream.Resource)
		}
	})
}

// Knative's own adapter may publish to the same log.
func TestStateOf_refuses_what_Knative_wrote(t *testing.T) {
	for name, as := range map[string]map[string]string{
		"no key":          {},
		"another's key":   {"partitionkey": "pods", "apiversion": "v1"},
		"an unknown type": {"partitionkey": "c/core/pods/ns/n", "apiversion": "v1", "type": knativeResource + "patch"},
		"another group":   {"partitionkey": "c/apps/pods/ns/n", "apiversion": "v1"},
	} {
		s := &sink.Stored{Attributes: []sink.Attribute{
			{Name: "id", Value: "1"},
			{Name: "source", Value: "https://10.96.0.1:443"},
		}}
		if as["type"] == "" {
			as["type"] = knativeResource + "add"
		}
		for k, v := range as {
			s.Attributes = append(s.Attributes, sink.Attribute{Name: k, Value: v})
		}
		got, err := StateOf(s)
		assert.Error(t, err, "%s: got %+v", name, got)
	}
}

func TestNew_refuses_a_profile_that_it_cannot_write(t *testing.T) {
	for _, edit := range []func(*Config){
		func(c *Config) { c.Profile = "x" },
		func(c *Config) { c.Profile = Knative },
	} {
		func() {
			defer func() {
				assert.NotNil(t, recover(), "it was taken")
			}()
			cfg := config()
			edit(&cfg)
			New(source.Stream{Resource: pods}, cfg)
		}()
	}
}

func drawStream(r *rapid.T) source.Stream {
	return source.Stream{
		Resource:      rapid.SampledFrom([]source.Resource{pods, nodes, databases}).Draw(r, "resource"),
		LabelSelector: rapid.SampledFrom([]string{"", "a=b"}).Draw(r, "selector"),
	}
}

func drawChange(r *rapid.T, stream source.Stream) *source.Change {
	c := &source.Change{
		Op:    rapid.SampledFrom([]source.Op{source.Added, source.Updated, source.Deleted}).Draw(r, "op"),
		Ident: source.Ident{Name: drawName(r), UID: "u1", ResourceVersion: "7"}, Seen: seen,
		Reason:  rapid.SampledFrom([]source.Reason{source.ReasonWatch, source.ReasonRecovered}).Draw(r, "reason"),
		Epoch:   rapid.Uint64Range(0, sequence.MaxEpoch).Draw(r, "epoch"),
		Version: rapid.Uint64().Draw(r, "version"),
		Again:   rapid.Int64Range(0, 2).Draw(r, "again"),
		// The API server repeats no name, and nothing that repeats one could be read back in structured mode.
		Body: source.NewBody([]byte(jsonscantest.Objects{T: r, White: rapid.Bool().Draw(r, "white")}.Object(3))),
	}
	if stream.Namespaced {
		c.Namespace = rapid.SampledFrom([]string{"shop", "kube-system"}).Draw(r, "namespace")
	}
	if c.Op == source.Deleted && rapid.Bool().Draw(r, "found missing") {
		c.Body = nil
	}
	return c
}

func drawName(r *rapid.T) string {
	return strings.TrimSpace(kubernetesNames().Draw(r, "name")) + "x"
}

// parts returns the attributes and the data of a message in either mode.
func parts(r *rapid.T, m *sink.Message) (map[string]string, string) {
	as := map[string]string{}
	if m.ContentType == contentJSON {
		for _, a := range m.Attributes {
			as[a.Name] = a.Value
		}
		return as, string(m.Data)
	}
	var members map[string]json.RawMessage
	require.NoError(r, json.Unmarshal(m.Data, &members))
	for name, v := range members {
		as[name] = strings.Trim(string(v), `"`)
	}
	data := as["data"]
	delete(as, "data")
	return as, data
}

func BenchmarkStateOf(b *testing.B) {
	for _, profile := range []Profile{Own, Knative} {
		b.Run(string(profile), func(b *testing.B) {
			cfg, m := config(), &sink.Message{}
			cfg.Profile, cfg.Host = profile, "https://10.96.0.1:443"
			c := ident(source.Updated, "{}")
			c.Seen = time.Time{}
			require.NoError(b, New(source.Stream{Resource: pods}, cfg).Change(m, c))
			s := stored(m)
			s.Attributes = slices.Clone(s.Attributes)
			for b.Loop() {
				must.Get(StateOf(s))(b)
			}
		})
	}
}

func TestTypeIn_is_what_events_have(t *testing.T) {
	for _, payload := range []Payload{Object, Metadata} {
		for _, profile := range []Profile{Own, Knative} {
			e := New(source.Stream{Resource: pods}, Config{Profile: profile, Payload: payload, Host: "https://api:6443"})
			for _, op := range []source.Op{source.Added, source.Updated, source.Deleted} {
				got, want := TypeIn(profile, payload, typeOf(op)), e.typeOf(op)
				assert.Equal(t, want, got, "%s %s", profile, payload)
			}
			assert.Equal(t, TypeGap, TypeIn(profile, payload, TypeGap), "a marker has another type")
		}
	}
}
