// SPDX-License-Identifier: Apache-2.0

package oracle

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"

	jsonpatch "github.com/evanphx/json-patch/v5"
)

// consumer reads one partition of a pipeline's log by the rule that consumers are promised (P9), and has no other
// knowledge.
type consumer struct {
	atEqual bool // whole objects are applied at an equal sequence too
	held    map[string]held
	told    map[string]map[string]bool // keys that were told since a resync started, by the resync
	failed  []string
}

// held is what a consumer remembers of an object: of one that is gone only the sequence.
type held struct {
	*Entry
	exists bool
	place  int // of the last event of the object in the partition that was read, applied or not
}

func newConsumer(atEqual bool) *consumer {
	return &consumer{atEqual: atEqual, held: map[string]held{}, told: map[string]map[string]bool{}}
}

// take takes the message at a place of the partition.
func (c *consumer) take(e *Entry, place int) {
	switch {
	case e.Type == typeResyncStarted:
		c.told[resyncOf(e)] = map[string]bool{}
	case e.Type == typeResyncCompleted:
		c.sweep(e)
	case strings.HasPrefix(e.Type, typeResource):
		for _, told := range c.told {
			told[e.PartitionKey] = true
		}
		c.apply(e, place)
	}
}

// apply applies an event if its sequence is greater.
func (c *consumer) apply(e *Entry, place int) {
	last := c.held[e.PartitionKey]
	remembered := ""
	if last.Entry != nil {
		remembered = last.Sequence
	}
	op, _ := e.operation()
	whole := op != Deleted && !e.patches()
	if e.Sequence < remembered || e.Sequence == remembered && (!c.atEqual || !whole) {
		last.place = max(last.place, place)
		c.held[e.PartitionKey] = last
		return
	}
	if e.patches() && (!last.exists || last.UID != e.UID || last.ResourceVersion != e.BaseVersion) {
		c.failed = append(c.failed, fmt.Sprintf("%s is a patch of %s, and held is %v", e, e.BaseVersion, last.Entry))
	}
	c.held[e.PartitionKey] = held{Entry: e, exists: op != Deleted, place: place}
}

// applyPatches gives each patch of a partition what it makes of the object before, and returns what is wrong with
// patches, and with the old objects of changes. Both start from the last event that a consumer applies.
func applyPatches(log []*Entry) (problems []string) {
	c := newConsumer(false)
	for place, e := range log {
		before := c.held[e.PartitionKey]
		c.take(e, place)
		if before.Entry == nil || c.held[e.PartitionKey].Entry != e {
			continue
		}
		if problem := e.applyTo(before.Entry); problem != "" {
			problems = append(problems, fmt.Sprintf("%s: %s", e, problem))
		}
	}
	return problems
}

// applyTo applies a patch to the event before, or compares the old object of a change with that.
func (e *Entry) applyTo(before *Entry) (problem string) {
	object := before.content()
	switch {
	case e.patches() && object == nil:
		return "a patch of what has no content"
	case e.patches():
		var err error
		if e.patched, err = patch(object, e.Payload, e.Data); err != nil {
			return fmt.Sprintf("it does not apply: %v", err)
		}
		e.Body = contentOf(e.patched)
	case e.Payload == "change" && e.Type != typeRejected:
		var change struct {
			OldObject json.RawMessage `json:"oldObject"`
		}
		_ = json.Unmarshal(e.Data, &change) // what is no change is found elsewhere
		if change.OldObject != nil && object != nil && contentOf(change.OldObject) != contentOf(object) {
			return "its oldObject is not what the log had before"
		}
	}
	return ""
}

// patch returns what a patch makes of an object.
func patch(object []byte, payload string, data []byte) ([]byte, error) {
	if payload == "merge-patch" {
		return jsonpatch.MergePatch(object, data)
	}
	steps, err := jsonpatch.DecodePatch(data)
	if err != nil {
		return nil, err
	}
	return steps.Apply(object)
}

// sweep drops the objects that a complete resync has not told.
func (c *consumer) sweep(e *Entry) {
	body, n := bodyOfMark(e), resyncOf(e)
	told := c.told[n]
	delete(c.told, n)
	if told == nil || body.Complete == nil || !*body.Complete {
		return
	}
	prefix := strings.TrimSuffix(e.PartitionKey, "_/_resync")
	if body.Namespace != "" {
		prefix += body.Namespace + "/"
	}
	maps.DeleteFunc(c.held, func(key string, h held) bool {
		return strings.HasPrefix(key, prefix) && h.exists && !told[key]
	})
}

// resyncOf returns the name of a marker's resync: its source, scope and number.
func resyncOf(e *Entry) string {
	body := bodyOfMark(e)
	name, _ := json.Marshal([]any{e.Source, body.Namespace, body.LabelSelector, body.FieldSelector, body.N})
	return string(name)
}

// forget forgets the objects that are gone if everything is acknowledged up to their last event that was read.
func (c *consumer) forget(acknowledged int) {
	maps.DeleteFunc(c.held, func(_ string, h held) bool { return !h.exists && h.place <= acknowledged })
}

