// SPDX-License-Identifier: Apache-2.0

package encode

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kube-eventbridge/kube-eventbridge/encode/jsonscan"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
	"github.com/kube-eventbridge/kube-eventbridge/internal/sequence"
	"github.com/kube-eventbridge/kube-eventbridge/sink"
	"github.com/kube-eventbridge/kube-eventbridge/source"
)

var update = flag.Bool("update", false, "write the golden files again")

var (
	pods      = source.Resource{Version: "v1", Resource: "pods", Kind: "Pod", Namespaced: true}
	secrets   = source.Resource{Version: "v1", Resource: "secrets", Kind: "Secret", Namespaced: true}
	nodes     = source.Resource{Version: "v1", Resource: "nodes", Kind: "Node"}
	databases = source.Resource{
		Group: "example.com", Version: "v1", Resource: "databases", Kind: "Database",
		Namespaced: true,
	}

	seen = time.Date(2026, 8, 20, 14, 30, 0, 123_456_789, time.FixedZone("CEST", 7200))
)

func body(t testing.TB, file string) []byte {
	t.Helper()
	b := must.Get(os.ReadFile(filepath.Join("testdata", file)))(t)
	return bytes.TrimSpace(b)
}

// epoch is that of changes and markers.
const epoch = 1787236200

// change returns a change with the identity that the file's metadata have.
func change(t testing.TB, op source.Op, file string) *source.Change {
	t.Helper()
	b := body(t, file)
	var o struct {
		Metadata struct{ Namespace, Name, UID, ResourceVersion string }
	}
	require.NoError(t, json.Unmarshal(b, &o))
	version := must.Get(strconv.ParseUint(o.Metadata.ResourceVersion, 10, 64))(t)
	return &source.Change{
		Op: op, Ident: source.Ident(o.Metadata), Body: source.NewBody(b), Reason: source.ReasonWatch, Seen: seen,
		Epoch: epoch, Version: version,
	}
}

func config() Config { return Config{Cluster: "prod-eu.1", Pipeline: "audit"} }

// wireCase is one message of each form that the event reference has.
type wireCase struct {
	name   string
	stream source.Stream
	config func(*Config)
	write  func(*testing.T, *Encoder, *sink.Message)
}

func changed(op source.Op, file string, edit ...func(*source.Change)) func(*testing.T, *Encoder, *sink.Message) {
	return func(t *testing.T, e *Encoder, m *sink.Message) {
		c := change(t, op, file)
		for _, f := range edit {
			f(c)
		}
		require.NoError(t, e.Change(m, c))
	}
}

func marked(k source.Marker) func(*testing.T, *Encoder, *sink.Message) {
	return func(_ *testing.T, e *Encoder, m *sink.Message) { k.Seen, k.Epoch = seen, epoch; e.Marker(m, k) }
}

func inKnative(c *Config) { c.Profile, c.Host = Knative, "https://10.96.0.1:443" }

func both(f, g func(*Config)) func(*Config) { return func(c *Config) { f(c); g(c) } }

// gone is found missing by a list, whose version is greater than that of the object.
func gone(c *source.Change) { c.Body, c.Reason, c.Version = nil, source.ReasonRelist, c.Version+100 }

func deselected(c *source.Change) { c.Body, c.Reason = nil, source.ReasonDeselected }

func withoutUID(c *source.Change) { c.UID = "" }

func redactPaths(all ...string) func(*Config) {
	return func(c *Config) {
		for _, s := range all {
			c.Redact = append(c.Redact, jsonscan.MustParsePath(s))
		}
	}
}

