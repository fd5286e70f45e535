// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/rest"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	"github.com/kube-eventbridge/kube-eventbridge/encode"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
	"github.com/kube-eventbridge/kube-eventbridge/source"
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
		r.stopSaved()
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
	assert.Empty(t, (&StreamSpec{Wildcard: &Wildcard{All: true}}).calling(configMaps), "of a wildcard")
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

// While an API server that starts does not serve a resource, a wildcard has what is stored of it, unless a name has.
func TestWildcard_leads_what_is_stored_and_not_served_unless_a_name_does(t *testing.T) {
	offers, at := offersOf(t)
	discovery := must.Get(source.NewDiscovery(at))(t)
	for _, c := range []struct {
		stored, called string
		other          StreamSpec
		want           bool
	}{
		{"configmaps.v1", "cm", StreamSpec{Resource: "cm"}, false},
		{"configmaps.v1", "cm", StreamSpec{Resource: "configmap"}, false},
		{"configmaps.v1", "cm", StreamSpec{Resource: "co"}, true},
		{"configmaps.v1", "cm", StreamSpec{Resource: "cm", Namespace: "a"}, false},
		{"configmaps.v1", "", StreamSpec{Resource: "cm"}, true},
		{"pods.v1.old.example.com", "", StreamSpec{Resource: "pods"}, true}, // which means those of the core group now
		{"pods.v1.old.example.com", "", StreamSpec{Resource: "pods.old.example.com"}, false},
	} {
		p := &session{cfg: &Config{Discovery: discovery, Streams: []StreamSpec{c.other, {Wildcard: &Wildcard{All: true}}}}, state: &checkpoint.State{
			Streams: map[string]checkpoint.Stream{c.stored: {Kind: "ConfigMap", Namespaced: true, Position: "5", Called: c.called}},
		}}
		got := false
		for _, r := range p.wanted(&p.cfg.Streams[1], offers) {
			got = got || r.String() == c.stored
		}
		assert.Equal(t, c.want, got, "%s, called %q, beside %s: the wildcard", c.stored, c.called, c.other.Resource)
	}
}

// A wildcard has taken a stream that the store has of it, before it was known that a name means that. The name goes on where the wildcard was.
func TestWildcard_yields_what_it_has_opened_to_a_name(t *testing.T) {
	api, log := newAPIServer(t, 10), newFakeLog()
	api.add(3)
	served := api.later()
	catalog := catalogOf(t, api)
	store := &memoryStore{state: checkpoint.State{
		Identity: checkpoint.Identity{Cluster: "test", Pipeline: "test"},
		Streams:  map[string]checkpoint.Stream{"configmaps.v1": {Position: "4", Kind: "ConfigMap", Namespaced: true, Fingerprint: source.Stream{Resource: configMaps}.Scope()}},
		Rows:     map[string]map[string]checkpoint.Row{},
	}}
	b := runBridge(t, api, log, store, func(c *Config) {
		c.Catalog, c.Identity = catalog, checkpoint.Identity{Cluster: "test", Pipeline: "test"}
		cfg := encode.Config{Cluster: "test", Pipeline: "test"}
		c.Streams = []StreamSpec{{Resource: "cm", Encoding: cfg}, {Resource: "*", Wildcard: &Wildcard{All: true}, Encoding: cfg}}
	})
	if s := b.only(t); s.spec.Wildcard == nil {
		t.Fatalf("%s is not opened by the wildcard", s.name)
	}
	wildcard := &b.cfg.Streams[1]
	must.Happen(t, "all that there is at first", func() bool {
		b.session(t).mu.Lock()
		defer b.session(t).mu.Unlock()
		_, opening := b.session(t).unbegun[wildcard]
		return !opening
	})
	assert.False(t, b.session(t).selectsNothing(wildcard), "the wildcard is said to select nothing while it reads")
	served.Store(true)
	must.Get(catalog.Look(t.Context()))(t)
	must.Happen(t, "the name's stream", func() bool {
		all := b.session(t).opened()
		return len(all) == 1 && all[0].spec.Resource == "cm"
	})
	must.Happen(t, "the wildcard to select nothing", func() bool { return b.session(t).selectsNothing(wildcard) })
	api.add(1)
	must.Happen(t, "what comes", func() bool { return len(log.lines()) > 0 })
	lines := strings.Join(log.lines(), "\n")
	assert.True(t, strings.Count(lines, "\n") == 0 && strings.Contains(lines, " 5 watch"), "the log has\n%s", lines)
	assert.NoError(t, b.stop(), "it ended")
}

