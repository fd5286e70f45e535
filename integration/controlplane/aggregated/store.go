// SPDX-License-Identifier: Apache-2.0

package aggregated

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/apimachinery/pkg/watch"
)

// first is the version of a server that has had no notes yet. Each change has the next one.
const first = 1

// after returns the version behind changes.
func after(changes []Change) uint64 { return first + uint64(len(changes)) }

// History is what has happened from an installation to the next.
type History struct {
	// First is the version of the server without notes, Last the newest one.
	First, Last uint64
	Changes     []Change
}

// Change is a change of one note.
type Change struct {
	Type            watch.EventType
	Version         uint64
	Namespace, Name string
	UID             string
	// Object is the note in JSON. A deletion has the last state, at the version of the deletion.
	Object json.RawMessage
}

func (c *Change) key() string { return c.Namespace + "/" + c.Name }

// store is the data of one installation.
type store struct {
	apiVersion string

	mu      sync.Mutex // guards what follows
	changes []Change
	changed chan struct{} // closed and replaced at each change
	oldest  uint64        // versions before it are forgotten
}

func newStore(group string) *store {
	return &store{apiVersion: group + "/" + version, oldest: first, changed: make(chan struct{})}
}

func (s *store) read() (changes []Change, oldest uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.changes[:len(s.changes):len(s.changes)], s.oldest
}

func (s *store) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.oldest = after(s.changes)
}

func (s *store) put(namespace, name, text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := Change{Type: watch.Added, Namespace: namespace, Name: name, UID: string(uuid.NewUUID())}
	if before, exists := existing(s.changes)[c.key()]; exists {
		c.Type, c.UID = watch.Modified, before.UID
	}
	s.add(c, text)
}

func (s *store) remove(namespace, name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c, exists := existing(s.changes)[namespace+"/"+name]
	if !exists {
		panic("BUG: there is no note " + namespace + "/" + name)
	}
	var last struct{ Text string }
	_ = json.Unmarshal(c.Object, &last) // add has written it
	c.Type = watch.Deleted
	s.add(c, last.Text)
}

// add gives a change its version. The caller holds mu.
func (s *store) add(c Change, text string) {
	c.Version = after(s.changes) + 1
	c.Object, _ = json.Marshal(map[string]any{ // there is nothing that JSON cannot have
		"apiVersion": s.apiVersion, "kind": "Note", "text": text,
		"metadata": map[string]any{
			"namespace": c.Namespace, "name": c.Name, "uid": c.UID, "resourceVersion": strconv.FormatUint(c.Version, 10),
		},
	})
	s.changes = append(s.changes, c)
	close(s.changed)
	s.changed = make(chan struct{})
}

// existing returns the notes that exist after changes.
func existing(changes []Change) map[string]Change {
	all := map[string]Change{}
	for _, c := range changes {
		if all[c.key()] = c; c.Type == watch.Deleted {
			delete(all, c.key())
		}
	}
	return all
}

// handler answers 404 to what it does not know. kube-apiserver then asks for discovery in its older form.
func (s *store) handler() http.Handler {
	mux, root := http.NewServeMux(), "GET /apis/"+s.apiVersion
	mux.HandleFunc(root, func(w http.ResponseWriter, _ *http.Request) {
		write(w, http.StatusOK, metav1.APIResourceList{
			TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}, GroupVersion: s.apiVersion,
			APIResources: []metav1.APIResource{{
				Name: "notes", SingularName: "note", Namespaced: true, Kind: "Note", Verbs: metav1.Verbs{"list", "watch"},
			}},
		})
	})
	mux.HandleFunc(root+"/notes", s.serve)
	mux.HandleFunc(root+"/namespaces/{namespace}/notes", s.serve)
	return mux
}

func (s *store) serve(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	namespace := r.PathValue("namespace")
	name, one := strings.CutPrefix(q.Get("fieldSelector"), "metadata.name=")
	selects := func(c *Change) bool {
		return (namespace == "" || namespace == c.Namespace) && (!one || name == c.Name)
	}
	changes, oldest := s.read()
	at, err := strconv.ParseUint(q.Get("resourceVersion"), 10, 64)
	watches := q.Get("watch") == "true"
	exact := q.Get("resourceVersionMatch") == string(metav1.ResourceVersionMatchExact)
	switch {
	case !watches && !exact:
		s.list(w, changes, selects)
	case err != nil || at < oldest || at > after(changes) && watches:
		refuse(w, apierrors.NewResourceExpired(fmt.Sprintf("version %d is not one of %d to %d", at, oldest, after(changes))))
	case at > after(changes):
		refuse(w, apierrors.NewTimeoutError(fmt.Sprintf("Too large resource version: %d", at), 1))
	case exact:
		s.list(w, changes[:at-first], selects)
	default:
		s.watch(w, r, at, selects)
	}
}

// list writes what exists after changes, on one page.
func (s *store) list(w http.ResponseWriter, changes []Change, selects func(*Change) bool) {
	items, all := []json.RawMessage{}, existing(changes)
	for _, key := range slices.Sorted(maps.Keys(all)) {
		if c := all[key]; selects(&c) {
			items = append(items, c.Object)
		}
	}
	write(w, http.StatusOK, map[string]any{
		"apiVersion": s.apiVersion, "kind": "NoteList", "items": items,
		"metadata": map[string]any{"resourceVersion": strconv.FormatUint(after(changes), 10)},
	})
}

// watch shows what comes after a version, with a bookmark every second, until the client goes or the server stops.
func (s *store) watch(w http.ResponseWriter, r *http.Request, at uint64, selects func(*Change) bool) {
	w.Header().Set("Content-Type", "application/json")
	flush, frames := http.NewResponseController(w), json.NewEncoder(w)
	bookmarks := time.NewTicker(time.Second)
	defer bookmarks.Stop()
	for {
		s.mu.Lock()
		changes, changed := s.changes[at-first:len(s.changes):len(s.changes)], s.changed
		s.mu.Unlock()
		for i := range changes {
			if c := &changes[i]; selects(c) {
				// A client that left ends the request's context.
				_ = frames.Encode(map[string]any{"type": c.Type, "object": c.Object})
			}
		}
		at += uint64(len(changes))
		_ = flush.Flush()
		select {
		case <-changed:
		case <-bookmarks.C:
			_ = frames.Encode(map[string]any{"type": watch.Bookmark, "object": map[string]any{
				"apiVersion": s.apiVersion, "kind": "Note",
				"metadata": map[string]any{"resourceVersion": strconv.FormatUint(at, 10)},
			}})
		case <-r.Context().Done():
			return
		}
	}
}

func refuse(w http.ResponseWriter, err *apierrors.StatusError) {
	status := err.Status()
	status.TypeMeta = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}
	write(w, int(status.Code), status)
}

func write(w http.ResponseWriter, code int, answer any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(answer) // a client that is gone reads nothing
}