func wireCases(t *testing.T) []wireCase {
	t.Helper()
	none := func(*Config) {}
	structured := func(c *Config) { c.Mode, c.WriterTerm = Structured, 7 }
	metadata := func(c *Config) { c.Payload = Metadata }
	pod := source.Stream{Resource: pods}
	database := source.Stream{Resource: databases}
	secret := source.Stream{Resource: secrets}
	selective := source.Stream{Resource: pods, Namespace: "shop", LabelSelector: `app in ("a","b")`}
	again := func(c *source.Change) { c.Count, c.Again, c.Reason = 3, epoch+60, source.ReasonResync }
	gap := source.Marker{Kind: source.MarkerGap, From: "100", To: "250"}
	gap.Cause, gap.Message = source.CauseExpired, `the server said "too old"`
	reduced := func(t *testing.T, e *Encoder, m *sink.Message) {
		require.NoError(t, e.Reduced(m, change(t, source.Updated, "customresource.json"), 1400123, ""))
	}
	kept := func(t *testing.T, e *Encoder, m *sink.Message) {
		require.NoError(t, e.Reduced(m, change(t, source.Added, "secret.json"), 3000000, "nats-obj:KUBERNETES-objects/x"))
	}
	rejected := func(t *testing.T, e *Encoder, m *sink.Message) {
		e.Rejected(m, change(t, source.Updated, "pod.json"), errors.New(`message "size" exceeds maximum`), 1048577)
	}
	rejectedEnd := func(t *testing.T, e *Encoder, m *sink.Message) {
		e.Rejected(m, change(t, source.Deleted, "pod.json"), errors.New("not permitted"), 4000)
	}
	since := func(t *testing.T, e *Encoder, m *sink.Message) {
		if _, err := e.ChangeFrom(m, change(t, source.Updated, "customresource.json"), oldOf(t, e, "customresource.json"),
			nil); err != nil {
			t.Fatal(err)
		}
	}
	payload := func(p Payload) func(*Config) { return func(c *Config) { c.Payload = p } }
	return []wireCase{
		{"updated-merge-patch", database, payload(MergePatch), since},
		{"updated-json-patch", database, payload(JSONPatch), since},
		{"updated-json-patch-structured", database, both(structured, payload(JSONPatch)), since},
		{"updated-change", database, payload(Change), since},
		{"updated-merge-patch-unknown", pod, payload(MergePatch), changed(source.Updated, "pod.json")},
		{"added-change", pod, payload(Change), changed(source.Added, "pod.json")},
		{"added", pod, none, changed(source.Added, "pod.json")},
		{"updated", pod, none, changed(source.Updated, "pod.json", again)},
		{"deleted", pod, none, changed(source.Deleted, "pod.json")},
		{"deleted-found-missing", pod, none, changed(source.Deleted, "pod.json", gone)},
		{"deleted-selective", selective, none, changed(source.Deleted, "pod.json")},
		{"deleted-deselected", selective, none, changed(source.Deleted, "pod.json", deselected)},
		{"deleted-without-uid", pod, none, changed(source.Deleted, "pod.json", withoutUID, deselected)},
		{
			"deleted-cluster-scoped-found-missing",
			source.Stream{Resource: nodes},
			none,
			changed(source.Deleted, "node.json", gone),
		},
		{"cluster-scoped", source.Stream{Resource: nodes}, none, changed(source.Added, "node.json")},
		{"custom-resource", database, none, changed(source.Updated, "customresource.json")},
		{
			"custom-resource-kept", database, func(c *Config) { c.Keep = []string{KeepManagedFields, KeepLastApplied} },
			changed(source.Updated, "customresource.json"),
		},
		{"custom-resource-metadata", database, metadata, changed(source.Updated, "customresource.json")},
		{"secret", secret, none, changed(source.Added, "secret.json")},
		{
			"secret-kept", secret, func(c *Config) { c.Keep = []string{KeepManagedFields, KeepLastApplied} },
			changed(source.Added, "secret.json"),
		},
		{"secret-metadata", secret, metadata, changed(source.Added, "secret.json")},
		{"secret-values", secret, func(c *Config) { c.SecretValues = true }, changed(source.Added, "secret.json")},
		{"deleted-again-by-a-leader", pod, func(c *Config) { c.WriterTerm = 7 }, changed(source.Deleted, "pod.json", again)},
		{"redacted", pod, redactPaths("spec.nodeName", "spec.none"), changed(source.Added, "pod.json")},
		{"structured", database, structured, changed(source.Updated, "customresource.json", again)},
		{"structured-metadata", pod, func(c *Config) { structured(c); metadata(c) }, changed(source.Added, "pod.json")},
		{"structured-secret", secret, structured, changed(source.Added, "secret.json")},
		{"marker-gap", selective, none, marked(gap)},
		{"marker-gap-structured", selective, structured, marked(gap)},
		{"marker-snapshot-started", pod, none, marked(source.Marker{Kind: source.MarkerSnapshotStarted, To: "250"})},
		{"marker-snapshot-completed", pod, none, marked(source.Marker{
			Kind: source.MarkerSnapshotCompleted, To: "250",
			Objects: 42,
		})},
		{"marker-resync-started", pod, none, marked(source.Marker{Kind: source.MarkerResyncStarted, Number: epoch + 60})},
		{"marker-resync-completed", selective, none, marked(source.Marker{
			Kind: source.MarkerResyncCompleted, Number: epoch + 60, To: "260", Objects: 42, Complete: true,
		})},
		{"marker-resync-incomplete-structured", pod, structured, marked(source.Marker{
			Kind: source.MarkerResyncCompleted, Number: epoch + 60, To: "260", Objects: 41,
		})},
		{"rejected", pod, none, rejected},
		{"rejected-deletion", pod, none, rejectedEnd},
		{"rejected-structured", pod, structured, rejected},
		{"reduced", database, none, reduced},
		{"reduced-structured", database, structured, reduced},
		{"reduced-knative", database, inKnative, reduced},
		{"reduced-secret-kept-elsewhere", secret, none, kept},
		{"knative", database, inKnative, changed(source.Updated, "customresource.json")},
		{"knative-core", pod, inKnative, changed(source.Deleted, "pod.json")},
		{"knative-cluster-scoped", source.Stream{Resource: nodes}, inKnative, changed(source.Added, "node.json")},
		{"knative-reference", database, both(inKnative, metadata), changed(source.Updated, "customresource.json")},
		{"knative-reference-secret", secret, both(inKnative, metadata), changed(source.Added, "secret.json")},
		{"knative-reference-found-missing", pod, both(inKnative, metadata), changed(source.Deleted, "pod.json", gone)},
		{"knative-structured", pod, both(inKnative, structured), changed(source.Updated, "pod.json", again)},
		{"knative-marker-gap", selective, inKnative, marked(gap)},
		{"knative-rejected", pod, inKnative, rejected},
	}
}