// reading is how a consumer reads a partition.
type reading struct {
	name    string
	atEqual bool
	// restarts has the consumer stop at a place, and go on with what it held there. Redelivered has it be told
	// messages again that it has not acknowledged.
	restarts, redelivered bool
}

var readings = []reading{
	{name: "from the beginning"},
	{name: "from the beginning, also at an equal sequence", atEqual: true},
	{name: "from a place on", restarts: true},
	{name: "from a place on, also at an equal sequence", restarts: true, atEqual: true},
	{name: "with redelivered messages", redelivered: true},
	{name: "with redelivered messages, also at an equal sequence", redelivered: true, atEqual: true},
}

// window is how many messages a consumer leaves unacknowledged at most.
const window = 64

// read returns what a consumer of a partition holds at its end.
func (r reading) read(log []*Entry, random *rand.Rand) *consumer {
	c := newConsumer(r.atEqual)
	stop := -1
	if r.restarts && len(log) > 0 {
		stop = random.IntN(len(log))
	}
	acknowledged := 0 // everything before this place
	for place := 0; place < len(log); place++ {
		e := log[place]
		c.take(e, place)
		if e.Type == typeResyncCompleted { // before a sweep everything is acknowledged
			acknowledged = place + 1
		}
		if place == stop {
			clear(c.told)
			c.forget(place)
		}
		if !r.redelivered {
			continue
		}
		acknowledged = max(acknowledged, place-window)
		if random.IntN(3) == 0 {
			acknowledged += random.IntN(place + 2 - acknowledged)
			c.forget(acknowledged)
		}
		switch again := place + 1 - acknowledged; {
		case again <= 0:
		case random.IntN(4) == 0: // one message: it is told no resync that is not under way
			at := acknowledged + random.IntN(again)
			if !log[at].everywhere() {
				c.apply(log[at], at)
			}
		case random.IntN(window) == 0: // all of them, after a restart
			clear(c.told)
			place = acknowledged - 1
		}
	}
	return c
}

func random(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 9)) } //nolint:gosec // it must be repeatable

// checkConsumers has consumers read the log, and compares what they hold at the end with what exists.
func (j *judge) checkConsumers() {
	if j.options.Prefix {
		return
	}
	for n, r := range readings {
		random := random(j.options.Seed + uint64(n)) //nolint:gosec // few
		held := map[string]held{}
		for _, part := range j.parts {
			c := r.read(part, random)
			maps.Copy(held, c.held)
			for _, what := range c.failed {
				j.violate(Violation{Promise: P9, What: fmt.Sprintf("a consumer that reads %s: %s", r.name, what)})
			}
		}
		j.compareHeld(r, held)
	}
	for _, s := range j.streams {
		for _, o := range s.objects {
			if o.alike && !j.options.Audited {
				j.report.Unaudited++
			}
		}
	}
}

func (j *judge) compareHeld(r reading, held map[string]held) {
	for _, s := range j.streams {
		for _, key := range sortedKeys(s.objects) {
			o := s.objects[key]
			want := State{Op: Deleted}
			if n := len(o.truth); n > 0 && j.selected(s.stream, key) {
				want = o.truth[n-1]
			}
			h := held[s.stream.partitionKey(key)]
			delete(held, s.stream.partitionKey(key))
			if problem := h.problem(want, o.alike && !j.options.Audited); problem != "" {
				s.violate(P9, o, len(o.truth)-1, len(o.lines)-1, fmt.Sprintf("a consumer that reads %s %s", r.name, problem))
			}
		}
	}
	for _, key := range sortedKeys(held) {
		if h := held[key]; h.exists {
			j.violate(Violation{
				Promise: P9, Stream: h.Source, Key: h.key(), Log: []string{h.String()},
				What: fmt.Sprintf("a consumer that reads %s holds an object that never was", r.name),
			})
		}
	}
}

// problem returns how what is held differs from what exists, or nothing. Of a rejected event the content is not
// known.
func (h held) problem(want State, anyContent bool) string {
	switch {
	case h.Entry == nil && want.live():
		return "does not have it"
	case h.Entry == nil:
		return ""
	case h.exists != want.live():
		return fmt.Sprintf("ends with %s", h.Entry)
	case !h.exists:
		return ""
	case h.UID != want.UID || h.ResourceVersion != fmt.Sprint(want.Version):
		return fmt.Sprintf("holds %s", h.Entry)
	case want.Body != "" && h.Body != "" && want.Body != h.Body && !anyContent:
		return fmt.Sprintf("holds other content: %s", h.Entry)
	default:
		return ""
	}
}

// divideParts returns the entries of each partition, in its order.
func divideParts(log []*Entry) (parts [][]*Entry) {
	of := map[int32][]*Entry{}
	for _, e := range log {
		of[e.Partition] = append(of[e.Partition], e)
	}
	for _, p := range slices.Sorted(maps.Keys(of)) {
		parts = append(parts, of[p])
	}
	return parts
}
