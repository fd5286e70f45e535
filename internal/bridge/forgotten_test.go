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
	"github.com/kube-eventbridge/kube-eventbridge/source/catalog"
)

// endedStream publishes two objects in a namespace, and ends the stream as one whose resource is gone. It returns how
// many messages the log had before, and in all.
func endedStream(
	t *testing.T, log readableLog, store checkpoint.Store, spec StreamSpec, namespace string,
) (before, after int) {
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
	all, one := StreamSpec{Resource: "configmaps"}, StreamSpec{
		Resource:          "configmaps",
		NamespaceSelector: labels.Everything(),
	}
	for name, c := range map[string]struct {
		spec      StreamSpec
		namespace string
		lost      int
		want      []string // the objects, of those that were deleted
	}{
		"all of it":      {all, "", 2, []string{"a u1 5", "b u2 11"}},
		"a part of it":   {all, "", 1, []string{"a u1 5|b u2 11"}},
		"more than that": {all, "", 3, []string{"a u1 5", "b u2 6"}},
		"nothing of it":  {all, "", 0, nil},
		"by its kind":    {StreamSpec{Resource: "configmap"}, "", 2, []string{"a u1 5", "b u2 11"}},
		"of a wildcard":  {StreamSpec{Wildcard: &Wildcard{All: true}}, "", 2, []string{"a u1 5", "b u2 11"}},
		"in a namespace": {
			StreamSpec{Resource: "configmaps", Namespace: "default"},
			"default", 2,
			[]string{"a u1 5", "b u2 11"},
		},
		"in a namespace that was taken": {one, "default", 2, []string{"a u1 5", "b u2 11"}},
	} {
		t.Run(name, func(t *testing.T) {
			log, store := newReadableLog(), &memoryStore{}
			_, end := endedStream(t, log, store, c.spec, c.namespace)
			if c.lost == 0 {
				store.state.Log.Ends = map[int32]uint64{0: uint64(end + 1)} // of what came behind it
			}
			log.lose(end - c.lost)
			r := startOf(t, log, store, c.spec)
			at, _ := r.stored()
			require.Len(t, at, 1, "stored")
			s := must.Get(r.open(&r.cfg.Streams[0], at[0].Stream))(t)
			require.NoError(t, r.bury(t.Context(), s))
			got := strings.Join(append(log.lines()[end-c.lost:], ""), "\n")
			assert.Equal(t, len(c.want), strings.Count(got, "\n"), "deleted:\n%s", got)
			for _, objects := range c.want {
				found := false
				for object := range strings.SplitSeq(objects, "|") {
					found = found || strings.Contains(got, "deleted default/"+object+" relist\n")
				}
				assert.True(t, found, "%s is not deleted in\n%s", objects, got)
			}
			for _, m := range log.log[end-c.lost:] {
				assert.Equal(t, "ConfigMap", attribute(&m, "kind"), "of kind")
			}
			assert.Empty(t, store.state.Streams, "the store knows")
		})
	}
}

// The log has lost the end of objects that no entry selects any more.
func TestRepair_brings_back_what_no_entry_selects_as_streams_that_retire(t *testing.T) {
	for name, spec := range map[string]StreamSpec{
		"another resource":  {Resource: "secrets"},
		"another namespace": {Resource: "configmaps", Namespace: "other"},
		"left out":          {Wildcard: &Wildcard{All: true, Exclude: []Exclusion{{Name: "configmaps", AnyGroup: true}}}},
		"another group":     {Wildcard: &Wildcard{Group: "apps"}},
	} {
		log, store := newReadableLog(), &memoryStore{}
		before, _ := endedStream(t, log, store, StreamSpec{Resource: "configmaps"}, "")
		log.lose(before)
		at, _ := startOf(t, log, store, spec).stored()
		require.Len(t, at, 1, name)
		assert.Equal(t, "configmaps.v1/default", at[0].Stream.Name(), name)
		assert.Empty(t, at[0].Called, name)
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
		offers   *catalog.Offers
		want     bool
	}{
		{StreamSpec{Resource: "cm"}, configMaps, offers, true},
		{StreamSpec{Resource: "cm"}, configMaps, &catalog.Offers{}, false},
		{StreamSpec{Resource: "cm"}, gone, offers, false},
		{StreamSpec{Resource: "cm"}, secrets, offers, false},
		{StreamSpec{Resource: "configmaps"}, configMaps, &catalog.Offers{}, true},
		{
			StreamSpec{Wildcard: &Wildcard{All: true, Exclude: []Exclusion{{Name: "cm", AnyGroup: true}}}},
			configMaps, offers,
			false,
		},
		{StreamSpec{Wildcard: &Wildcard{All: true, Exclude: []Exclusion{{Name: "cm", AnyGroup: true}}}}, gone, offers, true},
	} {
		assert.Equal(t, c.want, c.spec.MayMean(c.resource, c.offers), "%s, of %+v", c.resource, c.spec)
	}
}