func (w wireCase) message(t *testing.T) *sink.Message {
	t.Helper()
	cfg := config()
	w.config(&cfg)
	m := dirty()
	w.write(t, New(w.stream, cfg), m)
	return m
}

// dirty returns a message as it comes back from a pool.
func dirty() *sink.Message {
	return &sink.Message{
		Subject: "old", Key: "old", ID: "old", Attributes: []sink.Attribute{{Name: "old", Value: "old"}},
		ContentType: "old", Data: []byte("old"), Verify: true, Previous: 9, Shared: true,
	}
}

func render(m *sink.Message) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "subject      %s\nkey          %s\nid           %s\ncontent type %s\nshared       %t\n\n",
		m.Subject, m.Key, m.ID, m.ContentType, m.Shared)
	for _, a := range m.Attributes {
		fmt.Fprintf(&b, "%-15s %s\n", a.Name, a.Value)
	}
	fmt.Fprintf(&b, "\n%s\n", m.Data)
	return b.Bytes()
}

func TestMessages_are_as_in_the_golden_files(t *testing.T) {
	for _, w := range wireCases(t) {
		t.Run(w.name, func(t *testing.T) {
			m := w.message(t)
			got, file := render(m), filepath.Join("testdata", w.name+".golden")
			if *update {
				require.NoError(t, os.WriteFile(file, got, 0o600))
			}
			want := must.Get(os.ReadFile(file))(t)
			assert.Equal(t, want, got, file)
			assert.False(t, m.Verify, "what the pool's message asked to verify is still there")
			assert.EqualValues(t, 0, m.Previous, "what the pool's message asked to verify is still there")
			assert.True(t, json.Valid(m.Data), "the data is not valid JSON")
		})
	}
}

func attribute(m *sink.Message, name string) string {
	for _, a := range m.Attributes {
		if a.Name == name {
			return a.Value
		}
	}
	return ""
}

