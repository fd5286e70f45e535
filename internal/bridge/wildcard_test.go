// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/rest"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
	"github.com/kube-eventbridge/kube-eventbridge/source"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// servedAs makes what is served of names as "plural.version.group".
func servedAs(name string) *source.Served {
	at, ok := source.ParseName(name)
	if !ok {
		panic("BUG: " + name)
	}
	plural := at.Resource.Resource
	return &source.Served{Group: at.Group, Resource: plural, Versions: []source.Resource{at.Resource}, Names: []string{strings.TrimSuffix(plural, "s"), plural[:2]}}
}

func TestWildcard_leaves_out_what_it_is_told_to(t *testing.T) {
	all := &Wildcard{All: true}
	for _, c := range []struct {
		w    *Wildcard
		name string
		want bool
	}{
		{all, "secrets.v1", true},
		{all, "widgets.v1.example.com", true},
		{&Wildcard{Group: "example.com"}, "widgets.v1.example.com", true},
		{&Wildcard{Group: "example.com"}, "widgets.v1.sub.example.com", false},
		{&Wildcard{Group: "example.com"}, "secrets.v1", false},
		{&Wildcard{All: true, Exclude: []Exclusion{{Name: "widgets", AnyGroup: true}}}, "widgets.v1.example.com", false},
		{&Wildcard{All: true, Exclude: []Exclusion{{Name: "widget", AnyGroup: true}}}, "widgets.v1.example.com", false},
		{&Wildcard{All: true, Exclude: []Exclusion{{Name: "wi", Group: "example.com"}}}, "widgets.v1.example.com", false},
		{&Wildcard{All: true, Exclude: []Exclusion{{Name: "widgets", Group: "example.org"}}}, "widgets.v1.example.com", true},
		{&Wildcard{All: true, Exclude: []Exclusion{{Name: "widgets", Group: "example.com", Version: "v2"}}}, "widgets.v1.example.com", true},
		{&Wildcard{All: true, Exclude: []Exclusion{{Group: "example.com"}}}, "widgets.v1.example.com", false},
		{&Wildcard{All: true, Exclude: []Exclusion{{Group: "example.com"}}}, "secrets.v1", true},
		{&Wildcard{All: true, Exclude: []Exclusion{{Name: "secrets", Version: "v1"}}}, "secrets.v1", false},
		{&Wildcard{All: true, Exclude: []Exclusion{{Name: "secrets", Version: "v1"}}}, "secrets.v1.example.com", true},
	} {
		assert.Equal(t, c.want, c.w.matches(servedAs(c.name), &source.Offers{}), "%s of %+v", c.name, c.w)
	}
}

func TestWildcard_says_what_it_has_no_effect_on(t *testing.T) {
	offers, _ := offersOf(t)
	for _, c := range []struct {
		w       *Wildcard
		nothing string
		idle    []int
	}{
		{&Wildcard{All: true}, "", nil},
		{&Wildcard{All: true, Exclude: []Exclusion{{Name: "pods", AnyGroup: true}, {Name: "things", AnyGroup: true}}}, "", []int{1}},
		{&Wildcard{All: true, Exclude: []Exclusion{{Group: "metrics.k8s.io"}, {Name: "pods", Version: "v2"}, {Name: "pods", Version: "v1"}}}, "", []int{0, 1}},
		{&Wildcard{Group: "extensions", Exclude: []Exclusion{{Name: "deployments", Group: "apps"}}}, "", []int{0}},
		{&Wildcard{Group: "apps", Exclude: []Exclusion{{Name: "deployments", AnyGroup: true}}}, "everything that it names is excluded", nil},
		{&Wildcard{Group: "example.org", Exclude: []Exclusion{{Name: "widgets", AnyGroup: true}}}, "it names nothing that the cluster has", []int{0}},
	} {
		if nothing, idle := c.w.Nothing(offers, false), c.w.Idle(offers); nothing != c.nothing || !slices.Equal(idle, c.idle) {
			t.Errorf("%+v: %q, %v", c.w, nothing, idle)
		}
	}
}

func TestWildcard_tells_once_that_nothing_is_selected(t *testing.T) {
	offers, _ := offersOf(t)
	var log strings.Builder
	spec := &StreamSpec{Resource: "*.apps", Wildcard: &Wildcard{Group: "apps", Exclude: []Exclusion{{Name: "deployments", AnyGroup: true}}}}
	tell := (&session{log: slog.New(slog.NewTextHandler(&log, nil))}).nothing(spec)
	tell(offers)
	tell(offers)
	spec.Wildcard.Exclude = nil
	tell(offers)
	const want = `msg="a wildcard selects nothing now; what comes is read" resource=*.apps why="everything that it names is excluded"`
	assert.Equal(t, 1, strings.Count(log.String(), "\n"), "it says\n%s", &log)
	assert.Contains(t, log.String(), want, "it says\n%s", &log)
}

