// SPDX-License-Identifier: Apache-2.0

package sequence_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"

	"github.com/kube-eventbridge/kube-eventbridge/internal/sequence"
)

// Objects have one of three names, in one of two namespaces. A selection is a list of streams.
var (
	names      = []string{"a/x", "a/y", "b/x"}
	selections = [][]spec{
		{{"wide", "ab", false}},
		{{"narrow", "ab", false}},
		{{"narrow", "a", false}},
		{{"narrow", "a", false}, {"narrow", "b", false}},
		nil,
		{{"narrow", "ab", true}},
		{{"wide", "a", false}},
		{{"narrow", "a", true}, {"narrow", "b", false}},
	}
)

// spec is the identity of a stream: a name, its namespaces, and whether it selects labelled objects only.
type spec struct {
	name, namespaces string
	labelled         bool
}

func (s spec) has(key string) bool { return s.covers(key[:1]) }

func (s spec) covers(namespace string) bool {
	return namespace == "*" || slices.Contains(s.list(), namespace)
}

func (s spec) list() (all []string) {
	for _, n := range s.namespaces {
		all = append(all, string(n))
	}
	return all
}

func (s spec) selects(key string, labelled bool) bool { return s.has(key) && (!s.labelled || labelled) }

// object is what the API server has under a name. Every write has other content.
type object struct {
	uid      string
	version  uint64
	labelled bool
	content  uint64
}

// write is one in the server's history. Was says that the object before had the label.
type write struct {
	object
	key          string
	deleted, was bool
}

// server is an API server and its etcd.
type server struct {
	version, compacted uint64
	objects            map[string]object
	history            []write
	writes             []write // all that ever were, also those that a restore undid
	uids               int
	content            uint64
}

func newServer() *server { return &server{version: 3, objects: map[string]object{}} }

func (a *server) put(key string, labelled bool) write {
	a.version++
	a.content++
	o, ok := a.objects[key]
	w := write{object{o.uid, a.version, labelled, a.content}, key, false, ok && o.labelled}
	if !ok {
		a.uids++
		w.uid = fmt.Sprintf("u%d", a.uids)
	}
	a.objects[key] = w.object
	return a.wrote(w)
}

func (a *server) remove(key string) write {
	a.version++
	o := a.objects[key]
	delete(a.objects, key)
	return a.wrote(write{object{o.uid, a.version, o.labelled, o.content}, key, true, o.labelled})
}

func (a *server) wrote(w write) write {
	a.history, a.writes = append(a.history, w), append(a.writes, w)
	return w
}

// restore goes back to a version, and forgets what came after.
func (a *server) restore(version uint64) {
	kept := a.history[:0:0]
	a.objects = map[string]object{}
	for _, w := range a.history {
		if w.version > version {
			continue
		}
		kept = append(kept, w)
		if w.deleted {
			delete(a.objects, w.key)
		} else {
			a.objects[w.key] = w.object
		}
	}
	a.history, a.version, a.compacted = kept, version, min(a.compacted, version)
}

// reinstall begins again, without objects.
func (a *server) reinstall() {
	a.history, a.objects, a.version, a.compacted = nil, map[string]object{}, 2, 2
}

// next returns the first write after a version.
func (a *server) next(version uint64) (write, bool) {
	for _, w := range a.history {
		if w.version > version {
			return w, true
		}
	}
	return write{}, false
}

func (a *server) list(s spec) map[string]object {
	items := maps.Clone(a.objects)
	maps.DeleteFunc(items, func(key string, o object) bool { return !s.selects(key, o.labelled) })
	return items
}

// entry is a message of the log.
type entry struct {
	kind              string // put, end, rejected, started, completed
	key, uid, id      string
	seq               sequence.Sequence
	text              string // of seq
	content           uint64
	labelled          bool
	base              uint64 // version that a patch applies to; 0: the whole object
	again             bool
	n, term           int
	spec              spec
	complete          bool
	partition, offset int // offset of the first message is 0
}

// topic is a log: of NATS with a window of duplicates and a check of the last message of a key, or of Kafka with
// partitions and compaction.
type topic struct {
	kafka      bool
	partitions [][]*entry // nil: compacted away
	start      []int
	ids        []string // of the newest messages, of NATS
	trimmed    bool
	lost       bool
}

func newTopic(kafka bool, partitions int) *topic {
	return &topic{kafka: kafka, partitions: make([][]*entry, partitions), start: make([]int, partitions)}
}

func (l *topic) of(key string) int { return slices.Index(names, key) % len(l.partitions) }

func (l *topic) append(e *entry, partition int) {
	e.partition, e.offset = partition, len(l.partitions[partition])
	l.partitions[partition] = append(l.partitions[partition], e)
	if l.ids = append(l.ids, e.id); len(l.ids) > 8 {
		l.ids = l.ids[1:]
	}
}

func (l *topic) everywhere(e entry) {
	for p := range l.partitions {
		each := e
		l.append(&each, p)
	}
}

// last returns the last message of an object; nil is none.
func (l *topic) last(key string) *entry {
	p := l.of(key)
	for i := len(l.partitions[p]) - 1; i >= l.start[p]; i-- {
		if e := l.partitions[p][i]; e != nil && e.key == key {
			return e
		}
	}
	return nil
}