func TestChange_time_is_what_the_object_tells(t *testing.T) {
	const read = "2026-08-20T12:30:00.123Z"
	entry := func(at, manager string) string { return `{"manager":"` + manager + `","time":` + at + `}` }
	created := `"creationTimestamp":"2026-01-01T00:00:00Z"`
	for _, c := range []struct{ name, metadata, time, manager string }{
		{"nothing", ``, read, ""},
		{"created null", `"creationTimestamp":null`, read, ""},
		{"created", created, "2026-01-01T00:00:00Z", ""},
		{"no entries", created + `,"managedFields":[]`, "2026-01-01T00:00:00Z", ""},
		{"the newest entry", created + `,"managedFields":[` + entry(`"2026-03-01T00:00:00Z"`, "b") + `,` +
			entry(`"2026-02-01T00:00:00Z"`, "a") + `]`, "2026-03-01T00:00:00Z", "b"},
		{"two within a second", `"managedFields": [ ` + entry(`"2026-03-01T00:00:00Z"`, "a") + ` , ` +
			entry(`"2026-03-01T00:00:00Z"`, "b") + ` ]`, "2026-03-01T00:00:00Z", ""},
		{"the same one twice", `"managedFields":[` + entry(`"2026-03-01T00:00:00Z"`, "a") + `,` +
			entry(`"2026-03-01T00:00:00Z"`, "a") + `]`, "2026-03-01T00:00:00Z", "a"},
		{
			"two within a second, then a newer one", `"managedFields":[` + entry(`"2026-03-01T00:00:00Z"`, "a") + `,` +
				entry(`"2026-03-01T00:00:00Z"`, "b") + `,` + entry(`"2026-03-01T00:00:01Z"`, "c") + `]`,
			"2026-03-01T00:00:01Z", "c",
		},
		{"entries without times", created + `,"managedFields":[{"manager":"a"},{"manager":"b"}]`, "2026-01-01T00:00:00Z", ""},
		{
			"another zone, a fraction", `"managedFields":[` + entry(`"2026-03-01T02:00:00.5+02:00"`, "a") + `]`,
			"2026-03-01T00:00:00Z", "a",
		},
		{"the last day of a month", `"creationTimestamp":"2026-02-28T23:59:59Z"`, "2026-02-28T23:59:59Z", ""},
		{"a leap day", `"creationTimestamp":"2028-02-29T23:59:59Z"`, "2028-02-29T23:59:59Z", ""},
		{"a day that does not exist", `"creationTimestamp":"2026-02-30T00:00:00Z"`, read, ""},
		{"a month that does not exist", `"creationTimestamp":"2026-13-01T00:00:00Z"`, read, ""},
		{"an hour that does not exist", `"creationTimestamp":"2026-12-01T24:00:00Z"`, read, ""},
		{"not a time", `"creationTimestamp":"yesterday, at nine o'"`, read, ""},
		{
			"escapes", `"managedFields":[{"m\u0061nager":"\u00e4 \"b\"","\u0074ime":"2026-03-01T00:00:00\u005a"}]`,
			"2026-03-01T00:00:00Z", `ä "b"`,
		},
		{
			"the manager is no string", `"managedFields":[{"manager":{"a":1},"time":"2026-03-01T00:00:00Z"}]`,
			"2026-03-01T00:00:00Z", "",
		},
		{"odd entries", `"managedFields":[null,1,"x",[{"manager":"no"}],{"manager":"no"}]`, read, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			m, ch := &sink.Message{}, ident(source.Added, `{"metadata":{`+c.metadata+`}}`)
			e := New(source.Stream{Resource: pods}, config())
			require.NoError(t, e.Change(m, ch))
			assert.Equal(t, c.time, attribute(m, "time"))
			assert.Equal(t, c.manager, attribute(m, "fieldmanager"))
			ch.Op = source.Deleted
			require.NoError(t, e.Change(m, ch))
			assert.Equal(t, read+"/", attribute(m, "time")+"/"+attribute(m, "fieldmanager"), "of a deletion")
		})
	}
}

// A write through the scale subresource leaves no time, and one that removes a field may take an entry away.
func TestChange_time_is_that_of_no_older_write(t *testing.T) {
	const read, at = "2026-08-20T12:30:00.123Z", "2026-03-01T00:00:00Z"
	written := must.Get(time.Parse(time.RFC3339, at))(t).Unix()
	for _, c := range []struct {
		name          string
		follows       bool
		before        int64
		time, manager string
	}{
		{"the first state", false, 0, at, "m"},
		{"newer than the state before", true, written - 1, at, "m"},
		{"of the time of the state before", true, written, read, ""},
		{"older than the state before", true, written + 1, read, ""},
		{"it is not known when the state before was written", true, 0, read, ""},
	} {
		m := &sink.Message{}
		ch := ident(source.Updated,
			`{"metadata":{"creationTimestamp":"2026-01-01T00:00:00Z","managedFields":[{"manager":"m","time":"`+at+`"}]}}`)
		ch.Follows, ch.Before = c.follows, c.before
		require.NoError(t, New(source.Stream{Resource: pods}, config()).Change(m, ch))
		assert.Equal(t, c.time+"/"+c.manager, attribute(m, "time")+"/"+attribute(m, "fieldmanager"), c.name)
	}
}

func TestWritten_is_the_newest_time_of_managedFields(t *testing.T) {
	entry := func(at string) string { return `{"manager":"m","time":"` + at + `"}` }
	for metadata, want := range map[string]string{
		``: "",
		`"creationTimestamp":"2026-01-01T00:00:00Z"`:              "",
		`"managedFields":[]`:                                      "",
		`"managedFields":[{"manager":"m"}]`:                       "",
		`"managedFields":[` + entry("2026-02-28T23:59:59Z") + `]`: "2026-02-28T23:59:59Z",
		`"managedFields":[` + entry("2028-02-29T00:00:00Z") + `,` + entry("2026-11-17T01:02:03Z") +
			`]`: "2028-02-29T00:00:00Z",
		`"managedFields":[` + entry("2026-11-17T01:02:03Z") + `,{},` + entry("2026-11-17T02:02:04.5+01:00") +
			`]`: "2026-11-17T01:02:04Z",
	} {
		var seconds int64
		if want != "" {
			seconds = must.Get(time.Parse(time.RFC3339, want))(t).Unix()
		}
		body := `{"metadata":{` + metadata + `}}`
		assert.Equal(t, seconds, Written([]byte(body)), body)
		c := ident(source.Updated, body)
		require.NoError(t, New(source.Stream{Resource: pods}, config()).Change(&sink.Message{}, c))
		assert.Equal(t, seconds, c.Written, body)
	}
	assert.Zero(t, Written([]byte("x")))
}

