// SPDX-License-Identifier: Apache-2.0

package oracle

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// ghosts are logs that keep consumers from the truth, each with the words of the readings that have to find it. The
// truth is that nothing exists.
var ghosts = map[string]struct {
	log   []string
	found []string
}{
	"an end is missing": {
		[]string{"snapshot-started 1", "added u1 5 watch"}, []string{"from the beginning", "from a place on", "redelivered"},
	},
	"an end has a lower sequence": {
		[]string{"snapshot-started 1", "added u1 5@2 watch", "deleted u1 6 watch"},
		[]string{"from the beginning", "redelivered"},
	},
	"an old state comes behind the end": {
		[]string{"snapshot-started 1", "added u1 5 watch", "deleted u1 6 watch", "updated u1 5 watch"},
		[]string{"from a place on", "redelivered"}, // they have forgotten the end
	},
	"a resync that would tell of it is not complete": {
		[]string{"snapshot-started 1", "added u1 5 watch", "resync-started 7"}, []string{"from the beginning"},
	},
}

func TestConsumers_find_what_keeps_them_from_the_truth(t *testing.T) {
	for name, c := range ghosts {
		t.Run(name, func(t *testing.T) {
			truth, log := script{truth: []string{"added u1 5", "deleted u1 6"}, log: c.log}.build(t)
			found := ""
			for seed := range uint64(50) {
				for _, v := range Check(truth, log, Options{Seed: seed, MaxPrinted: 100, Gaps: AnyGap}) {
					if v.Promise == P9 {
						found += v.What + "\n"
					}
				}
			}
			for _, want := range c.found {
				assert.Contains(t, found, want)
				assert.Contains(t, found, "also at an equal sequence")
			}
		})
	}
}

func TestConsumer_applies_by_the_rule(t *testing.T) {
	for name, c := range map[string]struct {
		log      []string
		greater  string // content that is held, by each rule
		orEquals string
	}{
		"a greater sequence": {
			[]string{"added u1 5 watch =a", "updated u1 6 watch =b"}, "b", "b",
		},
		"a lower one": {
			[]string{"added u1 6 watch =a", "updated u1 5 watch =b"}, "a", "a",
		},
		"an equal one": {
			[]string{"added u1 6 watch =a", "updated u1 6.r1 resync =b"}, "a", "b",
		},
		"a greater epoch": {
			[]string{"added u1 6 watch =a", "updated u1 5@2 relist =b"}, "b", "b",
		},
		"an end at an equal version": {
			[]string{"added u1 6 watch =a", "deleted u1 6 relist"}, "", "",
		},
		"an old state behind an end": {
			[]string{"deleted u1 7 watch", "updated u1 6 watch =b"}, "", "",
		},
		"another object behind an end": {
			[]string{"deleted u1 6 relist", "added u2 7 watch =b"}, "b", "b",
		},
		"an unknown type": {[]string{"added u1 5 watch =a", "gap 5 9"}, "a", "a"},
		"a resync that tells": {
			[]string{"added u1 5 watch =a", "resync-started 7", "updated u1 5.r7 resync =a", "resync-completed 7"}, "a", "a",
		},
		"a resync that does not tell": {
			[]string{"added u1 5 watch =a", "resync-started 7", "resync-completed 7"}, "", "",
		},
		"a resync that tells an older one": {
			[]string{"added u1 5 watch =a", "resync-started 7", "updated u1 4.r7 resync", "resync-completed 7"}, "a", "a",
		},
		"a resync that began before": {
			[]string{"added u1 5 watch =a", "resync-completed 7"}, "a", "a",
		},
		"another resync that is not": {
			[]string{"added u1 5 watch =a", "resync-started 7", "resync-completed 8"}, "a", "a",
		},
		"two resyncs, of which one tells": {
			[]string{"resync-started 7", "added u1 5 watch =a", "resync-started 8", "resync-completed 7"}, "a", "a",
		},
		"two resyncs, of which one is told": {
			[]string{"resync-started 7", "added u1 5 watch =a", "resync-started 8", "resync-completed 8"}, "", "",
		},
	} {
		for _, atEqual := range []bool{false, true} {
			consumer, want := newConsumer(atEqual), c.greater
			if atEqual {
				want = c.orEquals
			}
			for i, line := range c.log {
				e := entryOf(line, uint64(i+1))
				consumer.take(&e, i)
			}
			content := ""
			for _, h := range consumer.held {
				if h.exists {
					content = h.Body
				}
			}
			assert.Equal(t, want, content, "%s, also at an equal sequence %t", name, atEqual)
		}
	}
}