func TestFirstOf_is_one_for_resources_with_the_same_objects(t *testing.T) {
	for name, want := range map[string]string{
		"events.v1.events.k8s.io":          "events",
		"events.v1":                        "events",
		"events.v1.example.com":            "events.example.com",
		"ingresses.v1beta1.extensions":     "ingresses.networking.k8s.io",
		"ingresses.v1.networking.k8s.io":   "ingresses.networking.k8s.io",
		"deployments.v1beta1.extensions":   "deployments.apps",
		"podsecurities.v1beta1.extensions": "podsecurities.extensions",
	} {
		s := servedAs(name)
		assert.Equal(t, want, firstOf(s.Group, s.Resource).String(), name)
	}
}

func TestNames_of_resources_are_taken_for_what_they_may_mean(t *testing.T) {
	s := servedAs("widgets.v1.example.com")
	for _, name := range []string{"widgets", "widget", "wi", "widgets.example.com", "widgets.v1.example.com", "widgets.v2.example.com", "wi.exam"} {
		assert.True(t, mayMean(name, s), "%s may mean %+v", name, s)
	}
	for _, name := range []string{"gadgets", "widgets.example.org", "gadgets.v1.example.com"} {
		assert.False(t, mayMean(name, s), "%s cannot mean %+v", name, s)
	}
	if in := []bool{
		means("widgets", s.Versions[0]), means("widgets.example.com", s.Versions[0]), means("widgets.v1.example.com", s.Versions[0]),
		!means("widgets.v2.example.com", s.Versions[0]), !means("wi", s.Versions[0]), !means("widgets.exam", s.Versions[0]),
	}; slices.Contains(in, false) {
		t.Errorf("got %v", in)
	}
}

// offersOf makes what a catalog shows of an API server that has events twice, deployments twice, and pods.
func offersOf(t *testing.T) (*source.Offers, *rest.Config) {
	t.Helper()
	const list = `{"kind":"APIResourceList","groupVersion":%q,"resources":[%s]}`
	const one = `{"name":%q,"singularName":"","namespaced":true,"kind":"K","verbs":["list","watch"]}`
	const group = `{"name":%q,"versions":[{"groupVersion":"%[1]s/v1","version":"v1"}],"preferredVersion":{"groupVersion":"%[1]s/v1","version":"v1"}}`
	texts := map[string]string{
		"/api": `{"kind":"APIVersions","versions":["v1"]}`, "/api/v1": fmt.Sprintf(list, "v1", fmt.Sprintf(one+","+one, "events", "pods")),
		"/apis/events.k8s.io/v1": fmt.Sprintf(list, "events.k8s.io/v1", fmt.Sprintf(one, "events")),
		"/apis/apps/v1":          fmt.Sprintf(list, "apps/v1", fmt.Sprintf(one, "deployments")),
		"/apis/extensions/v1":    fmt.Sprintf(list, "extensions/v1", fmt.Sprintf(one, "deployments")),
		"/apis": `{"kind":"APIGroupList","apiVersion":"v1","groups":[` + fmt.Sprintf(group, "events.k8s.io") + "," + fmt.Sprintf(group, "apps") + "," +
			fmt.Sprintf(group, "extensions") + `]}`,
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprint(w, texts[r.URL.Path])
	}))
	t.Cleanup(server.Close)
	at := &rest.Config{Host: server.URL}
	client := must.Get(source.NewClient(at))(t)
	t.Cleanup(client.CloseIdleConnections)
	catalog := must.Get(source.NewCatalog(at, client, source.CatalogConfig{}))(t)
	offers := must.Get(catalog.Look(t.Context()))(t)
	return offers, at
}

// However wildcards meet, each object is read once.
func TestWildcards_of_one_pipeline_read_no_object_twice(t *testing.T) {
	offers, _ := offersOf(t)
	all := &Wildcard{All: true}
	for name, c := range map[string]struct {
		specs []StreamSpec
		want  []string // of each spec
	}{
		"all, and the group that is second": {
			[]StreamSpec{{Wildcard: all}, {Wildcard: &Wildcard{Group: "events.k8s.io"}}}, []string{"pods.v1 deployments.v1.apps", "events.v1.events.k8s.io"},
		},
		"the group that is second, and all": {
			[]StreamSpec{{Wildcard: &Wildcard{Group: "extensions"}}, {Wildcard: all}}, []string{"deployments.v1.extensions", "events.v1 pods.v1"},
		},
		"both groups": {
			[]StreamSpec{{Wildcard: &Wildcard{Group: "extensions"}}, {Wildcard: &Wildcard{Group: "apps"}}}, []string{"deployments.v1.extensions", ""},
		},
		"a group that leaves it out": {
			[]StreamSpec{{Wildcard: all}, {Wildcard: &Wildcard{Group: "events.k8s.io", Exclude: []Exclusion{{Name: "events", AnyGroup: true}}}}},
			[]string{"events.v1 pods.v1 deployments.v1.apps", ""},
		},
		"in two namespaces": {
			[]StreamSpec{{Wildcard: &Wildcard{Group: "apps"}, Namespace: "a"}, {Wildcard: &Wildcard{Group: "extensions"}, Namespace: "b"}},
			[]string{"deployments.v1.apps", "deployments.v1.extensions"},
		},
	} {
		p := &session{cfg: &Config{Streams: c.specs}, state: &checkpoint.State{}}
		for i := range c.specs {
			var got []string
			for _, r := range p.wanted(&c.specs[i], offers) {
				got = append(got, r.String())
			}
			assert.Equal(t, c.want[i], strings.Join(got, " "), "%s: %d reads %v", name, i, got)
		}
	}
}