func ident(op source.Op, body string) *source.Change {
	return &source.Change{
		Op: op, Ident: source.Ident{Namespace: "ns", Name: "n", UID: "u", ResourceVersion: "7"},
		Body: source.NewBody([]byte(body)), Reason: source.ReasonWatch, Seen: seen, Epoch: epoch, Version: 7,
	}
}

func TestChange_id_has_the_numbers_of_the_sequence(t *testing.T) {
	plain := source.Stream{Resource: pods}
	selective := source.Stream{Resource: pods, LabelSelector: "a=b"}
	for _, c := range []struct {
		stream source.Stream
		op     source.Op
		uid    string
		again  int64
		want   string
	}{
		{plain, source.Added, "u", 0, "u.1787236200.7.0"},
		{plain, source.Updated, "u", 0, "u.1787236200.7.0"},
		{plain, source.Deleted, "u", 0, "u.1787236200.7.1"},
		{selective, source.Updated, "u", 0, "u.1787236200.7.0"},
		{selective, source.Deleted, "u", 0, "u.1787236200.7.1"},
		{plain, source.Updated, "u", 3, "u.1787236200.7.0.r3"},
		{plain, source.Deleted, "u", 1787236260, "u.1787236200.7.1.r1787236260"},
		// FNV-1a-64 of prod-eu.1/core/pods/ns/n.
		{plain, source.Updated, "", 0, "bd16f99031877ad2.1787236200.7.0"},
		{selective, source.Deleted, "", 3, "bd16f99031877ad2.1787236200.7.1.r3"},
	} {
		e, ch := New(c.stream, config()), ident(c.op, "{}")
		ch.UID, ch.Again = c.uid, c.again
		m := &sink.Message{}
		require.NoError(t, e.Change(m, ch))
		assert.Equal(t, c.want, attribute(m, "id"), "id")
		require.True(t, strings.HasSuffix(m.ID, "."+c.want), "message id, want 16 hex digits, a dot and %q", c.want)
		assert.Len(t, m.ID, 17+len(c.want), "message id, want 16 hex digits, a dot and %q", c.want)
		if c.uid != "" {
			plain := sequence.Sequence{Epoch: epoch, Version: 7, Step: stepOf(c.op)}.ID(c.uid)
			if c.again != 0 {
				plain = sequence.Republished(plain, c.again)
			}
			assert.Equal(t, plain, c.want, "package sequence")
		}
		e.Rejected(m, ch, errors.New("x"), 1)
		assert.Equal(t, sequence.Rejected(c.want), attribute(m, "id"), "id of the rejected")
	}
}

func stepOf(op source.Op) uint8 {
	if op == source.Deleted {
		return sequence.End
	}
	return sequence.State
}

func TestMessage_ids_of_pipelines_and_sources_differ(t *testing.T) {
	ids := map[string]bool{}
	for _, pipeline := range []string{"a", "b"} {
		for _, r := range []source.Resource{pods, secrets, databases} {
			m := &sink.Message{}
			e := New(source.Stream{Resource: r}, Config{Cluster: "c", Pipeline: pipeline})
			require.NoError(t, e.Change(m, ident(source.Added, "{}")))
			ids[m.ID] = true
		}
	}
	assert.Len(t, ids, 6, "ids of 6 events of different pipelines and sources")
}

// What a log needs to know of a message that is not in its event.
func TestMessage_says_where_it_goes_and_whether_it_is_the_last(t *testing.T) {
	for _, bare := range []bool{false, true} {
		cfg := config()
		cfg.BareIDs = bare
		e, m := New(source.Stream{Resource: pods}, cfg), &sink.Message{}
		for _, op := range []source.Op{source.Added, source.Updated, source.Deleted} {
			require.NoError(t, e.Change(m, ident(op, `{"metadata":{}}`)))
			assert.False(t, m.Everywhere, "%s: everywhere, last", op)
			assert.Equal(t, (op == source.Deleted), m.Last, "%s: everywhere, last", op)
			if id := attribute(m, "id"); bare != (m.ID == id) || !strings.HasSuffix(m.ID, id) {
				t.Errorf("%s, bare %v: the message's id is %q, the event's %q", op, bare, m.ID, id)
			}
		}
		e.Marker(m, source.Marker{Kind: source.MarkerGap, From: "1", To: "2"})
		require.True(t, m.Everywhere, "marker: everywhere, last")
		assert.False(t, m.Last, "marker: everywhere, last")
	}
}

