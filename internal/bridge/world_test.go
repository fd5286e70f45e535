// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	"github.com/kube-eventbridge/kube-eventbridge/encode"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
	"github.com/kube-eventbridge/kube-eventbridge/sink"
	"github.com/kube-eventbridge/kube-eventbridge/source"
)

// world is an API server with ConfigMaps and custom resources that a test changes. Versions of a resource show the same
// objects.
type world struct {
	*httptest.Server

	mu      sync.Mutex
	changed chan struct{}
	version int
	// served are resources by their full names, as widgets.v1.x.
	served []string
	// history has all that happened. An object that does not match anything is deleted.
	history []occurrence
	// denied are namespaces that may not be listed; an empty one for all.
	denied map[string]bool
}

type occurrence struct {
	resource string // as widgets.x
	version  int
	object   thing
	deleted  bool
}

type thing struct {
	namespace, name, uid, labels string
	version                      int
}

func newWorld(t *testing.T, served ...string) *world {
	w := &world{version: 1, changed: make(chan struct{}), served: served, denied: map[string]bool{}}
	w.Server = httptest.NewServer(http.HandlerFunc(w.answer))
	t.Cleanup(func() {
		w.CloseClientConnections()
		w.Close()
	})
	return w
}

func (w *world) change(f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f()
	close(w.changed)
	w.changed = make(chan struct{})
}

// put creates or changes an object: of a resource as widgets.x, in a place as shop/one, with labels as a=b.
func (w *world) put(resource, place, with string) {
	w.change(func() {
		w.version++
		o := thing{labels: with, version: w.version, uid: fmt.Sprint("u", w.version)}
		o.namespace, o.name, _ = strings.Cut(place, "/")
		if before, ok := w.at(resource, w.version)[place]; ok {
			o.uid = before.uid
		}
		w.history = append(w.history, occurrence{resource, w.version, o, false})
	})
}

func (w *world) remove(resource, place string) {
	w.change(func() {
		w.version++
		o := w.at(resource, w.version)[place]
		o.version = w.version
		w.history = append(w.history, occurrence{resource, w.version, o, true})
	})
}

// serve has the API server serve other resources from now on.
func (w *world) serve(served ...string) { w.change(func() { w.served = served }) }

// at returns the objects at a version, by their places; the caller holds mu.
func (w *world) at(resource string, version int) map[string]thing {
	all := map[string]thing{}
	for _, h := range w.history {
		place := h.object.namespace + "/" + h.object.name
		switch {
		case h.resource != resource || h.version > version:
		case h.deleted:
			delete(all, place)
		default:
			all[place] = h.object
		}
	}
	return all
}

func (w *world) answer(out http.ResponseWriter, r *http.Request) {
	out.Header().Set("Content-Type", "application/json")
	w.mu.Lock()
	served := slices.Clone(w.served)
	w.mu.Unlock()
	versions := map[string][]string{} // by group
	for _, name := range served {
		at, _ := source.ParseName(name)
		if !slices.Contains(versions[at.Group], at.Version) {
			versions[at.Group] = append(versions[at.Group], at.Version)
		}
	}
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	group, version, rest := "", "v1", parts[1:]
	if parts[0] == "apis" && len(parts) > 2 {
		group, version, rest = parts[1], parts[2], parts[3:]
	} else if parts[0] == "api" && len(parts) > 1 {
		rest = parts[2:]
	}
	switch {
	case r.URL.Path == "/readyz":
		_, _ = io.WriteString(out, "ok")
	case r.URL.Path == "/api":
		_, _ = io.WriteString(out, `{"kind":"APIVersions","versions":["v1"]}`)
	case r.URL.Path == "/apis":
		var groups []string
		for _, g := range slices.Sorted(maps.Keys(versions)) {
			if g == "" {
				continue
			}
			var all []string
			for _, v := range versions[g] {
				all = append(all, fmt.Sprintf(`{"groupVersion":"%s/%s","version":%q}`, g, v, v))
			}
			groups = append(groups, fmt.Sprintf(`{"name":%q,"versions":[%s],"preferredVersion":%s}`,
				g, strings.Join(all, ","), all[0]))
		}
		_, _ = fmt.Fprintf(out, `{"kind":"APIGroupList","apiVersion":"v1","groups":[%s]}`, strings.Join(groups, ","))
	case group == "apiextensions.k8s.io":
		out.WriteHeader(http.StatusNotFound)
		_, _ = io.WriteString(out,
			`{"kind":"Status","status":"Failure","reason":"NotFound","code":404,"details":{"name":"x"}}`)
	case group == "apiregistration.k8s.io":
		_, _ = io.WriteString(out, `{"items":[]}`)
	case len(rest) == 0:
		w.resources(out, served, group, version)
	default:
		w.objects(out, r, served, group, version, rest)
	}
}

func (w *world) resources(out io.Writer, served []string, group, version string) {
	var all []string
	for _, name := range served {
		if at, _ := source.ParseName(name); at.Group == group && at.Version == version {
			all = append(all,
				fmt.Sprintf(`{"name":%q,"singularName":"","namespaced":%t,"kind":"ConfigMap","verbs":["list","watch"]}`,
					at.Resource.Resource, at.Resource.Resource != "nodes"))
		}
	}
	gv := strings.TrimPrefix(group+"/"+version, "/")
	_, _ = fmt.Fprintf(out, `{"kind":"APIResourceList","groupVersion":%q,"resources":[%s]}`, gv, strings.Join(all, ","))
}

// scope is what a request selects.
type scope struct {
	resource, namespace, name string
	selector                  labels.Selector
}

