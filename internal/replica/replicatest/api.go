// SPDX-License-Identifier: Apache-2.0

package replicatest

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"k8s.io/client-go/rest"
)

// API is an API server that has what a test puts into it, and faults that a real one does not show when they are
// wanted. It serves discovery, lists, watches and single objects. Nothing can be written to it, and it knows no
// selectors.
type API struct {
	server *httptest.Server

	mu      sync.Mutex
	version int
	kinds   []Kind
	events  []apiEvent
	changed chan struct{}
	// Refuse, if not nil, returns the code with which a request is refused; 0 is none. It is set before the first
	// request.
	Refuse func(r *http.Request) int
}

// Kind is a resource that an [API] serves in version v1.
type Kind struct {
	Group, Resource, Kind string
	Namespaced            bool
}

// ConfigMaps, Namespaces and Definitions are kinds.
var (
	ConfigMaps  = Kind{Resource: "configmaps", Kind: "ConfigMap", Namespaced: true}
	Namespaces  = Kind{Resource: "namespaces", Kind: "Namespace"}
	Definitions = Kind{
		Group: "apiextensions.k8s.io", Resource: "customresourcedefinitions", Kind: "CustomResourceDefinition",
	}
)

// apiEvent is a change as a watch tells it.
type apiEvent struct {
	version          int
	kind, typ        string
	namespace, name  string
	object, metadata json.RawMessage
}

// NewAPI starts an API server that serves some kinds, until the test ends.
func NewAPI(t *testing.T, kinds ...Kind) *API {
	t.Helper()
	a := &API{version: 100, kinds: kinds, changed: make(chan struct{})}
	a.server = httptest.NewServer(http.HandlerFunc(a.serve))
	t.Cleanup(func() { a.server.CloseClientConnections(); a.server.Close() })
	return a
}

// Config says how the API server is reached.
func (a *API) Config() *rest.Config { return &rest.Config{Host: a.server.URL} }

// Serve has the API server serve another kind.
func (a *API) Serve(k Kind) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.kinds = append(a.kinds, k)
}

// GoBack sets the version at which the API server is, as a restore of etcd does. Watches are not told.
func (a *API) GoBack(version int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.version = version
}

// Put makes or changes an object. Metadata is what it has besides name, namespace, uid and resourceVersion.
func (a *API) Put(resource, namespace, name string, metadata map[string]any) {
	a.tell("MODIFIED", resource, namespace, name, metadata)
}

// Remove deletes an object.
func (a *API) Remove(resource, namespace, name string) {
	a.tell("DELETED", resource, namespace, name, nil)
}

func (a *API) tell(typ, resource, namespace, name string, metadata map[string]any) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.version++
	all := map[string]any{"name": name, "uid": "uid-of-" + name, "resourceVersion": fmt.Sprint(a.version)}
	if namespace != "" {
		all["namespace"] = namespace
	}
	for key, value := range metadata {
		all[key] = value
	}
	i := slices.IndexFunc(a.kinds, func(k Kind) bool { return k.Resource == resource })
	marshal := func(apiVersion, kind string) json.RawMessage {
		text, _ := json.Marshal(map[string]any{"apiVersion": apiVersion, "kind": kind, "metadata": all}) // as a test has it
		return text
	}
	a.events = append(a.events, apiEvent{
		version: a.version, kind: resource, typ: typ, namespace: namespace, name: name,
		object:   marshal(a.kinds[i].apiVersion(), a.kinds[i].Kind),
		metadata: marshal("meta.k8s.io/v1", "PartialObjectMetadata"),
	})
	close(a.changed)
	a.changed = make(chan struct{})
}

func (k Kind) apiVersion() string { return strings.TrimPrefix(k.Group+"/v1", "/") }

func (k Kind) root() string {
	if k.Group == "" {
		return "/api/v1"
	}
	return "/apis/" + k.Group + "/v1"
}

func (a *API) serve(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	if a.Refuse != nil {
		if code := a.Refuse(r); code != 0 {
			refuse(w, code)
			return
		}
	}
	if found := a.discovery(r.URL.Path); found != nil {
		_ = json.NewEncoder(w).Encode(found)
		return
	}
	a.mu.Lock()
	kinds := slices.Clone(a.kinds)
	a.mu.Unlock()
	for _, k := range kinds {
		rest, found := strings.CutPrefix(r.URL.Path, k.root()+"/")
		if !found {
			continue
		}
		parts := strings.Split(rest, "/")
		namespace := ""
		if k.Namespaced && len(parts) > 2 && parts[0] == "namespaces" {
			namespace, parts = parts[1], parts[2:]
		}
		if len(parts) == 1 && parts[0] == k.Resource {
			a.read(w, r, k, namespace)
			return
		}
		if len(parts) == 2 && parts[0] == k.Resource {
			a.get(w, k, namespace, parts[1])
			return
		}
	}
	refuse(w, http.StatusNotFound)
}