func TestSequence_of_events_sorts_as_text_as_its_numbers_do(t *testing.T) {
	e := New(source.Stream{Resource: pods}, config())
	write := map[string]func(m *sink.Message, c *source.Change){
		"published": func(m *sink.Message, c *source.Change) { require.NoError(t, e.Change(m, c)) },
		"rejected":  func(m *sink.Message, c *source.Change) { e.Rejected(m, c, errors.New("no"), 1) },
		"reduced":   func(m *sink.Message, c *source.Change) { require.NoError(t, e.Reduced(m, c, 9, "")) },
	}
	for name, write := range write {
		var texts []string
		for _, at := range []uint64{0, 1, 9, 10, 999_999_999, 1_787_236_200, sequence.MaxEpoch} {
			for _, version := range []uint64{0, 7, 10, 99, 48_211_734, 1<<63 - 1, 1 << 63, 1<<64 - 1} {
				for _, op := range []source.Op{source.Updated, source.Deleted} {
					c, m := ident(op, "{}"), &sink.Message{}
					c.Epoch, c.Version = at, version
					write(m, c)
					want := sequence.Sequence{Epoch: at, Version: version, Step: stepOf(op)}
					text := attribute(m, "sequence")
					assert.Equal(t, want.String(), text, name)
					assert.Equal(t, want, must.Get(sequence.Parse(text))(t), name)
					texts = append(texts, text)
				}
			}
		}
		assert.True(t, slices.IsSorted(texts) && len(slices.Compact(texts)) == 7*8*2, "%s: %v", name, texts)
	}
}

// The stream gives a number to a version that is none.
func TestSequence_does_not_depend_on_the_resourceVersion(t *testing.T) {
	for _, version := range []string{"7", "18446744073709551616", "", "1a", "-1", "1.5"} {
		c, m := ident(source.Added, "{}"), &sink.Message{}
		c.ResourceVersion = version
		require.NoError(t, New(source.Stream{Resource: pods}, config()).Change(m, c))
		assert.Equal(t, "1787236200.00000000000000000007.0", attribute(m, "sequence"), "%q", version)
		assert.Equal(t, "u.1787236200.7.0", attribute(m, "id"), "%q", version)
		assert.Equal(t, version, attribute(m, "resourceversion"))
	}
}

func TestChange_refuses_what_is_no_object(t *testing.T) {
	for _, b := range []string{
		"", " ", "null", "[]", `"x"`, "1", "{", "}", `{"a"`, `{"a":`, `{"a":}`, `{"a" 1}`, `{"a":1 "b":2}`,
		`{"metadata":{"a":1}`, `{"metadata":{"annotations":{}`,
		`{"metadata":{"managedFields":[{"time":"`, `{"metadata":{"managedFields":[`, `{a:1}`,
		`{"metadata":{"managedFields":[{"time":}`, `{"a":"}`, `{"a":"\"}`, "[{}", "{\"metadata\":{\"creationTimestamp\":}",
	} {
		m := dirty()
		err := New(source.Stream{Resource: pods}, config()).Change(m, ident(source.Added, b))
		if !errors.Is(err, jsonscan.ErrNotObject) {
			t.Errorf("%q: error is %v, want %v", b, err, jsonscan.ErrNotObject)
		} else if !strings.Contains(err.Error(), "pods.v1 ns/n") {
			t.Errorf("%q: error %q does not say which object", b, err)
		}
	}
}

func TestRejected_takes_what_Change_refuses(t *testing.T) {
	for _, b := range []*source.Body{nil, source.NewBody([]byte("garbage")), source.NewBody(nil)} {
		c, m := ident(source.Deleted, ""), dirty()
		c.Body = b
		New(source.Stream{Resource: pods}, config()).Rejected(m, c, errors.New("no"), 5)
		want := `{"type":"io.kube-eventbridge.resource.deleted.v1","error":"no","size":5}`
		assert.Equal(t, want, string(m.Data), "data is %s", m.Data)
	}
}

func TestChange_leaves_the_body_alone_and_shares_nothing_with_it(t *testing.T) {
	for _, keep := range [][]string{nil, {KeepManagedFields, KeepLastApplied}} {
		c, m := change(t, source.Added, "pod.json"), &sink.Message{}
		cfg := config()
		cfg.Keep = keep
		require.NoError(t, New(source.Stream{Resource: pods}, cfg).Change(m, c))
		clear(m.Data[:cap(m.Data)])
		assert.Equal(t, body(t, "pod.json"), c.Body.Bytes(), "writing into the message's data changed the body")
	}
}