func TestResolve_asks_ever_less_often_for_what_is_not_there(t *testing.T) {
	for _, c := range []struct{ before, absent, want time.Duration }{
		{250 * time.Millisecond, 0, 500 * time.Millisecond},
		{2 * time.Second, 4 * time.Second, 4 * time.Second},
		{4 * time.Second, 8 * time.Second, 5 * time.Second},
		{5 * time.Second, 49 * time.Second, 5 * time.Second},
		{5 * time.Second, 2 * time.Minute, 12 * time.Second},
		{12 * time.Second, time.Hour, 30 * time.Second},
		{30 * time.Second, 0, 5 * time.Second},
	} {
		assert.Equal(t, c.want, askAgain(c.before, c.absent), "after %v, %v", c.before, c.absent)
	}
}

// What the API server says for certain is asked for ever less often; what it does not answer is not.
func TestResolve_takes_for_absent_what_cannot_be_read(t *testing.T) {
	api := newAPIServer(t, 10)
	verbs, status := atomic.Pointer[string]{}, atomic.Int64{}
	api.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(int(status.Load()))
		switch r.URL.Path {
		case "/api":
			_, _ = io.WriteString(w, `{"kind":"APIVersions","versions":["v1"]}`)
		case "/apis":
			_, _ = io.WriteString(w, `{"kind":"APIGroupList","apiVersion":"v1","groups":[]}`)
		default:
			_, _ = io.WriteString(w, `{"kind":"APIResourceList","groupVersion":"v1","resources":[{"name":"bindings","namespaced":true,"kind":"Binding","verbs":[`+*verbs.Load()+`]}]}`)
		}
	})
	discovery := must.Get(source.NewDiscovery(&rest.Config{Host: api.URL}))(t)
	p := &session{cfg: &Config{Discovery: discovery}}
	for _, c := range []struct {
		resource, verbs string
		status          int64
		known, absent   bool
	}{
		{"bindings", `"create"`, 200, false, true},
		{"bindings", `"get","list"`, 200, false, true},
		{"things", `"list","watch"`, 200, false, true},
		{"bindings", `"list","watch"`, 200, true, false},
		{"bindings", `"list","watch"`, 503, false, false},
	} {
		verbs.Store(&c.verbs)
		status.Store(c.status)
		discovery.Reset()
		_, err := p.readable(&StreamSpec{Resource: c.resource})
		assert.True(t, (err == nil) == c.known && absent(err) == c.absent,
			"%s with %s, status %d: %v, absent %v", c.resource, c.verbs, c.status, err, absent(err))
	}
}

func TestResolve_asks_at_once_when_something_else_is_served(t *testing.T) {
	must.Prompt(t, "resolving", 3*time.Second, func() time.Duration { return resolving(t) })
}

// resolving is how long a bridge takes to read what has just been served. It would ask again in four seconds.
func resolving(t *testing.T) time.Duration {
	t.Helper()
	api := newAPIServer(t, 10)
	var served atomic.Bool
	var asked atomic.Int32
	all := api.Config.Handler
	api.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/api/v1" || served.Load() {
			all.ServeHTTP(w, r)
			return
		}
		asked.Add(1)
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"kind":"APIResourceList","groupVersion":"v1","resources":[]}`)
	})
	at := &rest.Config{Host: api.URL}
	client := must.Get(source.NewClient(at))(t)
	defer client.CloseIdleConnections()
	catalog := must.Get(source.NewCatalog(at, client, source.CatalogConfig{}))(t)
	must.Get(catalog.Look(t.Context()))(t)
	b := runBridge(t, api, newFakeLog(), &memoryStore{}, func(c *Config) { c.Catalog = catalog })
	must.Happen(t, "the fourth question", func() bool { return asked.Load() >= 5 }) // one was the catalog's
	served.Store(true)
	began := time.Now()
	must.Get(catalog.Look(t.Context()))(t)
	b.only(t)
	return time.Since(began)
}
