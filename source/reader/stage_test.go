// SPDX-License-Identifier: Apache-2.0

package reader

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kube-eventbridge/kube-eventbridge/internal/pause"
	"github.com/kube-eventbridge/kube-eventbridge/source/kube"
	"github.com/kube-eventbridge/kube-eventbridge/source/kube/kubetest"
)

// stage is an API server whose objects change while watches are open. Each write is of an object that is written once
// only, so that what a reader has to see is a list of names.
type stage struct {
	mu      sync.Mutex
	changed chan struct{}
	writes  []staged
	// open counts watches by path, asked all that were ever asked for.
	open  map[string]int
	asked map[string]int
	// cuts is raised to end all watches that are open; narrow refuses watches of all namespaces, compacted those from
	// before it.
	cuts      int
	narrow    bool
	compacted int
	// watchable is the version from which watches are possible, where lists are of older ones; lists of namespaces
	// whose names begin with refuses fail.
	watchable int
	refuses   string
	// vague: a refusal does not say which version is old enough.
	vague bool
	// timeouts: watches end when it was asked for.
	timeouts bool
	// hangs: reads of single objects are not answered.
	hangs bool
	// latency is how long a list takes; lists are those under way, and most how many there were.
	latency     time.Duration
	lists, most int
}

type staged struct {
	rev             int
	namespace, name string
	size            int
	bookmark        bool
}

func newStage() *stage {
	return &stage{changed: make(chan struct{}), open: map[string]int{}, asked: map[string]int{}}
}

func (s *stage) client(t *testing.T) *kube.Client {
	script := kubetest.NewScript(t)
	script.Model = s
	return clientOf(t, script)
}

// change lets f change the stage, and tells the watches.
func (s *stage) change(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
	close(s.changed)
	s.changed = make(chan struct{})
}

func (s *stage) write(namespace string, size int) {
	s.change(func() {
		rev := s.now() + 1
		s.writes = append(s.writes, staged{rev: rev, namespace: namespace, name: "o" + strconv.Itoa(rev), size: size})
	})
}

// bookmark is sent to all watches that are open, and does not count as a write.
func (s *stage) bookmark() {
	s.change(func() { s.writes = append(s.writes, staged{rev: s.now(), bookmark: true}) })
}

// now is the version; the caller holds mu.
func (s *stage) now() int {
	if n := len(s.writes); n > 0 {
		return s.writes[n-1].rev
	}
	return 10
}

// watches returns how many are open, by namespace, "" for all.
func (s *stage) watches() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	open := map[string]int{}
	for path, n := range s.open {
		if n > 0 {
			open[namespaceOf(path)] = n
		}
	}
	return open
}

// narrowly returns how many watches over one namespace were ever asked for.
func (s *stage) narrowly() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for namespace, asked := range s.asked {
		if namespace != "" {
			n += asked
		}
	}
	return n
}

// mostLists returns how many lists were under way at a time.
func (s *stage) mostLists() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.most
}

// widely returns how many watches over all namespaces were ever asked for.
func (s *stage) widely() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked[""]
}

func namespaceOf(path string) string {
	namespace, _, _ := strings.Cut(strings.TrimPrefix(path, "/api/v1/namespaces/"), "/")
	if strings.HasPrefix(path, "/api/v1/configmaps") {
		return ""
	}
	return namespace
}

