// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
	"github.com/kube-eventbridge/kube-eventbridge/source"
)

// endedStream publishes two objects in a namespace, and ends the stream as one whose resource is gone. It returns how many messages the log had before, and in all.
func endedStream(t *testing.T, log readableLog, store checkpoint.Store, spec StreamSpec, namespace string) (before, after int) {
	t.Helper()
	r := startOf(t, log, store, spec)
	s := must.Get(r.open(&r.cfg.Streams[0], source.Stream{Resource: configMaps, Namespace: namespace}))(t)
	snapshot(t, s, "10", "a u1 5", "b u2 6")
	send(t, s, source.Updated, "b", "u2", "11", source.ReasonWatch)
	r.settle()
	before = len(log.lines())
	require.NoError(t, r.bury(t.Context(), s))
	_ = r.stop()
	return before, len(log.lines())
}

// What the log lost of a stream's end is published again, whatever of it that is, and whoever would read the stream.
func TestRepair_deletes_again_what_a_stream_had_that_has_ended(t *testing.T) {
	all, one := StreamSpec{Resource: "configmaps"}, StreamSpec{Resource: "configmaps", NamespaceSelector: labels.Everything()}
	for name, c := range map[string]struct {
		spec      StreamSpec
		namespace string
		lost      int
		want      []string // the objects, of those that were deleted
	}{
		"all of it":                     {all, "", 2, []string{"a u1 5", "b u2 11"}},
		"a part of it":                  {all, "", 1, []string{"a u1 5|b u2 11"}},
		"more than that":                {all, "", 3, []string{"a u1 5", "b u2 6"}},
		"nothing of it":                 {all, "", 0, nil},
		"by its kind":                   {StreamSpec{Resource: "configmap"}, "", 2, []string{"a u1 5", "b u2 11"}},
		"of a wildcard":                 {StreamSpec{Wildcard: &Wildcard{All: true}}, "", 2, []string{"a u1 5", "b u2 11"}},
		"in a namespace":                {StreamSpec{Resource: "configmaps", Namespace: "default"}, "default", 2, []string{"a u1 5", "b u2 11"}},
		"in a namespace that was taken": {one, "default", 2, []string{"a u1 5", "b u2 11"}},
	} {
		t.Run(name, func(t *testing.T) {
			log, store := newReadableLog(), &memoryStore{}
			_, end := endedStream(t, log, store, c.spec, c.namespace)
			if c.lost == 0 {
				store.state.Log.Marks, store.state.Log.Trail = map[int32]uint64{0: uint64(end + 1)}, nil // of what came behind it
			}
			log.lose(end - c.lost)
			r := startOf(t, log, store, c.spec)
			at := r.stored()
			require.Len(t, at, min(len(c.want), 1), "stored")
			if len(c.want) == 0 {
				assert.Empty(t, store.state.Streams, "the store knows")
				return
			}
			s := must.Get(r.open(&r.cfg.Streams[0], at[0]))(t)
			require.NoError(t, r.bury(t.Context(), s))
			got := strings.Join(log.lines()[end-c.lost:], "\n") + "\n"
			assert.Equal(t, len(c.want), strings.Count(got, "\n"), "deleted:\n%s", got)
			for _, objects := range c.want {
				found := false
				for object := range strings.SplitSeq(objects, "|") {
					found = found || strings.Contains(got, "deleted default/"+object+" repair\n")
				}
				assert.True(t, found, "%s is not deleted in\n%s", objects, got)
			}
			for _, m := range log.log[end-c.lost:] {
				require.True(t, strings.HasSuffix(m.ID, ".deleted.r1"), "of kind")
				assert.Equal(t, "ConfigMap", attribute(&m, "kind"), "of kind")
			}
			assert.Empty(t, store.state.Streams, "the store knows")
		})
	}
}

// What of other resources, namespaces and histories a log has is nothing of the stream.
func TestRepair_brings_back_no_stream_that_nobody_reads(t *testing.T) {
	for name, spec := range map[string]StreamSpec{
		"another resource":  {Resource: "secrets"},
		"another namespace": {Resource: "configmaps", Namespace: "other"},
		"left out":          {Wildcard: &Wildcard{All: true, Exclude: []Exclusion{{Name: "configmaps", AnyGroup: true}}}},
		"another group":     {Wildcard: &Wildcard{Group: "apps"}},
	} {
		log, store := newReadableLog(), &memoryStore{}
		before, _ := endedStream(t, log, store, StreamSpec{Resource: "configmaps"}, "")
		log.lose(before)
		at := startOf(t, log, store, spec).stored()
		assert.Empty(t, at, "%s: %v is stored", name, at)
	}
}

