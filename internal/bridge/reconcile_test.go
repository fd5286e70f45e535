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
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/rest"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	"github.com/kube-eventbridge/kube-eventbridge/encode"
	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge/ledger"
	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge/membership"
	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge/stream"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
	"github.com/kube-eventbridge/kube-eventbridge/source"
	"github.com/kube-eventbridge/kube-eventbridge/source/catalog"
)

// listedNamespaces are what an API server lists: "shop" at version 30, that no selector for team=a takes, and "other"
// at the given one.
func listedNamespaces(t *testing.T, other int) *catalog.Namespaces {
	t.Helper()
	return namespacesOf(t, `"name":"shop","resourceVersion":"30","labels":{"team":"b"}`,
		fmt.Sprintf(`"name":"other","resourceVersion":"%d","labels":{"team":"b"}`, other))
}

// namespacesOf are what an API server lists, by their metadata.
func namespacesOf(t *testing.T, metadata ...string) *catalog.Namespaces {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch {
		case r.URL.Query().Get("sendInitialEvents") != "":
			w.WriteHeader(http.StatusUnprocessableEntity)
			_, _ = fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Invalid","code":422}`)
		case r.URL.Query().Get("watch") != "":
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		default:
			var items []string
			for _, m := range metadata {
				items = append(items, `{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":{`+m+`}}`)
			}
			_, _ = fmt.Fprintf(w,
				`{"kind":"PartialObjectMetadataList","apiVersion":"meta.k8s.io/v1","metadata":{"resourceVersion":"90"},"items":[%s]}`, strings.Join(items, ","))
		}
	}))
	t.Cleanup(server.Close)
	n := must.Get(catalog.NewNamespaces(&rest.Config{Host: server.URL}))(t)
	ended := make(chan error, 1)
	go func() { ended <- n.Run(t.Context()) }()
	t.Cleanup(func() {
		assert.NoError(t, <-ended)
		server.CloseClientConnections()
	})
	must.Happen(t, "the namespaces", func() bool {
		_, _, err := n.Now()
		return err == nil
	})
	return n
}

// An API server that lags behind may tell a state of before the namespace was selected.
func TestReconciler_ends_nothing_for_an_old_state_of_a_namespace(t *testing.T) {
	for name, c := range map[string]struct {
		namespace, entered string
		other              int
		want               bool // that the stream goes on
	}{
		"its labels changed":                      {"shop", "20", 10, false},
		"it did not match when it was taken":      {"shop", "30", 10, false},
		"what is known is of before it was taken": {"shop", "40", 35, true},
		"a history was restored":                  {"shop", "40", 41, false},
		"it does not exist":                       {"gone", "40", 35, false},
	} {
		all, _, err := namespaces(listedNamespaces(t, c.other), map[string]string{c.namespace: c.entered})
		require.NoError(t, err)
		at := source.Stream{Resource: configMaps, Namespace: c.namespace}
		entry := membership.Spec{Resource: "configmaps", NamespaceSelector: labels.SelectorFromSet(labels.Set{"team": "a"})}
		served := &catalog.Served{Resource: "configmaps", Versions: []source.Resource{configMaps}}
		plan, _ := membership.Plan([]membership.Spec{entry},
			membership.Offers{Known: true, Served: []*catalog.Served{served}}, all,
			[]membership.Stored{{Stream: at, Scope: at.Scope()}})
		assert.Equal(t, c.want, plan[0].Action == membership.Run, "%s: %+v", name, plan)
	}
}

// What is deleted in a namespace that is deleted is shown by the watch that is there; none begins.
func TestReconciler_begins_nothing_in_a_namespace_that_is_being_deleted(t *testing.T) {
	api := newAPIServer(t, 10)
	b := runBridge(t, api, newFakeLog(), &memoryStore{}, func(c *Config) {
		c.Namespaces, c.Streams[0].NamespaceSelector = namespacesOf(t, `"name":"default","resourceVersion":"10"`,
			`"name":"shop","resourceVersion":"30","deletionTimestamp":"2026-01-02T03:04:05Z"`), labels.Everything()
	})
	must.Happen(t, "all that there is at first", func() bool {
		entries := b.session(t).entries
		entries.mu.Lock()
		defer entries.mu.Unlock()
		return len(entries.unbegun) == 0
	})
	assert.Equal(t, "configmaps.v1/default", b.only(t).Name, "open")
}