// A rewind tells older states behind an end. Until they are acknowledged they may be told again, so that the end is
// remembered.
func TestConsumer_remembers_an_end_behind_which_a_rewind_has_told_older_states(t *testing.T) {
	for name, lines := range map[string][]string{
		"told again":        {"added u1 5 watch", "deleted u1 6 watch", "updated u1 5.r7 resync", "deleted u1 6.r7 resync"},
		"of another object": {"added u1 5 watch", "deleted u1 9 relist", "added u2 7.r7 resync", "deleted u2 8.r7 resync"},
	} {
		for _, atEqual := range []bool{false, true} {
			consumer, log := newConsumer(atEqual), []*Entry{}
			for i, line := range lines {
				e := entryOf(line, uint64(i+1))
				log = append(log, &e)
				consumer.take(&e, i)
			}
			consumer.forget(2)
			consumer.apply(log[2], 2)
			assert.False(t, consumer.held[log[2].PartitionKey].exists, "%s, also at an equal sequence %t", name, atEqual)
		}
	}
}

// A patch is applied to the state that it starts from, and only once.
func TestConsumer_applies_patches_to_their_base(t *testing.T) {
	for name, c := range map[string]struct {
		base string
		fits bool
	}{"its base": {"5", true}, "another base": {"4", false}} {
		object, patch := entryOf("added u1 5 watch =a", 1), entryOf("updated u1 6 watch", 2)
		patch.Payload, patch.BaseVersion = "merge-patch", c.base
		for _, atEqual := range []bool{false, true} {
			consumer := newConsumer(atEqual)
			for _, e := range []*Entry{&object, &patch, &patch} {
				consumer.take(e, 0)
			}
			assert.Len(t, consumer.failed, map[bool]int{true: 0, false: 1}[c.fits], name)
		}
	}
}

// What patches make of an object is what exists, and an old object is what the log had before.
func TestApplyPatches_makes_whole_objects(t *testing.T) {
	object := `{"metadata":{"name":"x"},"data":{"a":"1","b":"2"}}`
	want := `{"metadata":{"name":"x"},"data":{"a":"3"}}`
	for name, c := range map[string]struct {
		payload, data string
		problem       string
	}{
		"a merge patch": {"merge-patch", `{"data":{"a":"3","b":null}}`, ""},
		"a JSON patch": {
			"json-patch", `[{"op":"replace","path":"/data/a","value":"3"},{"op":"remove","path":"/data/b"}]`, "",
		},
		"one that does not apply":   {"json-patch", `[{"op":"remove","path":"/data/c"}]`, "it does not apply"},
		"a change":                  {"change", `{"object":` + want + `,"oldObject":` + object + `}`, ""},
		"a change without what was": {"change", `{"object":` + want + `}`, ""},
		"a change of another state": {"change", `{"object":` + want + `,"oldObject":` + want + `}`, "its oldObject is not"},
	} {
		t.Run(name, func(t *testing.T) {
			whole, next := entryOf("added u1 5 watch =a", 1), entryOf("updated u1 6 watch", 2)
			whole.Data, next.Data = []byte(object), []byte(c.data)
			next.Payload, next.BaseVersion = c.payload, "5"
			problems := applyPatches([]*Entry{&whole, &next})
			if c.problem != "" {
				require.Len(t, problems, 1)
				assert.Contains(t, problems[0], c.problem)
				return
			}
			assert.Empty(t, problems)
			assert.JSONEq(t, want, string(next.content()))
		})
	}
}