// A short name means what is served, and what it meant where that is not served any more nobody knows.
func TestRepair_brings_back_by_a_short_name_what_is_served(t *testing.T) {
	offers, _ := catalogOf(t, newAPIServer(t, 10)).Now()
	gone := configMaps
	gone.Group = "old.example.com"
	for _, c := range []struct {
		spec     StreamSpec
		resource source.Resource
		offers   *source.Offers
		want     bool
	}{
		{StreamSpec{Resource: "cm"}, configMaps, offers, true},
		{StreamSpec{Resource: "cm"}, configMaps, &source.Offers{}, false},
		{StreamSpec{Resource: "cm"}, gone, offers, false},
		{StreamSpec{Resource: "cm"}, secrets, offers, false},
		{StreamSpec{Resource: "configmaps"}, configMaps, &source.Offers{}, true},
		{StreamSpec{Wildcard: &Wildcard{All: true, Exclude: []Exclusion{{Name: "cm", AnyGroup: true}}}}, configMaps, offers, false},
		{StreamSpec{Wildcard: &Wildcard{All: true, Exclude: []Exclusion{{Name: "cm", AnyGroup: true}}}}, gone, offers, true},
	} {
		assert.Equal(t, c.want, c.spec.meant(c.resource, c.offers), "%s, of %+v", c.resource, c.spec)
	}
}

func TestRepair_deletes_again_what_a_stream_had_that_a_short_name_called(t *testing.T) {
	log, store := newReadableLog(), &memoryStore{}
	spec := StreamSpec{Resource: "cm", NamespaceSelector: labels.Everything()}
	before, _ := endedStream(t, log, store, spec, "default")
	log.lose(before)
	api := newAPIServer(t, 10)
	catalog := catalogOf(t, api)
	b := runBridge(t, api, log, store, func(c *Config) {
		c.Catalog, c.Identity, c.Namespaces = catalog, checkpoint.Identity{Cluster: "test", Pipeline: "test"}, listedNamespaces(t, 10)
		spec.Encoding, spec.NamespaceSelector = c.Streams[0].Encoding, labels.Nothing()
		c.Streams[0] = spec
	})
	must.Happen(t, "the deletions", func() bool { return strings.Count(strings.Join(log.lines(), "\n"), "deleted default/") == 2 })
	require.NoError(t, b.stop())
}

// The history in which a stream has ended is the one in which it is deleted again.
func TestRepair_goes_on_in_the_history_in_which_a_stream_has_ended(t *testing.T) {
	log, store := newReadableLog(), &memoryStore{}
	spec := StreamSpec{Resource: "configmaps"}
	r := startOf(t, log, store, spec)
	s := r.stream(nil)
	snapshot(t, s, "100", "a u1 90")
	restored(t, s)
	snapshot(t, s, "12", "a u1 5")
	r.settle()
	before := len(log.lines())
	require.NoError(t, r.bury(t.Context(), s))
	_ = r.stop()
	log.lose(before)
	r = startOf(t, log, store, spec)
	s = r.stream(nil)
	require.NoError(t, r.bury(t.Context(), s))
	if last := &log.log[before]; !strings.HasSuffix(last.ID, ".u1.deleted.h1.r1") || len(log.log) != before+1 {
		t.Errorf("the log ends with %s", last.ID)
	}
	if kept, any := store.state.Streams[s.name]; any || store.state.Log.Histories != 1 {
		t.Errorf("the store keeps %+v, and knows of %d restorations", kept, store.state.Log.Histories)
	}
}

// Versions of another history compare with nothing; and what was published before other streams of the resource ended need not be looked for in the past.
func TestRecall_repairs_from_the_newest_version_of_the_history(t *testing.T) {
	log, _, r, s := listed(t, "100", "a u1 90")
	restored(t, s)
	snapshot(t, s, "12", "a u1 5")
	r.settle()
	for name, c := range map[string]struct {
		known map[string]checkpoint.Stream
		want  string
	}{
		"the history that was restored": {map[string]checkpoint.Stream{s.name: {History: 1}}, "5"},
		"the first one":                 {map[string]checkpoint.Stream{}, "90"},
		"another stream came further":   {map[string]checkpoint.Stream{s.name: {History: 1}, s.name + "/x": {Kind: "ConfigMap", Position: "50"}}, "50"},
		"another stream is behind":      {map[string]checkpoint.Stream{s.name: {History: 1}, s.name + "/x": {Kind: "ConfigMap", Repair: "3"}}, "5"},
		"one of another resource is":    {map[string]checkpoint.Stream{s.name: {History: 1}, "secrets.v1": {Kind: "Secret", Position: "50"}}, "5"},
	} {
		p := &session{name: "test", state: &checkpoint.State{Streams: c.known}, cfg: &Config{
			Identity: checkpoint.Identity{Cluster: "test", Pipeline: "test"}, Streams: []StreamSpec{{Resource: "configmaps"}},
		}}
		forgotten := map[string]checkpoint.Stream{}
		for i := range log.log {
			p.recall(forgotten, &log.log[i], &source.Offers{})
		}
		if got := p.state.Streams[s.name]; got.Repair != c.want || got.Kind != "ConfigMap" || len(forgotten) != 1 {
			t.Errorf("%s: %+v, want repair from %s", name, got, c.want)
		}
	}
}
