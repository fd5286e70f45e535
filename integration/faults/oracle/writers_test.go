// SPDX-License-Identifier: Apache-2.0

package oracle

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"pgregory.net/rapid"
)

func TestCheck_finds_nothing_in_a_log_of_several_leaders(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		truth := drawTruth(t, rapid.IntRange(0, 1).Draw(t, "restorations"))
		log := drawLogOf(t, truth, 1)
		if collides(log) {
			return
		}
		for _, v := range Check(truth, log, Options{Elected: true}) {
			t.Error(v)
		}
	})
}

// usurpations break a log of several leaders that is right. They return false where this log has no place for them.
var usurpations = []struct {
	name string
	do   func(d *damaged) bool
}{
	{"leave out who has published an event", func(d *damaged) bool {
		return d.change(func(i int) bool { return d.op(i) != "" }, func(e *Entry) { e.WriterEpoch = 0 })
	}},
	{"publish under a number below all", func(d *damaged) bool {
		return d.change(func(i int) bool { return d.op(i) != "" }, func(e *Entry) { e.WriterEpoch = -1 })
	}},
	{"elect nobody", func(d *damaged) bool { d.options.Elected = false; return true }},
	{"let a former leader publish two events of an object behind a later one", func(d *damaged) bool {
		i := d.pick(func(i int) bool {
			first := d.before(i)
			return first >= 0 && d.before(first) >= 0 && d.log[d.before(first)].WriterEpoch > 1
		})
		if i < 0 {
			return false
		}
		d.log[i].WriterEpoch, d.log[d.before(i)].WriterEpoch = 1, 1
		return true
	}},
}

func TestCheck_names_what_leaders_do_that_they_must_not(t *testing.T) {
	for _, damage := range usurpations {
		t.Run(damage.name, func(t *testing.T) {
			applied := 0
			rapid.Check(t, func(t *rapid.T) {
				truth := drawTruth(t, 0)
				d := &damaged{t: t, truth: truth, log: drawLogOf(t, truth, 1), options: Options{Elected: true}}
				if !damage.do(d) {
					return
				}
				applied++
				if !slices.ContainsFunc(Check(d.truth, d.log, d.options), func(v Violation) bool { return v.Promise == P5 }) {
					t.Fatal("nothing is found")
				}
			})
			assert.GreaterOrEqual(t, applied, 10, "only %d logs could be damaged", applied)
		})
	}
}

// A former leader's event may come once where the broker cannot tell, and never where it can.
func TestJudge_counts_what_a_former_leader_may_still_publish(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		truth := drawTruth(t, 0)
		d := &damaged{t: t, truth: truth, log: drawLogOf(t, truth, 2), options: Options{Elected: true}}
		if !d.change(func(i int) bool { return d.before(i) >= 0 }, func(e *Entry) { e.WriterEpoch = 1 }) {
			return
		}
		if r := Judge(d.truth, d.log, d.options); r.Late != 1 || len(r.Violations) > 0 {
			t.Errorf("%d late, violations %v", r.Late, r.Violations)
		}
		s := &streamJudge{judge: &judge{truth: truth, options: Options{Elected: true, Partitions: partitions, MaxPrinted: 20}, counts: map[string]int{}}, stream: plain}
		for _, key := range sortedKeys(truth.Streams[plain]) {
			o := &object{key: key, lines: []*line{{Entry: &Entry{Name: key, WriterEpoch: 2}}, {Entry: &Entry{Name: key, WriterEpoch: 1}, nth: 1}}}
			s.objects = map[string]*object{key: o}
			before := len(s.judge.report.Violations)
			if s.checkWriters(o); len(s.judge.report.Violations) == before {
				t.Error("a former leader's record was let through")
			}
		}
	})
}