func TestReconciler_waits_for_what_was_deleted_with_a_namespace(t *testing.T) {
	one := map[string]checkpoint.Row{"shop/x": {UID: "u1", ResourceVersion: "1"}}
	now := time.Now()
	for name, c := range map[string]struct {
		exists bool
		rows   map[string]checkpoint.Row
		why    membership.Why
		left   time.Time
		want   bool
	}{
		"something is left":        {false, one, membership.Left, time.Time{}, true},
		"something is still left":  {false, one, membership.Left, now.Add(-lastWords / 2), true},
		"the time for it is up":    {false, one, membership.Left, now.Add(-lastWords), false},
		"nothing is left":          {false, nil, membership.Left, time.Time{}, false},
		"it exists":                {true, one, membership.Left, time.Time{}, false},
		"the resource is what was": {false, one, membership.Gone, time.Time{}, false},
	} {
		s := &stream.Stream{
			Identity: stream.Identity{Name: "s", Stream: source.Stream{Namespace: "shop"}},
			State:    stream.State{Ledger: ledger.New(c.rows, nil)},
		}
		in := &inputs{namespaces: membership.Namespaces{Known: true, All: map[string]catalog.Namespace{}}}
		if c.exists {
			in.namespaces.All["shop"] = catalog.Namespace{}
		}
		r := &reconciler{assignments: map[string]*membership.Assignment{"s": {Action: membership.Retire, Why: c.why}}}
		stays, again := r.stays(&run{Stream: s, left: c.left}, in, now)
		assert.True(t, stays == c.want && again == c.want, "%s: %v, %v", name, stays, again)
	}
}

// Whatever comes between, the ends of all objects are of one epoch.
func TestRetire_saves_its_epoch_before_it_publishes(t *testing.T) {
	log, store := newFakeLog(), &memoryStore{}
	r, s := startStream(t, log, store)
	snapshot(t, s, "10", "a u1 5")
	r.settle()
	var saved checkpoint.Stream
	log.set(func() {
		log.stored = func() {
			state, err := store.Load(t.Context())
			assert.NoError(t, err)
			saved = state.Streams[s.Name]
		}
	})
	before := s.Epoch
	require.NoError(t, r.retire(t.Context(), t.Context(), s, always(source.ReasonDeselected), "a test"))
	last := must.Get(encode.StateOf(&log.log[len(log.log)-1]))(t)
	assert.True(t, saved.Retiring && saved.Epoch == last.Sequence.Epoch && saved.Epoch > before,
		"when %s was published the store had %+v", last.ID, saved)
	assert.Equal(t, uint64(10), last.Sequence.Version, "the version of the end is the position")
	assert.Equal(t, source.ReasonDeselected, last.Reason)
}

// A process died when all of a snapshot was in the log, and its entry is removed.
func TestRetire_completes_no_snapshot_under_its_own_number(t *testing.T) {
	log, store := newReadableLog(), &memoryStore{}
	at := source.Stream{Resource: configMaps}
	store.state = checkpoint.State{
		Identity: checkpoint.Identity{Cluster: "test", Pipeline: "test"},
		Streams: map[string]checkpoint.Stream{at.Name(): {
			Position: "10", Epoch: 5, Kind: "ConfigMap", Namespaced: true, Fingerprint: at.Scope(),
			Unannounced: checkpoint.Snapshot{ResourceVersion: "10", Objects: 1},
		}},
		Rows: map[string]map[string]checkpoint.Row{
			at.Name(): {"default/a": {UID: "u1", ResourceVersion: "5", Epoch: 5, Version: 5}},
		},
	}
	r := startOf(t, log, store, StreamSpec{Resource: "configmaps"})
	s := must.Get(r.openRetiring(&r.cfg.Streams[0], at, "a test"))(t)
	require.NoError(t, r.retire(t.Context(), t.Context(), s, always(source.ReasonDeselected), "a test"))
	r.settle()
	expect(t, log.lines(), "deleted default/a u1 5 deselected")
}
