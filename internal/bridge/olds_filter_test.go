// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"errors"
	"strconv"
	"strings"
	"testing"

	"github.com/kube-eventbridge/kube-eventbridge/encode"
	"github.com/kube-eventbridge/kube-eventbridge/source"
	"github.com/stretchr/testify/assert"
)

// asking says of each change what it is told of the state before.
type asking struct{ told *[]string }

func (f asking) Filter(c *source.Change, _ [16]byte, old func() []byte) (reason string, now [16]byte, err error) {
	was := "added"
	if c.Op != source.Added {
		if was = "unknown"; old != nil {
			if b := old(); b != nil {
				_, rest, _ := strings.Cut(string(b), `"data":{"x":"`)
				was, _, _ = strings.Cut(rest, `"`)
			}
		}
	}
	*f.told = append(*f.told, c.ResourceVersion+" "+was)
	if was == "unknown" {
		return "", now, errors.New("unknown")
	}
	if n, _ := strconv.Atoi(c.ResourceVersion); n%2 == 0 {
		return "expression", now, nil
	}
	return "", now, nil
}

func TestOlds_a_filter_is_told_the_state_before_published_or_not(t *testing.T) {
	var told []string
	spec := StreamSpec{Filter: asking{&told}, Olds: true}
	log := newReadableLog()
	p := story(`"data":{"x":"a"}`, `"data":{"x":"b"}`, `"data":{"x":"c"}`, `"data":{"x":"d"}`, `"data":{"x":"e"}`)
	r, s := restarted(t, log, p, 4, spec, spec)
	p.frames[4].send(t, s)
	r.settle()
	send(t, s, source.Deleted, "a", "u1", "6", source.ReasonWatch)
	send(t, s, source.Added, "a", "u2", "7", source.ReasonWatch)
	r.settle()
	expect(t, told, "1 added", "2 a", "3 b", "4 c", "5 d", "6 e", "7 added")
	if n := value(t, r.registry, "filter_errors_total") + value(t, r.registry, "old_objects_unknown_total"); n != 0 {
		t.Errorf("%v errors", n)
	}
	if n := value(t, r.registry, "old_objects"); n != 1 {
		t.Errorf("of %v objects something is kept", n)
	}
}

func TestOlds_what_depends_on_a_state_that_is_not_known_is_published_and_no_fault_of_the_filter(t *testing.T) {
	var told []string
	spec := StreamSpec{Filter: asking{&told}, Olds: true, Encoding: encode.Config{Payload: encode.MergePatch}} // which asks too
	log := newReadableLog()
	p := story(`"data":{"x":"a"}`, `"data":{"x":"b"}`, `"data":{"x":"c"}`, `"data":{"x":"d"}`)
	p.gone = 10
	r, s := restarted(t, log, p, 3, spec, spec)
	p.frames[3].send(t, s)
	r.settle()
	expect(t, told, "1 added", "2 a", "3 b", "4 unknown")
	expect(t, log.lines(), "added default/a u1 1 watch", "updated default/a u1 3 watch", "updated default/a u1 4 watch")
	if errs, unknown := value(t, r.registry, "filter_errors_total"), value(t, r.registry, "old_objects_unknown_total"); errs != 0 || unknown != 1 {
		t.Errorf("%v errors and %v unknown are counted", errs, unknown)
	}
}

func TestOlds_a_filter_is_told_no_state_before_of_what_is_published_again(t *testing.T) {
	var told []string
	r := start(t, newFakeLog(), &memoryStore{})
	s := r.stream(&StreamSpec{Filter: asking{&told}, Olds: true})
	p := story(`"data":{"x":"a"}`, `"data":{"x":"b"}`)
	for _, f := range p.frames {
		f.send(t, s)
	}
	r.settle()
	row, _ := s.ledger.Get("default/a")
	a := &attempt{delta: delta{again: true, Change: source.Change{
		Op: source.Updated, Ident: source.Ident{Namespace: "default", Name: "a", UID: "u1", ResourceVersion: "2"}, IDSuffix: ".r5",
		Body: source.NewBody([]byte(p.frames[1].body)),
	}}}
	assert.False(t, s.filtered(a, row), "it is left out")
	expect(t, told, "1 added", "2 a", "2 unknown")
	if n := value(t, r.registry, "filter_errors_total") + value(t, r.registry, "old_objects_unknown_total"); n != 0 {
		t.Errorf("%v are counted", n)
	}
}