// Once the API server knows a resource no more, it is asked for by what is stored of it.
func TestStored_streams_are_found_by_whatever_the_configuration_calls_them(t *testing.T) {
	for name, want := range map[string]bool{
		"configmaps": true, "configmaps.v1.": true, "configmap": true, "ConfigMap": true, "cm": true,
		"configmaps.v2.": false, "configmaps.apps": false, "secrets": false, "co": false, "": false,
	} {
		log, store := newReadableLog(), &memoryStore{}
		r := startOf(t, log, store, StreamSpec{Resource: "cm"})
		s := must.Get(r.open(&r.cfg.Streams[0], source.Stream{Resource: configMaps}))(t)
		snapshot(t, s, "10", "a u1 5")
		require.NoError(t, r.save(t.Context()))
		_ = r.stop()
		r = startOf(t, log, store, StreamSpec{Resource: name})
		at := r.stored()
		require.Len(t, at, 1, "stored")
		assert.Equal(t, want, r.named(&r.cfg.Streams[0], at[0]), name)
	}
}

func TestStored_streams_keep_no_name_that_the_resource_has_itself(t *testing.T) {
	for name, want := range map[string]string{"configmaps": "", "configmap": "", "configmaps.v1.": "", "cm": "cm", "cm.v1.": "cm.v1."} {
		assert.Equal(t, want, (&StreamSpec{Resource: name}).calling(configMaps), "%s is kept as", name)
	}
	assert.Empty(t, (&StreamSpec{Wildcard: &Wildcard{All: true}}).calling(configMaps), "a wildcard's is kept as")
}

// In a namespace that is selected a wildcard names what is in namespaces; in one that is not any more, what has to leave.
func TestWildcard_names_in_a_namespace_what_is_there_while_it_is_selected(t *testing.T) {
	offers, _ := offersOf(t)
	teams := func(team string) labels.Selector { return labels.SelectorFromSet(labels.Set{"team": team}) }
	for name, c := range map[string]struct {
		specs []StreamSpec
		want  string
	}{
		"it is":                      {[]StreamSpec{{Wildcard: &Wildcard{All: true}, NamespaceSelector: teams("b")}}, "events.v1 pods.v1 deployments.v1.apps"},
		"it is not":                  {[]StreamSpec{{Wildcard: &Wildcard{All: true}, NamespaceSelector: teams("a")}}, "pods.v1"},
		"a group has an entry":       {[]StreamSpec{{Wildcard: &Wildcard{All: true}, NamespaceSelector: teams("b")}, {Wildcard: &Wildcard{Group: "apps"}, NamespaceSelector: teams("a")}}, "events.v1 pods.v1"},
		"a group has one elsewhere":  {[]StreamSpec{{Wildcard: &Wildcard{All: true}, NamespaceSelector: teams("b")}, {Wildcard: &Wildcard{Group: "apps"}, Namespace: "x"}}, "events.v1 pods.v1 deployments.v1.apps"},
		"what left is of a group":    {[]StreamSpec{{Wildcard: &Wildcard{Group: "apps"}, NamespaceSelector: teams("a")}}, ""},
		"what is stored is excluded": {[]StreamSpec{{Wildcard: &Wildcard{All: true, Exclude: []Exclusion{{Name: "pods"}}}, NamespaceSelector: teams("a")}}, ""},
	} {
		p := &session{cfg: &Config{Streams: c.specs, Namespaces: listedNamespaces(t, 10)}, state: &checkpoint.State{Streams: map[string]checkpoint.Stream{
			"pods.v1/shop": {Kind: "Pod", Namespaced: true, Position: "5"}, "pods.v1": {Kind: "Pod", Namespaced: true, Position: "5"},
		}}}
		var got []string
		for _, r := range p.wanted(p.in(&c.specs[0], "shop"), offers) {
			got = append(got, r.String())
		}
		assert.Equal(t, c.want, strings.Join(got, " "), "%s: it reads %v", name, got)
		stored := p.storedIn(&c.specs[0], offers)
		if _, is := stored["shop"]; is != strings.Contains(c.want, "pods") || len(stored) > 1 {
			t.Errorf("%s: the store has it in %v", name, stored)
		}
	}
}
