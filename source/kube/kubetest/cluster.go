// SPDX-License-Identifier: Apache-2.0

package kubetest

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// Write is one revision of etcd: the state of a ConfigMap from there on, or its end.
type Write struct {
	Rev       int
	Name, UID string
	Label     string
	Gone      bool
	// Size is how many bytes it has beside its metadata.
	Size int
}

// Cluster is an API server with a history: it lists at any version that it still has, and watches from any that is not
// too old.
type Cluster struct {
	T      *testing.T
	Script *Script
	// Fault, if it is not nil, may answer instead. It is told how many requests came before.
	Fault func(n int, q url.Values) *Step

	Mu     sync.Mutex
	Writes []Write
	Now    int
	// Versions before Compacted are gone; watches from before Oldest are refused.
	Compacted, Oldest int
	Asked             []url.Values
	Paths, Accepted   []string
	running, Most     int
}

// NewCluster returns a cluster whose etcd is at revision now, behind the writes.
func NewCluster(t *testing.T, now int, writes ...Write) *Cluster {
	c := &Cluster{T: t, Writes: writes, Now: now, Oldest: now}
	c.Script = NewScript(t)
	c.Script.Model = c
	return c
}

// Reads are the requests for one object at a version, as "name@version".
func (c *Cluster) Reads() (reads []string) {
	c.Mu.Lock()
	defer c.Mu.Unlock()
	for _, q := range c.Asked {
		if name, ok := strings.CutPrefix(q.Get("fieldSelector"), "metadata.name="); ok {
			name, _, _ = strings.Cut(name, ",")
			reads = append(reads, name+"@"+q.Get("resourceVersion"))
		}
	}
	return reads
}

// Watches is how many watches were asked for.
func (c *Cluster) Watches() (n int) {
	c.Mu.Lock()
	defer c.Mu.Unlock()
	for _, q := range c.Asked {
		if q.Get("watch") != "" {
			n++
		}
	}
	return n
}

func (c *Cluster) count(d int) {
	c.Mu.Lock()
	defer c.Mu.Unlock()
	c.running += d
	c.Most = max(c.Most, c.running)
}

func (c *Cluster) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	c.Mu.Lock()
	n := len(c.Asked)
	c.Asked, c.Paths, c.Accepted = append(c.Asked, q), append(c.Paths, r.URL.Path),
		append(c.Accepted, r.Header.Get("Accept"))
	c.Mu.Unlock()
	if q.Get("watch") == "" {
		c.count(1)
		defer c.count(-1)
	}
	st := Step{}
	if fault := c.Fault; fault != nil {
		if f := fault(n, q); f != nil {
			st = *f
		}
	}
	if st == (Step{}) {
		c.Mu.Lock()
		st = c.Answer(q)
		c.Mu.Unlock()
	}
	if st.After != "" {
		w.Header().Set("Retry-After", st.After)
	}
	if st.Status != 0 {
		w.WriteHeader(st.Status)
	}
	_, _ = w.Write([]byte(st.Body))
	_ = http.NewResponseController(w).Flush()
	if st.Hold || st.Mute {
		<-r.Context().Done()
	}
	if st.Cut {
		panic(http.ErrAbortHandler)
	}
}

// Answer returns what is answered to a request, which may be changed before it is sent.
func (c *Cluster) Answer(q url.Values) Step {
	version := c.Now
	if v := q.Get("resourceVersion"); v != "" {
		version, _ = strconv.Atoi(v)
	}
	label, name := strings.TrimPrefix(q.Get("labelSelector"), "app="), ""
	for _, f := range strings.Split(q.Get("fieldSelector"), ",") {
		if n, ok := strings.CutPrefix(f, "metadata.name="); ok {
			name = n
		}
	}
	if q.Get("watch") != "" {
		return c.watch(version, label)
	}
	from := 0
	if token := q.Get("continue"); token != "" {
		if _, err := fmt.Sscanf(token, "%d-%d", &version, &from); err != nil {
			_, _ = fmt.Sscanf(token, "latest-%d", &from) // of the present, whenever that is
		}
	}
	if version < c.Compacted {
		return Step{Status: http.StatusGone, Body: StatusOf(http.StatusGone, "Expired",
			"the required revision has been compacted")}
	}
	if version > c.Now {
		return Step{
			Status: http.StatusGatewayTimeout,
			Body: `{"kind":"Status","status":"Failure","reason":"Timeout","code":504,` +
				`"message":"Too large resource version","details":{"causes":[{"reason":"ResourceVersionTooLarge","message":"Too large"}]}}`,
		}
	}
	items, more := c.Items(version, label, name), ""
	if limit, _ := strconv.Atoi(q.Get("limit")); from+limit < len(items) {
		more = fmt.Sprintf("%d-%d", version, from+limit)
		items = items[from : from+limit]
	} else {
		items = items[min(from, len(items)):]
	}
	return Step{Body: ListOf(strconv.Itoa(version), more, items...)}
}

// States are the writes that stand at a version, by name.
func (c *Cluster) States(version int) map[string]Write {
	states := map[string]Write{}
	for _, w := range c.Writes {
		if w.Rev > version {
			break
		}
		states[w.Name] = w
		if w.Gone {
			delete(states, w.Name)
		}
	}
	return states
}

// Items returns the objects at a version, as JSON.
func (c *Cluster) Items(version int, label, name string) (items []string) {
	states := c.States(version)
	var names []string
	for n, w := range states {
		if (label == "" || w.Label == label) && (name == "" || n == name) {
			names = append(names, n)
		}
	}
	slices.Sort(names)
	for _, n := range names {
		item := ConfigMap(n, states[n].UID, strconv.Itoa(states[n].Rev))
		items = append(items, strings.Replace(item, `"v"`, `"`+strings.Repeat("v", states[n].Size)+`"`, 1))
	}
	return items
}

func (c *Cluster) watch(version int, label string) Step {
	if version < c.Oldest {
		return Step{Body: FrameOf("ERROR", StatusOf(http.StatusGone, "Expired",
			fmt.Sprintf("too old resource version: %d (%d)", version, c.Oldest)))}
	}
	var frames strings.Builder
	for _, w := range c.Writes {
		before, existed := c.States(w.Rev - 1)[w.Name]
		was := existed && (label == "" || before.Label == label)
		is := !w.Gone && (label == "" || w.Label == label)
		object := ConfigMap(w.Name, w.UID, strconv.Itoa(w.Rev))
		switch {
		case w.Rev <= version:
		case is && was:
			frames.WriteString(FrameOf("MODIFIED", object))
		case is:
			frames.WriteString(FrameOf("ADDED", object))
		case was:
			frames.WriteString(FrameOf("DELETED", ConfigMap(w.Name, before.UID, strconv.Itoa(w.Rev))))
		}
	}
	return Step{Hold: true, Body: frames.String()}
}

// ManyObjects are n writes at the versions from 1, and what is told of them.
func ManyObjects(n int) (writes []Write, told []string) {
	for i := range n {
		name := fmt.Sprintf("o%05d", i)
		writes = append(writes, Write{Rev: i + 1, Name: name, UID: "u-" + name})
		told = append(told, fmt.Sprintf("default/%s u-%s %d", name, name, i+1))
	}
	return writes, told
}

// Always answers every request alike.
func Always(st Step) func(int, url.Values) *Step {
	return func(int, url.Values) *Step { return &st }
}
