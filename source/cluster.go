// SPDX-License-Identifier: Apache-2.0

package source

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

// write is one revision of etcd: the state of a ConfigMap from there on, or its end.
type write struct {
	rev       int
	name, uid string
	label     string
	gone      bool
	// size is how many bytes it has beside its metadata.
	size int
}

// cluster is an API server with a history: it lists at any version that it still has, and watches from any that is not
// too old.
type cluster struct {
	t      *testing.T
	script *script
	// fault, if it is not nil, may answer instead. It is told how many requests came before.
	fault func(n int, q url.Values) *step

	mu     sync.Mutex
	writes []write
	now    int
	// Versions before compacted are gone; watches from before oldest are refused.
	compacted, oldest int
	asked             []url.Values
	paths, accepted   []string
	running, most     int
}

func newCluster(t *testing.T, now int, writes ...write) *cluster {
	c := &cluster{t: t, writes: writes, now: now, oldest: now}
	c.script = newScript(t)
	c.script.model = c
	return c
}

// reads are the requests for one object at a version, as "name@version".
func (c *cluster) reads() (reads []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, q := range c.asked {
		if name, ok := strings.CutPrefix(q.Get("fieldSelector"), "metadata.name="); ok {
			name, _, _ = strings.Cut(name, ",")
			reads = append(reads, name+"@"+q.Get("resourceVersion"))
		}
	}
	return reads
}

// watches is how many watches were asked for.
func (c *cluster) watches() (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, q := range c.asked {
		if q.Get("watch") != "" {
			n++
		}
	}
	return n
}

func (c *cluster) count(d int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.running += d
	c.most = max(c.most, c.running)
}

func (c *cluster) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	c.mu.Lock()
	n := len(c.asked)
	c.asked, c.paths, c.accepted = append(c.asked, q), append(c.paths, r.URL.Path),
		append(c.accepted, r.Header.Get("Accept"))
	c.mu.Unlock()
	if q.Get("watch") == "" {
		c.count(1)
		defer c.count(-1)
	}
	st := step{}
	if fault := c.fault; fault != nil {
		if f := fault(n, q); f != nil {
			st = *f
		}
	}
	if st == (step{}) {
		c.mu.Lock()
		st = c.answer(q)
		c.mu.Unlock()
	}
	if st.after != "" {
		w.Header().Set("Retry-After", st.after)
	}
	if st.status != 0 {
		w.WriteHeader(st.status)
	}
	_, _ = w.Write([]byte(st.body))
	_ = http.NewResponseController(w).Flush()
	if st.hold || st.mute {
		<-r.Context().Done()
	}
	if st.cut {
		panic(http.ErrAbortHandler)
	}
}

func (c *cluster) answer(q url.Values) step {
	version := c.now
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
	if version < c.compacted {
		return step{status: http.StatusGone, body: statusOf(http.StatusGone, "Expired",
			"the required revision has been compacted")}
	}
	if version > c.now {
		return step{
			status: http.StatusGatewayTimeout,
			body: `{"kind":"Status","status":"Failure","reason":"Timeout","code":504,` +
				`"message":"Too large resource version","details":{"causes":[{"reason":"ResourceVersionTooLarge","message":"Too large"}]}}`,
		}
	}
	items, more := c.items(version, label, name), ""
	if limit, _ := strconv.Atoi(q.Get("limit")); from+limit < len(items) {
		more = fmt.Sprintf("%d-%d", version, from+limit)
		items = items[from : from+limit]
	} else {
		items = items[min(from, len(items)):]
	}
	return step{body: listOf(strconv.Itoa(version), more, items...)}
}

// states are the writes that stand at a version, by name.
func (c *cluster) states(version int) map[string]write {
	states := map[string]write{}
	for _, w := range c.writes {
		if w.rev > version {
			break
		}
		states[w.name] = w
		if w.gone {
			delete(states, w.name)
		}
	}
	return states
}

func (c *cluster) items(version int, label, name string) (items []string) {
	states := c.states(version)
	var names []string
	for n, w := range states {
		if (label == "" || w.label == label) && (name == "" || n == name) {
			names = append(names, n)
		}
	}
	slices.Sort(names)
	for _, n := range names {
		item := cm(n, states[n].uid, strconv.Itoa(states[n].rev))
		items = append(items, strings.Replace(item, `"v"`, `"`+strings.Repeat("v", states[n].size)+`"`, 1))
	}
	return items
}

func (c *cluster) watch(version int, label string) step {
	if version < c.oldest {
		return step{body: frameOf("ERROR", statusOf(http.StatusGone, "Expired",
			fmt.Sprintf("too old resource version: %d (%d)", version, c.oldest)))}
	}
	var frames strings.Builder
	for _, w := range c.writes {
		before, existed := c.states(w.rev - 1)[w.name]
		was := existed && (label == "" || before.label == label)
		is := !w.gone && (label == "" || w.label == label)
		object := cm(w.name, w.uid, strconv.Itoa(w.rev))
		switch {
		case w.rev <= version:
		case is && was:
			frames.WriteString(frameOf("MODIFIED", object))
		case is:
			frames.WriteString(frameOf("ADDED", object))
		case was:
			frames.WriteString(frameOf("DELETED", cm(w.name, before.uid, strconv.Itoa(w.rev))))
		}
	}
	return step{hold: true, body: frames.String()}
}

// manyObjects are n writes at the versions from 1, and what is told of them.
func manyObjects(n int) (writes []write, told []string) {
	for i := range n {
		name := fmt.Sprintf("o%05d", i)
		writes = append(writes, write{rev: i + 1, name: name, uid: "u-" + name})
		told = append(told, fmt.Sprintf("default/%s u-%s %d", name, name, i+1))
	}
	return writes, told
}

// always answers every request alike.
func always(st step) func(int, url.Values) *step {
	return func(int, url.Values) *step { return &st }
}