func (s *scope) has(o thing, ok bool) bool {
	set, _ := labels.ConvertSelectorToLabelsMap(o.labels)
	return ok && (s.namespace == "" || s.namespace == o.namespace) && (s.name == "" || s.name == o.name) &&
		s.selector.Matches(set)
}

func (w *world) objects(
	out http.ResponseWriter, r *http.Request, served []string, group, version string, rest []string,
) {
	q, s := r.URL.Query(), scope{}
	if rest[0] == "namespaces" && len(rest) == 3 {
		s.namespace, rest = rest[1], rest[2:]
	}
	full := source.Resource{Group: group, Version: version, Resource: rest[0]}
	s.resource = strings.TrimSuffix(rest[0]+"."+group, ".")
	s.selector, _ = labels.Parse(q.Get("labelSelector"))
	s.name = strings.TrimPrefix(q.Get("fieldSelector"), "metadata.name=")
	w.mu.Lock()
	denied, now := w.denied[s.namespace], w.version
	w.mu.Unlock()
	switch {
	case !slices.Contains(served, full.String()):
		out.WriteHeader(http.StatusNotFound)
		_, _ = io.WriteString(out, `{"kind":"Status","status":"Failure","reason":"NotFound","code":404}`)
		return
	case denied:
		out.WriteHeader(http.StatusForbidden)
		_, _ = io.WriteString(out, `{"kind":"Status","status":"Failure","reason":"Forbidden","code":403}`)
		return
	case q.Get("watch") != "":
		w.watch(out, r, &s, full)
		return
	}
	if exact, err := strconv.Atoi(q.Get("resourceVersion")); err == nil && exact > 0 {
		now = exact
	}
	w.mu.Lock()
	all := w.at(s.resource, now)
	w.mu.Unlock()
	var items []string
	for _, place := range slices.Sorted(maps.Keys(all)) {
		if s.has(all[place], true) {
			items = append(items, all[place].json(full))
		}
	}
	_, _ = fmt.Fprintf(out, `{"kind":"ConfigMapList","apiVersion":"v1","metadata":{"resourceVersion":"%d"},"items":[%s]}`,
		now, strings.Join(items, ","))
}

func (o thing) json(r source.Resource) string {
	var set []string
	for one := range strings.SplitSeq(o.labels, ",") {
		if key, value, ok := strings.Cut(one, "="); ok {
			set = append(set, fmt.Sprintf("%q:%q", key, value))
		}
	}
	apiVersion := strings.TrimPrefix(r.Group+"/"+r.Version, "/")
	return fmt.Sprintf(`{"kind":"ConfigMap","apiVersion":%q,"metadata":{"name":%q,"namespace":%q,"uid":%q,`+
		`"resourceVersion":"%d","labels":{%s}}}`,
		apiVersion, o.name, o.namespace, o.uid, o.version, strings.Join(set, ","))
}

func (w *world) watch(out http.ResponseWriter, r *http.Request, s *scope, full source.Resource) {
	from, _ := strconv.Atoi(r.URL.Query().Get("resourceVersion"))
	for {
		w.mu.Lock()
		history, changed := w.history, w.changed
		stays := slices.Contains(w.served, full.String())
		w.mu.Unlock()
		if !stays {
			return
		}
		for _, h := range history {
			if h.resource != s.resource || h.version <= from {
				continue
			}
			w.mu.Lock()
			before, was := w.at(s.resource, h.version-1)[h.object.namespace+"/"+h.object.name]
			w.mu.Unlock()
			from = h.version
			had, has := s.has(before, was), s.has(h.object, !h.deleted)
			if h.deleted {
				has = false
			}
			kind := map[[2]bool]string{
				{false, true}: "ADDED", {true, true}: "MODIFIED",
				{true, false}: "DELETED",
			}[[2]bool{had, has}]
			if kind == "" {
				continue
			}
			if kind == "DELETED" {
				before.version = h.version
				h.object = before
			}
			if _, err := fmt.Fprintf(out, `{"type":%q,"object":%s}`+"\n", kind, h.object.json(full)); err != nil {
				return
			}
		}
		out.(http.Flusher).Flush()
		select {
		case <-changed:
		case <-r.Context().Done():
			return
		}
	}
}

// runIn runs a bridge with entries in a world.
func runIn(t *testing.T, w *world, to sink.Sink, store checkpoint.Store, entries ...StreamSpec) *bridge {
	t.Helper()
	return runBridge(t, &apiServer{Server: w.Server}, to, store, func(c *Config) {
		c.Streams, c.Identity = entries, checkpoint.Identity{Cluster: "test", Pipeline: "test"}
		for i := range c.Streams {
			c.Streams[i].Encoding = encode.Config{Cluster: "test", Pipeline: "test"}
			c.Streams[i].Says = fmt.Sprintf("%v", c.Streams[i].Selection())
		}
	})
}

// respecify has a bridge read other entries.
func (b *bridge) respecify(t *testing.T, entries ...StreamSpec) {
	t.Helper()
	for i := range entries {
		entries[i].Encoding = encode.Config{Cluster: "test", Pipeline: "test"}
		entries[i].Says = fmt.Sprintf("%v", entries[i].Selection())
	}
	b.Respecify(t.Context(), entries)
}

// watches waits until exactly these streams are open, and watch.
func (b *bridge) watches(t *testing.T, names ...string) {
	t.Helper()
	slices.Sort(names)
	var open []string
	must.Happen(t, "streams "+strings.Join(names, " "), func() bool {
		open = nil
		for _, s := range b.session(t).journal.Opened() {
			if s.Status.Watching() {
				open = append(open, s.Name)
			} else {
				open = append(open, s.Name+" which does not")
			}
		}
		slices.Sort(open)
		return slices.Equal(open, names)
	})
}