func TestNew_panics_on_what_configuration_must_have_refused(t *testing.T) {
	for name, cfg := range map[string]Config{
		"mode": {Mode: "x"}, "payload": {Payload: "x"},
		"keep": {Keep: []string{"x"}},
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				r := recover()
				assert.True(t, r != nil && strings.HasPrefix(fmt.Sprint(r), "BUG: "), "recovered %v, want a BUG", r)
			}()
			New(source.Stream{Resource: pods}, cfg)
		})
	}
}

func TestEncoder_is_safe_for_concurrent_use(t *testing.T) {
	e := New(source.Stream{Resource: pods}, config())
	want := &sink.Message{}
	require.NoError(t, e.Change(want, change(t, source.Added, "pod.json")))
	for i := range 4 {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			m := &sink.Message{}
			for range 100 {
				if err := e.Change(m, change(t, source.Added, "pod.json")); err != nil || !bytes.Equal(render(m), render(want)) {
					t.Fatal("another message, or an error", err)
				}
			}
		})
	}
}

func stored(m *sink.Message) *sink.Stored {
	return &sink.Stored{Sequence: 7, ID: m.ID, Attributes: m.Attributes, ContentType: m.ContentType, Data: m.Data}
}

func TestStateOf_reads_what_was_written_in_both_modes(t *testing.T) {
	for _, mode := range []Mode{Binary, Structured} {
		for _, stream := range []source.Stream{{Resource: pods}, {Resource: pods, LabelSelector: "a=b"}} {
			for _, op := range []source.Op{source.Added, source.Updated, source.Deleted} {
				for _, refused := range []bool{false, true} {
					cfg, c, m := config(), change(t, op, "pod.json"), dirty()
					cfg.Mode, cfg.WriterTerm, c.Again, c.Reason = mode, 3, 1, source.ReasonResync
					e := New(stream, cfg)
					require.NoError(t, e.Change(m, c))
					want := State{
						ID: m.ID[17:], Type: typeOf(op), Source: "/clusters/prod-eu.1/api/v1/pods", Pipeline: "audit",
						Namespace: c.Namespace, Name: c.Name, UID: c.UID, ResourceVersion: c.ResourceVersion, Kind: "Pod",
						Sequence:   sequence.Sequence{Epoch: epoch, Version: c.Version, Step: stepOf(op)},
						WriterTerm: 3, Reason: source.ReasonResync, Deleted: op == source.Deleted, Rejected: refused,
					}
					if refused {
						e.Rejected(m, c, errors.New("no"), 1)
						want.ID, want.Type = want.ID+".rejected", TypeRejected
					}
					got := must.Get(StateOf(stored(m)))(t)
					assert.Equal(t, want, got, "%s %s", mode, op)
					assert.Equal(t, c.Key(), got.Key(), "key")
				}
			}
		}
	}
}

func TestStateOf_a_binary_message_needs_no_data(t *testing.T) {
	m := dirty()
	require.NoError(t, New(source.Stream{Resource: nodes}, config()).Change(m, change(t, source.Added, "node.json")))
	s := stored(m)
	s.Data, s.ContentType = nil, ""
	got, err := StateOf(s)
	assert.True(t, err == nil && got.Key() == "worker-1.example.com", "got %+v, %v", got, err)
}

func TestStateOf_a_marker_is_about_no_object(t *testing.T) {
	for _, mode := range []Mode{Binary, Structured} {
		cfg, m := config(), dirty()
		cfg.Mode = mode
		for kind, typ := range map[source.MarkerKind]string{
			source.MarkerGap: TypeGap, source.MarkerSnapshotStarted: TypeSnapshotStarted,
			source.MarkerSnapshotCompleted: TypeSnapshotCompleted, source.MarkerResyncStarted: TypeResyncStarted,
			source.MarkerResyncCompleted: TypeResyncCompleted,
		} {
			e := New(source.Stream{Resource: pods}, cfg)
			e.Marker(m, source.Marker{Kind: kind, Epoch: epoch, From: "1", To: "2", Number: 3, Complete: true})
			got := must.Get(StateOf(stored(m)))(t)
			want := State{
				ID: m.ID[17:], Type: typ, Source: "/clusters/prod-eu.1/api/v1/pods", Pipeline: "audit", Kind: "Pod",
				ResourceVersion: "2",
			}
			assert.Equal(t, want, got)
			assert.Empty(t, got.Key(), "key")
		}
	}
}