func (s *stage) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	q, namespace := r.URL.Query(), namespaceOf(r.URL.Path)
	if q.Get("watch") == "" {
		s.list(w, r, namespace)
		return
	}
	from, _ := strconv.Atoi(q.Get("resourceVersion"))
	s.mu.Lock()
	s.asked[namespace]++
	cuts, refused, next := s.cuts, s.narrow && namespace == "", 0
	if from < max(s.compacted, s.watchable) {
		message := fmt.Sprintf("too old resource version: %d (%d)", from, max(s.compacted, s.watchable))
		if s.vague {
			message = "The resourceVersion for the provided watch is too old."
		}
		s.mu.Unlock()
		_, _ = fmt.Fprint(w, kubetest.FrameOf("ERROR", kubetest.StatusOf(http.StatusGone, "Expired", message)))
		return
	}
	if refused {
		s.mu.Unlock()
		w.WriteHeader(http.StatusForbidden)
		_, _ = fmt.Fprint(w, kubetest.StatusOf(http.StatusForbidden, "Forbidden", "not over all namespaces"))
		return
	}
	s.open[r.URL.Path]++
	for next < len(s.writes) && s.writes[next].bookmark == false && s.writes[next].rev <= from {
		next++
	}
	s.mu.Unlock()
	defer s.change(func() { s.open[r.URL.Path]-- })
	_ = http.NewResponseController(w).Flush()
	var timeout <-chan time.Time
	if n, _ := strconv.Atoi(q.Get("timeoutSeconds")); s.timeouts && n > 0 {
		timeout = time.After(time.Duration(n) * time.Second)
	}
	for {
		s.mu.Lock()
		fresh, changed, over := slices.Clone(s.writes[min(next, len(s.writes)):]), s.changed, s.cuts > cuts
		s.mu.Unlock()
		if over {
			return
		}
		for _, one := range fresh {
			next++
			if one.rev > from && (one.bookmark || namespace == "" || one.namespace == namespace) {
				_, _ = fmt.Fprint(w, one.frame())
			}
		}
		_ = http.NewResponseController(w).Flush()
		select {
		case <-changed:
		case <-timeout:
			return
		case <-r.Context().Done():
			return
		}
	}
}

func (w staged) frame() string {
	if w.bookmark {
		return kubetest.Bookmark(strconv.Itoa(w.rev))
	}
	return kubetest.FrameOf("ADDED", w.object())
}

func (w staged) object() string {
	o := kubetest.ConfigMap(w.name, "u-"+w.name, strconv.Itoa(w.rev))
	o = strings.Replace(o, `"namespace":"default"`, `"namespace":"`+w.namespace+`"`, 1)
	return strings.Replace(o, `"v"`, `"`+strings.Repeat("v", w.size)+`"`, 1)
}

// takes returns how long a list takes; s.mu is locked.
func (s *stage) takes(q url.Values) time.Duration {
	if s.hangs && q.Has("fieldSelector") {
		return time.Hour
	}
	return s.latency
}

// list answers as of now, or exactly at a version.
func (s *stage) list(w http.ResponseWriter, r *http.Request, namespace string) {
	q := r.URL.Query()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lists++
	s.mu.Unlock()
	_ = pause.For(r.Context(), 1) // a nanosecond of a bubble: by then, those that were given up have ended
	s.mu.Lock()
	s.most = max(s.most, s.lists)
	takes := s.takes(q)
	s.mu.Unlock()
	_ = pause.For(r.Context(), takes)
	s.mu.Lock()
	s.lists--
	if r.Context().Err() != nil {
		return
	}
	if s.refuses != "" && strings.HasPrefix(namespace, s.refuses) {
		w.WriteHeader(http.StatusInternalServerError)
		_, _ = fmt.Fprint(w, kubetest.StatusOf(http.StatusInternalServerError, "InternalError", "boom"))
		return
	}
	at := s.now()
	if v := q.Get("resourceVersion"); v != "" {
		at, _ = strconv.Atoi(v)
	}
	if at < s.compacted {
		w.WriteHeader(http.StatusGone)
		_, _ = fmt.Fprint(w, kubetest.StatusOf(http.StatusGone, "Expired", "the required revision has been compacted"))
		return
	}
	var items []string
	for _, one := range s.writes {
		name, only := strings.CutPrefix(q.Get("fieldSelector"), "metadata.name=")
		if !one.bookmark && one.rev <= at && (namespace == "" || one.namespace == namespace) && (!only || one.name == name) {
			items = append(items, one.object())
		}
	}
	_, _ = fmt.Fprint(w, kubetest.ListOf(strconv.Itoa(at), "", items...))
}