// compact removes messages that later ones of the same key replace, as far as a partition is to be compacted.
func (l *topic) compact(p, upTo int) {
	seen := map[string]bool{}
	for i := upTo - 1; i >= l.start[p]; i-- {
		e := l.partitions[p][i]
		if e == nil {
			continue
		}
		key := e.key
		if key == "" {
			key = "_resync"
		}
		if seen[key] {
			l.partitions[p][i] = nil
		}
		seen[key] = true
	}
}

// consumer applies the log by the consumer's rule. It acknowledges messages one by one, and is told again what it
// has not acknowledged.
type consumer struct {
	name    string
	atEqual bool
	held    map[string]held
	next    []int
	open    []map[int]*entry          // not acknowledged, by partition and offset
	told    []map[int]map[string]bool // objects by partition and number of the resync: those of several streams interleave
	failed  string
}

type held struct{ *entry }

func newConsumer(name string, atEqual bool, l *topic) *consumer {
	c := &consumer{name: name, atEqual: atEqual, held: map[string]held{}}
	for range l.partitions {
		c.next = append(c.next, 0)
		c.open, c.told = append(c.open, map[int]*entry{}), append(c.told, map[int]map[string]bool{})
	}
	return c
}

func (c *consumer) clone() *consumer {
	d := *c
	d.held, d.next = maps.Clone(c.held), slices.Clone(c.next)
	d.open, d.told = nil, nil
	for p := range c.open {
		told := map[int]map[string]bool{}
		for n, keys := range c.told[p] {
			told[n] = maps.Clone(keys)
		}
		d.open, d.told = append(d.open, maps.Clone(c.open[p])), append(d.told, told)
	}
	return &d
}

// read takes messages of one partition.
func (c *consumer) read(l *topic, p, upTo int) {
	for c.next[p] = max(c.next[p], l.start[p]); c.next[p] < upTo; c.next[p]++ {
		if e := l.partitions[p][c.next[p]]; e != nil {
			at := *e
			at.partition, at.offset = p, c.next[p]
			c.open[p][c.next[p]] = &at
			c.take(&at)
		}
	}
}

func (c *consumer) take(e *entry) {
	p := e.partition
	switch e.kind {
	case "started":
		c.told[p][e.n] = map[string]bool{}
	case "completed":
		if c.told[p][e.n] != nil && e.complete {
			c.sweep(e)
		}
		delete(c.told[p], e.n)
	default:
		for _, told := range c.told[p] {
			told[e.key] = true
		}
		c.apply(e)
	}
}

func (c *consumer) apply(e *entry) {
	h, remembered := c.held[e.key], ""
	if h.entry != nil {
		remembered = h.text
	}
	if e.base != 0 {
		if !sequence.Applies(remembered, e.text, false, false) {
			return
		}
		if h.entry == nil || h.kind != "put" || h.uid != e.uid || h.seq.Version != e.base {
			c.failed = fmt.Sprintf("patch %s of %s starts from %d, held is %+v", e.id, e.key, e.base, h.entry)
			unknown := *e
			unknown.content, unknown.uid = 0, "unknown"
			e = &unknown
		}
		c.held[e.key] = held{e}
	} else if sequence.Applies(remembered, e.text, e.kind != "end", c.atEqual) {
		c.held[e.key] = held{e}
	} else if h.partition == e.partition && h.offset < e.offset { // a rewind told it: it may be told again
		later := *h.entry
		later.offset = e.offset
		c.held[e.key] = held{&later}
	}
}

// sweep drops what a complete resync has not told. Everything before the marker is acknowledged first.
func (c *consumer) sweep(e *entry) {
	for at := range c.open[e.partition] {
		if at <= e.offset {
			delete(c.open[e.partition], at)
		}
	}
	for key, h := range c.held {
		if h.kind != "end" && h.partition == e.partition && e.spec.has(key) && !c.told[e.partition][e.n][key] {
			delete(c.held, key)
		}
	}
}

// acknowledge acknowledges some messages, and forgets deletions behind which nothing is open.
func (c *consumer) acknowledge(r *rand.Rand) {
	for p := range c.open {
		for at := range c.next[p] {
			if r.IntN(3) > 0 {
				delete(c.open[p], at)
			}
		}
	}
	for _, key := range slices.Sorted(maps.Keys(c.held)) {
		if h := c.held[key]; h.kind == "end" && c.floor(h.partition) > h.offset && r.IntN(2) == 0 {
			delete(c.held, key)
		}
	}
}

// floor returns the offset before which everything is acknowledged.
func (c *consumer) floor(p int) int {
	low := c.next[p]
	for at := range c.open[p] {
		low = min(low, at)
	}
	return low
}

// again is told one message again, or all, in order, as after a restart.
func (c *consumer) again(r *rand.Rand) {
	all := r.IntN(2) == 0
	for p := range c.open {
		if all {
			c.next[p], c.told[p] = c.floor(p), map[int]map[string]bool{}
			continue
		}
		for _, at := range slices.Sorted(maps.Keys(c.open[p])) {
			if e := c.open[p][at]; e.key != "" && r.IntN(3) == 0 {
				c.apply(e)
			}
		}
	}
}

// state returns uid and content of each object, content 0 where a rejected event tells of it.
func (c *consumer) state() map[string]known {
	all := map[string]known{}
	for key, h := range c.held {
		switch h.kind {
		case "put":
			all[key] = known{h.uid, h.content}
		case "rejected":
			all[key] = known{h.uid, 0}
		}
	}
	return all
}

type known struct {
	uid     string
	content uint64
}