func TestMarker_id_is_one_of_its_kind_scope_epoch_and_versions(t *testing.T) {
	e := New(source.Stream{Resource: pods}, config())
	for kind, want := range map[source.MarkerKind]string{
		source.MarkerGap:               "gap.*.1787236200.1-2",
		source.MarkerSnapshotStarted:   "snapshot-started.*.1787236200.2",
		source.MarkerSnapshotCompleted: "snapshot-completed.*.1787236200.2",
		source.MarkerResyncStarted:     "resync-started.*.1787236200.3",
		source.MarkerResyncCompleted:   "resync-completed.*.1787236200.3",
	} {
		m := dirty()
		e.Marker(m, source.Marker{Kind: kind, Epoch: epoch, From: "1", To: "2", Number: 3})
		want = strings.Replace(want, "*", source.Stream{Resource: pods}.Scope(), 1)
		assert.Equal(t, want, attribute(m, "id"))
	}
}

// The position of a stream may not be known when a resync begins.
func TestMarker_of_a_resync_needs_no_version(t *testing.T) {
	m := dirty()
	New(source.Stream{Resource: pods}, config()).Marker(m, source.Marker{Kind: source.MarkerResyncStarted, Number: 3})
	for _, a := range m.Attributes {
		assert.True(t, a.Name != "resourceversion" && a.Value != "", "%+v", a)
	}
	assert.JSONEq(t, `{"namespace":"","labelSelector":"","fieldSelector":"","epoch":0,"n":3}`, string(m.Data))
}

// A log that an older version wrote has sequences without dots, or none.
func TestMarkerOf_is_what_each_marker_says(t *testing.T) {
	for _, mode := range []Mode{Binary, Structured} {
		cfg := config()
		cfg.Mode = mode
		for kind := source.MarkerGap; kind <= source.MarkerResyncCompleted; kind++ {
			m := &sink.Message{}
			in := source.Stream{Resource: pods, Namespace: "shop"}
			New(in, cfg).Marker(m, source.Marker{Kind: kind, Epoch: 1_787_236_200, To: "5", Number: 7})
			s, resync := stored(m), int64(0)
			if kind >= source.MarkerResyncStarted {
				resync = 7
			}
			assert.Equal(t, MarkerData{"shop", 1_787_236_200, resync}, MarkerOf(s), "%s: %s", mode, s.ID)
			s.Data = nil
			assert.Zero(t, MarkerOf(s), "%s: %s without data", mode, s.ID)
		}
	}
}

func TestStateOf_tells_a_log_of_an_older_version(t *testing.T) {
	for _, typ := range []string{TypeAdded, TypeUpdated, TypeDeleted, TypeRejected, knativeResource + "add"} {
		for _, text := range []string{"", "00000000000000000007"} {
			s := &sink.Stored{Sequence: 12, Attributes: []sink.Attribute{
				{Name: "id", Value: "u.7"},
				{Name: "source", Value: "/"},
				{Name: "type", Value: typ},
				{Name: "partitionkey", Value: "c/core/pods/ns/n"},
				{Name: "apiversion", Value: "v1"},
			}}
			if text != "" {
				s.Attributes = append(s.Attributes, sink.Attribute{Name: "sequence", Value: text})
			}
			got, err := StateOf(s)
			var old *OldFormatError
			require.ErrorAs(t, err, &old, "%s %q: got %+v", typ, text, got)
			assert.EqualError(t, err, "message 12: this log was written by an older version of the bridge, whose events "+
				"have another form; name a new stream or topic, and run `kube-eventbridge checkpoint reset`")
			assert.Zero(t, got)
		}
	}
}

func TestStateOf_refuses_what_no_bridge_wrote(t *testing.T) {
	structured := func(s string) *sink.Stored {
		return &sink.Stored{ContentType: "application/cloudevents+json", Data: []byte(s)}
	}
	for name, s := range map[string]*sink.Stored{
		"nothing": {},
		"no id":   {Attributes: []sink.Attribute{{Name: "type", Value: TypeAdded}, {Name: "source", Value: "/"}}},
		"another type": {Attributes: []sink.Attribute{
			{Name: "id", Value: "1"},
			{Name: "type", Value: "com.example"},
			{Name: "source", Value: "/"},
		}},
		"no JSON":          structured("x"),
		"no object":        structured("[]"),
		"cut short":        structured(`{"id":"1","source":"/","type":"` + TypeAdded + `"`),
		"cut in the data":  structured(`{"id":"1","source":"/","type":"` + TypeAdded + `","data":{"a":`),
		"structured empty": structured(`{}`),
		"no sequence": {Attributes: []sink.Attribute{
			{Name: "id", Value: "1"},
			{Name: "type", Value: TypeAdded},
			{Name: "source", Value: "/"},
			{Name: "sequence", Value: "1.7.0"},
		}},
	} {
		got, err := StateOf(s)
		assert.True(t, err != nil && got == (State{}), "%s: got %+v, %v", name, got, err)
	}
}
