// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/kube-eventbridge/kube-eventbridge/sink"
)

// consumer applies a log by the one rule of P9: an event applies if its sequence is greater, or with atEqual also if it
// is equal and the event has a whole object. The consumer acknowledges messages one by one, and is told again what it
// has not acknowledged. It uses no code of the product.
type consumer struct {
	name    string
	atEqual bool
	held    map[string]holding
	// next is the place up to which the log was read, and open are messages that were read and are not acknowledged.
	next int
	open map[int]sink.Stored
	// told are the objects that were told since the marker of a resync that runs, by its number.
	told   map[string]map[string]bool
	failed string
}

// holding is what a consumer has of an object. Of an object that is gone it is remembered until all is acknowledged
// up to the last event of the object that was read, whose place it has.
type holding struct {
	sequence, typ, uid, version string
	data                        any
	place                       int
}

func newConsumer(name string, atEqual bool) *consumer {
	return &consumer{
		name: name, atEqual: atEqual, held: map[string]holding{}, open: map[int]sink.Stored{},
		told: map[string]map[string]bool{},
	}
}

func (c *consumer) clone() *consumer {
	d := *c
	d.name += " since"
	d.held, d.open, d.told = maps.Clone(c.held), maps.Clone(c.open), map[string]map[string]bool{}
	for n, told := range c.told {
		d.told[n] = maps.Clone(told)
	}
	return &d
}

// read takes the messages of a log up to a place.
func (c *consumer) read(log *fakeLog, to int) {
	log.mu.Lock()
	defer log.mu.Unlock()
	c.next = max(c.next, log.first-1)
	for ; c.next < min(to, len(log.log)); c.next++ {
		m := log.log[c.next]
		c.open[c.next] = m
		c.take(&m, c.next)
	}
}

func (c *consumer) take(m *sink.Stored, place int) {
	var marker struct {
		N         json.Number
		Complete  bool
		Namespace string
	}
	switch typ := typeOf(m); typ {
	case "resync-started", "resync-completed":
		if err := json.Unmarshal(m.Data, &marker); err != nil {
			c.fail("%s: %v", m.ID, err)
		}
		resource := strings.Join(strings.Split(attribute(m, "partitionkey"), "/")[1:3], "/")
		n := strings.Join([]string{marker.N.String(), resource, marker.Namespace}, " ")
		if typ == "resync-started" {
			c.told[n] = map[string]bool{}
			return
		}
		if c.told[n] != nil && marker.Complete {
			c.sweep(c.told[n], resource, marker.Namespace, place)
		}
		delete(c.told, n)
	case "added", "updated", "deleted", "rejected":
		for _, told := range c.told {
			told[attribute(m, "partitionkey")] = true
		}
		c.apply(m, place)
	}
}

func typeOf(m *sink.Stored) string {
	parts := strings.Split(attribute(m, "type"), ".")
	return parts[max(0, len(parts)-2)]
}

func (c *consumer) apply(m *sink.Stored, place int) {
	key, sequence, typ := attribute(m, "partitionkey"), attribute(m, "sequence"), typeOf(m)
	h, base := c.held[key], attribute(m, "baseversion")
	patch := strings.HasSuffix(attribute(m, "payload"), "-patch")
	whole := !patch && typ != "deleted"
	if sequence < h.sequence || sequence == h.sequence && (!whole || !c.atEqual) {
		h.place = max(h.place, place)
		c.held[key] = h
		return
	}
	next := holding{
		sequence: sequence, typ: typ, uid: attribute(m, "objectuid"), version: attribute(m, "resourceversion"),
		place: place,
	}
	var data any
	if err := json.Unmarshal(m.Data, &data); err != nil {
		c.fail("%s: %v", m.ID, err)
	}
	switch {
	case patch && (h.version != base || h.uid != next.uid || h.data == nil):
		c.fail("%s starts from %q of %s, and %s of %s is held", m.ID, base, next.uid, h.version, h.uid)
	case patch:
		next.data = merged(h.data, data)
	case whole && typ != "rejected":
		next.data = data
	}
	c.held[key] = next
}

func (c *consumer) fail(format string, args ...any) {
	if c.failed == "" {
		c.failed = fmt.Sprintf(format, args...)
	}
}

// sweep drops what a complete resync of a resource in a namespace, or in all, has not told. Everything before its end
// is acknowledged first.
func (c *consumer) sweep(told map[string]bool, resource, namespace string, place int) {
	maps.DeleteFunc(c.open, func(at int, _ sink.Stored) bool { return at <= place })
	maps.DeleteFunc(c.held, func(key string, h holding) bool {
		parts := strings.Split(key, "/")
		within := parts[1]+"/"+parts[2] == resource && (namespace == "" || parts[3] == namespace)
		return within && h.typ != "deleted" && !told[key]
	})
}

// acknowledge acknowledges some messages, and forgets objects that are gone.
func (c *consumer) acknowledge(r *rand.Rand) {
	for at := range c.next {
		if _, ok := c.open[at]; ok && r.IntN(3) > 0 {
			delete(c.open, at)
		}
	}
	floor := c.floor()
	for _, key := range slices.Sorted(maps.Keys(c.held)) {
		if h := c.held[key]; h.typ == "deleted" && floor > h.place && r.IntN(2) == 0 {
			delete(c.held, key)
		}
	}
}

// floor returns the place before which everything is acknowledged.
func (c *consumer) floor() int {
	floor := c.next
	for at := range c.open {
		floor = min(floor, at)
	}
	return floor
}

// again is told all again that it has not acknowledged, in order as after a restart, or one by one. What was told since
// the marker of a resync is kept on disk: the marker may be acknowledged.
func (c *consumer) again(r *rand.Rand) {
	if r.IntN(2) == 0 {
		c.next = c.floor()
		return
	}
	for at := range c.next {
		if m, ok := c.open[at]; ok && attribute(&m, "sequence") != "" && r.IntN(3) == 0 {
			c.apply(&m, at)
		}
	}
}

// cut is what becomes of a consumer of a log that has lost all messages from a place on. One that has read none of them
// does not notice: what it was told since the marker of a resync counts.
func (c *consumer) cut(to int) {
	if c.next <= to {
		return
	}
	c.next = to
	maps.DeleteFunc(c.open, func(at int, _ sink.Stored) bool { return at >= to })
	clear(c.told)
	for key, h := range c.held {
		h.place = min(h.place, to-1)
		c.held[key] = h
	}
}

// wrong returns why what the consumer holds is not what exists, by key; empty if it is. A rejected event tells only
// that there is an object.
func (c *consumer) wrong(exists map[string]any) string {
	if c.failed != "" {
		return c.failed
	}
	for key, want := range exists {
		h, ok := c.held[key]
		switch got := fmt.Sprint(h.data); {
		case !ok || h.typ == "deleted":
			return fmt.Sprintf("%s is not held (%+v), and exists as %v", key, h, want)
		case h.typ != "rejected" && got != fmt.Sprint(want):
			return fmt.Sprintf("%s is held as %s, and exists as %v", key, got, want)
		}
	}
	for key, h := range c.held {
		if _, ok := exists[key]; !ok && h.typ != "deleted" {
			return fmt.Sprintf("%s is held as %+v, and does not exist", key, h)
		}
	}
	return ""
}
