// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	"github.com/kube-eventbridge/kube-eventbridge/encode"
	"github.com/kube-eventbridge/kube-eventbridge/encode/jsonscan"
	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge/stream"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
	"github.com/kube-eventbridge/kube-eventbridge/sink"
	"github.com/kube-eventbridge/kube-eventbridge/source"
	"github.com/kube-eventbridge/kube-eventbridge/source/kube"
)

// What a process has published before is a base only if it is what the next one would have published.
func TestPrime_finds_what_the_log_has(t *testing.T) {
	patches := StreamSpec{Encoding: encode.Config{Payload: encode.MergePatch}}
	redacted := StreamSpec{Encoding: encode.Config{
		Payload: encode.MergePatch,
		Redact:  []jsonscan.Path{parsed(t, "data.x")},
	}}
	left := StreamSpec{Encoding: encode.Config{Payload: encode.MergePatch}, Filter: sevenths{}}
	for name, c := range map[string]struct {
		before, after StreamSpec
		n, gone       int
		refuse        func(*sink.Message) bool
		want          string
	}{
		"it is there": {before: patches, after: patches, n: 2, want: "merge-patch 2"},
		"as another patch": {
			before: patches,
			after:  StreamSpec{Encoding: encode.Config{Payload: encode.JSONPatch}}, n: 2, want: "json-patch 2",
		},
		"the API server has forgotten": {before: patches, after: patches, n: 2, gone: 2, want: "object "},
		"it was redacted less":         {before: patches, after: redacted, n: 2, want: "object "},
		"it was redacted more":         {before: redacted, after: patches, n: 2, want: "object "},
		"whole objects were published": {before: StreamSpec{}, after: patches, n: 2, want: "object "},
		"the last state was left out":  {before: left, after: patches, n: 7, want: "object "},
		"one before it was left out":   {before: left, after: patches, n: 8, want: "merge-patch 8"},
		"the last state was refused": {
			before: patches, after: patches, n: 2, want: "object ",
			refuse: func(m *sink.Message) bool { return strings.HasSuffix(m.ID, ".2.0") },
		},
		"whole objects are asked for": {before: patches, after: StreamSpec{}, n: 2, want: "object "},
		"the state before is asked for": {
			before: patches, after: StreamSpec{Encoding: encode.Config{Payload: encode.Change}},
			n: 2, want: "change 2",
		},
	} {
		t.Run(name, func(t *testing.T) {
			log := newReadableLog()
			log.refuse = c.refuse
			p := story(`"data":{"x":"1"}`, `"data":{"x":"2"}`, `"data":{"x":"3"}`, `"data":{"x":"4"}`, `"data":{"x":"5"}`,
				`"data":{"x":"6"}`, `"data":{"x":"7"}`,
				`"data":{"x":"8"}`, `"data":{"x":"9"}`)
			p.gone = c.gone
			r, s := restarted(t, log, p, c.n, c.before, c.after)
			p.frames[c.n].send(t, s)
			r.settle()
			m := &log.log[len(log.log)-1]
			assert.Equal(t, c.want, attribute(m, "payload")+" "+attribute(m, "baseversion"),
				"want %s: %s", c.want, m.Data)
		})
	}
}

func TestPrime_asks_only_for_what_is_wanted(t *testing.T) {
	p := story(`"data":{}`, `"data":{}`)
	restarted(t, newReadableLog(), p, 2, StreamSpec{}, StreamSpec{})
	assert.Equal(t, 0, p.asked, "lists were asked for")
	r := start(t, newReadableLog(), &memoryStore{})
	r.env.Client = p.client(t)
	if err := r.stream(&StreamSpec{Olds: true}).Before.Prime(t.Context()); err != nil || p.asked != 0 {
		t.Errorf("%d lists were asked for where there was nothing before, %v", p.asked, err)
	}
}

// Another version of the API server, or of a definition's schema, serves the same version of an object with other
// members.
func TestPrime_takes_nothing_that_is_served_otherwise_than_it_was_published(t *testing.T) {
	log, store, p := newReadableLog(), &memoryStore{}, story(`"data":{"y":"1"}`, `"data":{"y":"2"}`)
	spec := StreamSpec{Encoding: encode.Config{Payload: encode.MergePatch}}
	r := start(t, log, store)
	s := r.stream(&spec)
	s.Saved.Owes = checkpoint.Owes{}
	p.frames[0].send(t, s)
	s.Tracker.Bookmark("1")
	r.settle()
	require.NoError(t, r.journal.Commit(t.Context()))
	_ = r.stop()
	for i := range p.frames {
		p.frames[i].body = strings.Replace(p.frames[i].body, `"data":{`, `"policy":"Retain","data":{`, 1)
	}
	r = start(t, log, store)
	r.env.Client = p.client(t)
	s = r.stream(&spec)
	require.NoError(t, s.Before.Prime(t.Context()))
	p.frames[1].send(t, s)
	r.settle()
	got := passing(t, log.fakeLog)
	if object := got.objects["default/a"].(map[string]any); p.asked == 0 || object["policy"] != "Retain" ||
		got.count["object"] != 2 {
		t.Errorf("who applies all events has %v, of %v", object, got.count)
	}
}

// What the API server tells too late is not known, and what it told before is.
func TestPrime_holds_a_stream_up_for_no_longer_than_it_may(t *testing.T) {
	p := story(`"data":{"x":"1"}`, `"data":{"x":"2"}`)
	other := p.frames[0]
	other.name, other.uid, other.version = "b", "u2", 2
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("continue") != "" {
			<-r.Context().Done()
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w,
			`{"kind":"ConfigMapList","apiVersion":"v1","metadata":{"resourceVersion":"2","continue":"more"},"items":[%s]}`,
			p.frames[0].body)
	}))
	defer server.Close()
	client := must.Get(kube.NewClient(&rest.Config{Host: server.URL}))(t)
	defer client.CloseIdleConnections()

	log, store := newReadableLog(), &memoryStore{}
	spec := func() *StreamSpec { return &StreamSpec{Encoding: encode.Config{Payload: encode.MergePatch}} }
	r := start(t, log, store)
	s := r.stream(spec())
	s.Saved.Owes = checkpoint.Owes{}
	p.frames[0].send(t, s)
	other.send(t, s)
	r.settle()
	r.stopSaved()

	r = start(t, log, store)
	r.env.Client, r.env.PrimeTime = client, 100*time.Millisecond
	s = r.stream(spec())
	began := time.Now()
	require.NoError(t, s.Before.Prime(t.Context()))
	assert.LessOrEqual(t, time.Since(began), stream.PrimeTime*9/10, "it took")
	objects, _ := s.Before.Cache.Total()
	assert.Equal(t, 1, objects, "of %d objects it is known what was before, want 1", objects)
	next := p.frames[1]
	next.version = 3
	next.send(t, s)
	other.op, other.version = source.Updated, 4
	other.send(t, s)
	r.settle()
	assert.EqualValues(t, 1, value(t, r.registry, "old_objects_unknown_total"), "are counted as unknown")
}