func refuse(w http.ResponseWriter, code int) {
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(map[string]any{
		"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code,
		"reason":  map[int]string{403: "Forbidden", 404: "NotFound", 410: "Expired", 422: "Invalid"}[code],
		"message": fmt.Sprint("refused with ", code),
	})
}

// discovery returns what is at a path of discovery; nil if it is none.
func (a *API) discovery(path string) any {
	a.mu.Lock()
	defer a.mu.Unlock()
	type object = map[string]any
	var groups, resources []object
	for _, k := range a.kinds {
		version := object{"groupVersion": k.apiVersion(), "version": "v1"}
		if k.Group != "" {
			groups = append(groups, object{"name": k.Group, "versions": []object{version}, "preferredVersion": version})
		}
		if path == k.root() {
			resources = append(resources, object{
				"name": k.Resource, "namespaced": k.Namespaced, "kind": k.Kind, "verbs": []string{"list", "watch", "get"},
			})
		}
	}
	switch {
	case path == "/api":
		return object{"kind": "APIVersions", "versions": []string{"v1"}}
	case path == "/apis":
		return object{"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}
	case len(resources) > 0:
		version := strings.TrimPrefix(strings.TrimPrefix(path, "/apis/"), "/api/")
		return object{"kind": "APIResourceList", "groupVersion": version, "resources": resources}
	}
	return nil
}

// read answers a list or a watch.
func (a *API) read(w http.ResponseWriter, r *http.Request, k Kind, namespace string) {
	q := r.URL.Query()
	partial := strings.Contains(r.Header.Get("Accept"), "as=PartialObjectMetadata")
	switch {
	case q.Get("sendInitialEvents") != "":
		refuse(w, http.StatusUnprocessableEntity) // lists are asked for then
	case q.Get("watch") != "":
		var from int
		_, _ = fmt.Sscan(q.Get("resourceVersion"), &from)
		a.watch(w, r, k, namespace, from, partial)
	default:
		_ = json.NewEncoder(w).Encode(a.list(k, namespace, partial))
	}
}

func (a *API) get(w http.ResponseWriter, k Kind, namespace, name string) {
	if object, found := a.newest(k, namespace, false)[namespace+"/"+name]; found {
		_, _ = w.Write(object) // who asked has gone
		return
	}
	refuse(w, http.StatusNotFound)
}

// newest returns the objects that there are, by namespace and name.
func (a *API) newest(k Kind, namespace string, partial bool) map[string]json.RawMessage {
	a.mu.Lock()
	defer a.mu.Unlock()
	newest := make(map[string]json.RawMessage)
	for _, e := range a.events {
		if !e.in(k, namespace) {
			continue
		}
		key := e.namespace + "/" + e.name
		newest[key] = e.as(partial)
		if e.typ == "DELETED" {
			delete(newest, key)
		}
	}
	return newest
}

func (a *API) list(k Kind, namespace string, partial bool) any {
	items := slices.AppendSeq([]json.RawMessage{}, maps.Values(a.newest(k, namespace, partial)))
	a.mu.Lock()
	defer a.mu.Unlock()
	apiVersion, kind := k.apiVersion(), k.Kind+"List"
	if partial {
		apiVersion, kind = "meta.k8s.io/v1", "PartialObjectMetadataList"
	}
	return map[string]any{
		"apiVersion": apiVersion, "kind": kind, "metadata": map[string]string{"resourceVersion": fmt.Sprint(a.version)},
		"items": items,
	}
}

func (e *apiEvent) in(k Kind, namespace string) bool {
	return e.kind == k.Resource && (namespace == "" || namespace == e.namespace)
}

func (e *apiEvent) as(partial bool) json.RawMessage {
	if partial {
		return e.metadata
	}
	return e.object
}

func (a *API) watch(w http.ResponseWriter, r *http.Request, k Kind, namespace string, from int, partial bool) {
	_ = http.NewResponseController(w).Flush()
	for next := 0; ; {
		a.mu.Lock()
		events, changed := a.events[next:], a.changed
		next = len(a.events)
		a.mu.Unlock()
		for _, e := range events {
			if e.version > from && e.in(k, namespace) {
				_ = json.NewEncoder(w).Encode(map[string]any{"type": e.typ, "object": e.as(partial)})
			}
		}
		_ = http.NewResponseController(w).Flush()
		select {
		case <-changed:
		case <-r.Context().Done():
			return
		}
	}
}