// A patch cannot start from a rejection, nor a state that a patch makes be another one than the truth has.
func TestCheck_judges_what_patches_make(t *testing.T) {
	object := func(version, a string) []byte {
		return fmt.Appendf(nil, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x","uid":"u1",`+
			`"resourceVersion":%q},"data":{"a":%q}}`, version, a)
	}
	patch := func(version, a string) []byte {
		return fmt.Appendf(nil, `{"metadata":{"resourceVersion":%q},"data":{"a":%q}}`, version, a)
	}
	for name, c := range map[string]struct {
		suffix, a string
		want      []Promise
	}{
		"the state":                {"", "2", nil},
		"another state on the way": {"", "wrong", []Promise{P4, P6}},
		"a patch of a rejection":   {".rejected", "2", []Promise{P9}},
	} {
		t.Run(name, func(t *testing.T) {
			s := script{
				truth: []string{
					"added u1 5 =" + contentOf(object("5", "1")), "updated u1 6 =" + contentOf(object("6", "2")),
					"updated u1 7 =" + contentOf(object("7", "3")),
				},
				log: []string{
					"snapshot-started 1", "added u1 5 watch", "updated u1 6" + c.suffix + " watch",
					"updated u1 7 watch",
				},
				options: Options{Refused: refuses(true)},
			}
			truth, log := s.build(t)
			last := len(log) - 1
			log[last-2].Data, log[last-2].Body = object("5", "1"), contentOf(object("5", "1"))
			for n, data := range map[int][]byte{last - 1: patch("6", c.a), last: patch("7", "3")} {
				if log[n].Type != typeRejected {
					log[n].Payload, log[n].Data, log[n].Body = "merge-patch", data, ""
					log[n].BaseVersion = log[n-1].ResourceVersion
				}
			}
			found := Check(truth, log, s.options)
			for _, p := range []Promise{P1, P2, P3, P4, P6, P9} {
				got := slices.ContainsFunc(found, func(v Violation) bool { return v.Promise == p })
				assert.Equal(t, slices.Contains(c.want, p), got, "%s: %v", p, found)
			}
		})
	}
}

// A complete resync of a scope leaves alone what is in another one.
func TestConsumer_sweeps_a_scope(t *testing.T) {
	for namespace, kept := range map[string]int{"": 1, "a": 2, "c": 3} {
		consumer := newConsumer(false)
		scope := plain
		scope.Namespace = namespace
		of := func(s Stream, namespace string) *Entry {
			e := entryOf("added u1 5 watch", 1)
			e.Source, e.Namespace, e.PartitionKey = s.Source(), namespace, keyOf(s, namespace, "x")
			return &e
		}
		for _, e := range []*Entry{of(plain, "a"), of(plain, "b"), of(selective, "a")} {
			consumer.take(e, 0)
		}
		for _, kind := range []string{"resync-started", "resync-completed"} {
			e := markerOf(scope, kind, 1, 0, 7, "")
			consumer.take(&e, 1)
		}
		assert.Len(t, consumer.held, kept, "namespace %q", namespace)
	}
}

// Redelivered messages change nothing, however often they come, and behind a deletion too.
func TestReadings_redeliver(t *testing.T) {
	var lines []string
	for n := range 200 {
		op := []string{"added", "updated", "deleted"}[n%3]
		lines = append(lines, fmt.Sprintf("%s u%d %d watch", op, n/3, n+2))
	}
	var log []*Entry
	for i, line := range lines {
		e := entryOf(line, uint64(i+1))
		log = append(log, &e)
	}
	taken := 0
	for seed := range uint64(20) {
		for _, r := range readings {
			c := r.read(log, random(seed))
			h := c.held[log[0].PartitionKey]
			assert.True(t, h.exists && h.UID == "u66", "%s holds %v", r.name, h.Entry)
			taken++
		}
	}
	assert.Equal(t, 20*len(readings), taken)
}

// What an unnoticed restoration leaves behind is judged when an audit has looked for it.
func TestConsumers_are_judged_after_an_audit(t *testing.T) {
	s := alike()
	s.options.Gaps = AnyGap
	truth, log := s.build(t)
	r := Judge(truth, log, s.options)
	assert.True(t, r.Unaudited == 1 && len(r.Violations) == 0, "before: %d objects, %v", r.Unaudited, r.Violations)
	s.options.Audited = true
	r = Judge(truth, log, s.options)
	assert.True(t, r.Unaudited == 0 && slices.ContainsFunc(r.Violations, func(v Violation) bool {
		return v.Promise == P9 && strings.Contains(v.What, "other content")
	}), "after: %d objects, %v", r.Unaudited, r.Violations)
	s.log = append(s.log, "gap 7 9@2 audit", "updated u1 7@2 relist =d")
	truth, log = s.build(t)
	assert.Empty(t, Check(truth, log, s.options), "when the audit has found it")
}
