// SPDX-License-Identifier: Apache-2.0

package oracle

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// alike is an etcd that was restored to 5 and came to the version that the log has, of the same object: with another
// content.
func alike() script {
	return script{
		truth: []string{
			"added u1 4", "updated u1 7 =a", "updated u1 9 =b", "h1 updated u1 4", "h1 updated u1 6 =c",
			"h1 updated u1 7 =d",
		},
		bounds: restored,
		log:    []string{"snapshot-started 1", "added u1 4 watch", "updated u1 7 watch =a"},
	}
}

// What a restored etcd has in the versions that the log has cannot be told from what the log has. It is excused and
// counted; whatever else is lost is not.
func TestJudge_excuses_what_versions_cannot_tell(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*script)
		// counted is how many states are excused; want says which promises are broken nevertheless.
		counted int
		want    []Promise
	}{
		"the same version": {func(*script) {}, 2, nil},
		"the same version, and a newer one": {
			func(s *script) { s.truth = append(s.truth, "h1 updated u1 8 =e") }, 2,
			[]Promise{P1, P3},
		},
		"the same version, and what followed": {func(s *script) {
			s.truth = append(s.truth, "h1 updated u1 12 =e")
			s.log = append(s.log, "updated u1 12 watch =e")
		}, 2, nil},
		"the same version in a stream of latest": {
			func(s *script) { s.options.Latest = map[Stream]bool{plain: true} }, 2,
			nil,
		},
		"both deleted at the same version": {
			func(s *script) {
				s.truth = []string{
					"added u1 4", "updated u1 7 =a", "deleted u1 9", "h1 updated u1 4", "h1 updated u1 6 =c",
					"h1 deleted u1 9",
				}
				s.log = append(s.log, "deleted u1 9 watch")
			}, 2, nil,
		},
		"another version": {func(s *script) { s.truth[5] = "h1 updated u1 8 =d" }, 0, []Promise{P1, P3}},
		"the same version behind one that is another": {
			func(s *script) {
				s.truth = slices.Insert(s.truth, 1, "updated u1 5 =x", "updated u1 6 =y")
				s.log = []string{s.log[0], s.log[1], "updated u1 5 watch =x", "updated u1 6 watch =y", s.log[2]}
				s.truth[6] = "h1 updated u1 5 =x"
			}, 1, nil,
		},
		"another version behind the same one": {
			func(s *script) { s.log = append(s.log, "updated u1 9 watch =b") }, 0, []Promise{P1, P3},
		},
		"another object of that version": {func(s *script) {
			s.truth = append(s.truth[:3], "h1 deleted u1 5",
				"h1 added u2 7 =d")
		}, 0, []Promise{P1, P2}},
		"versions that ran on": {func(s *script) {
			s.bounds = []History{
				{First: 1, Last: 20},
				{First: 100, Last: 1000},
			}
		}, 0, []Promise{P3}},
		"something missing before": {
			func(s *script) { s.truth = slices.Insert(s.truth, 1, "updated u1 6 =x") }, 2,
			[]Promise{P3},
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := alike()
			c.change(&s)
			truth, log := s.build(t)
			r := Judge(truth, log, s.options)
			assert.True(t, r.Alike == c.counted && (len(c.want) != 0 || len(r.Violations) == 0),
				"%d states are excused, want %d; violations are %v", r.Alike, c.counted, r.Violations)
			for _, p := range c.want {
				assert.NotEqual(t, 0, r.Counts[p], "want a violation of %s, got %v", p, r.Violations)
			}
		})
	}
}

func TestJudge_counts_what_was_undone_before_it_was_published(t *testing.T) {
	truth, log := alike().build(t)
	assert.Equal(t, 1, Judge(truth, log, Options{}).Undone, "updated u1 9 is not in the log, and hidden by no gap")
}

// Where anything that the log has shows the restoration, in whatever stream, all streams are told, and nothing is
// excused.
func TestJudge_excuses_nothing_where_another_object_tells(t *testing.T) {
	custom := Stream{Cluster: "test", Resource: schema.GroupVersionResource{
		Group: "example.com", Version: "v1",
		Resource: "widgets",
	}}
	for name, c := range map[string]struct {
		// home is the stream of the object that is alike, of that of the other one, which is undone or not.
		home, of Stream
		undone   Op
		want     int
	}{
		"nothing of the stream is undone":       {plain, plain, "", 2},
		"another object of the stream":          {plain, plain, Updated, 0},
		"the end of another object":             {plain, plain, Deleted, 2},
		"an object of another stream":           {plain, selective, Updated, 0},
		"an object of a stream that tells none": {plain, custom, Updated, 2},
		"another object of such a stream":       {custom, custom, Updated, 0},
	} {
		t.Run(name, func(t *testing.T) {
			s := alike()
			truth, log := s.build(t)
			truth.Streams = map[Stream]map[string][]State{c.home: truth.Streams[plain]}
			for i := range log {
				log[i].Source = c.home.Source()
			}
			if c.of != c.home {
				truth.Streams[c.of] = map[string][]State{}
			}
			states := []State{{UID: "u9", Version: 3, Op: Added}}
			if c.undone != "" {
				states = append(states, State{UID: "u9", Version: 8, Op: c.undone})
			}
			log = withAnother(truth, log, c.of, states)
			r := Judge(truth, log, s.options)
			assert.Equal(t, c.want, r.Alike, "states are excused, want %d: %v", c.want, r.Violations)
		})
	}
}

// withAnother adds an object that a stream has, and etcd before and behind its restoration, to a log and to the truth.
func withAnother(truth *Truth, log []Entry, of Stream, states []State) []Entry {
	for i := range states {
		line := fmt.Sprintf("%s u9 %d watch", states[i].Op, states[i].Version)
		e := entryOf(line, uint64(len(log)+1))
		e.Name, e.Source, e.Data = "y", of.Source(), dataOf(of, "", "y", "u9", states[i].Version)
		log = append(log, e)
	}
	truth.Streams[of]["y"] = append(states, State{History: 1, UID: "u9", Version: 3, Op: Updated})
	return log
}

// Another stream notices the restoration, when this one has published something of the new history.
func TestJudge_excuses_what_versions_cannot_tell_until_another_stream_does(t *testing.T) {
	told := []string{"gap 7 13@2 restored", "updated u1 12@2 relist =e"}
	for name, c := range map[string]struct {
		log  []string
		want int
	}{
		"it is told at once": {told, 0},
		"it is told late":    {append([]string{"updated u1 12 watch =e"}, told...), 2},
	} {
		t.Run(name, func(t *testing.T) {
			s := alike()
			s.truth, s.log = append(s.truth, "h1 updated u1 12 =e"), append(s.log, c.log...)
			truth, log := s.build(t)
			truth.Streams[selective] = map[string][]State{}
			log = withAnother(truth, log, selective, []State{
				{UID: "u9", Version: 3, Op: Added},
				{UID: "u9", Version: 8, Op: Updated},
			})
			r := Judge(truth, log, s.options)
			assert.Equal(t, c.want, r.Alike, "states are excused, want %d: %v", c.want, r.Violations)
		})
	}
}

// Each object of the log has moved on in the new history when the stream looks, and so has that history itself. The
// watch that another stream then breaks off began at a version of the former one.
func TestJudge_excuses_what_lies_below_a_position_of_the_former_history(t *testing.T) {
	soon := []string{
		"h1 updated u1 4", "h1 updated u1 6 =c", "h1 updated u1 8 =d", "h1 updated u1 10 =e", "h1 updated u1 12 =f",
	}
	late := []string{"h1 updated u1 4", "h1 updated u1 6 =c", "h1 updated u1 21 =d", "h1 updated u1 22 =f"}
	far := []string{"h1 updated u1 4", "h1 updated u1 8 =d", "h1 updated u1 21 =e", "h1 updated u1 900 =f"}
	for name, c := range map[string]struct {
		truth, log []string
		alike      int
		want       []Promise
	}{
		"the watch begins above it": {soon, []string{
			"updated u1 8 watch =d", "updated u1 10 watch =e", "gap 10 13@2 restored", "updated u1 12@2 relist =f",
		}, 1, nil},
		"the watch leaves out what follows": {soon, []string{
			"updated u1 8 watch =d", "updated u1 12 watch =f", "gap 12 13@2 restored", "updated u1 12@2 relist =f",
		}, 1, []Promise{P3}},
		"the watch leaves out what is above the former history": {far, []string{
			"updated u1 900 watch =f", "gap 900 901@2 restored", "updated u1 900@2 relist =f",
		}, 1, []Promise{P3}},
		"no stream notices the restoration": {soon, []string{
			"updated u1 8 watch =d", "updated u1 10 watch =e", "updated u1 12 watch =f",
		}, 0, []Promise{P3}},
		"the object moves on when its row has shown the restoration": {late, []string{
			"updated u1 21 watch =d", "gap 21 23@2 restored", "updated u1 22@2 relist =f",
		}, 0, []Promise{P3}},
	} {
		t.Run(name, func(t *testing.T) {
			s := alike()
			s.options.Gaps = AnyGap
			s.truth = append([]string{"added u1 4", "updated u1 7 =a"}, c.truth...)
			s.log = append(s.log, c.log...)
			truth, log := s.build(t)
			r := Judge(truth, log, s.options)
			assert.Equal(t, c.alike, r.Alike, "states are excused, want %d: %v", c.alike, r.Violations)
			for _, p := range []Promise{P1, P2, P3, P4, P9} {
				assert.Equal(t, slices.Contains(c.want, p), r.Counts[p] > 0, "violations of %s: %v", p, r.Violations)
			}
		})
	}
}

// Nothing shows a restoration of which etcd has forgotten the versions: the object that it undid looks deleted.
func TestStreamJudge_is_unaware_of_a_restoration_that_etcd_has_forgotten(t *testing.T) {
	for name, c := range map[string]struct {
		truth      []string
		compaction Compaction
		want       bool
	}{
		"a read shows it":               {[]string{"added u1 9"}, Compaction{History: 1, Revision: 9}, false},
		"etcd has forgotten it":         {[]string{"added u1 9"}, Compaction{History: 1, Revision: 10}, true},
		"the former etcd has forgotten": {[]string{"added u1 9"}, Compaction{History: 0, Revision: 10}, false},
		"a list shows an older version": {
			[]string{"added u1 4", "updated u1 9", "h1 added u1 4"}, Compaction{History: 1, Revision: 10}, false,
		},
		"it was deleted before": {
			[]string{"added u1 4", "updated u1 9", "h1 added u1 4", "h1 deleted u1 7"},
			Compaction{History: 1, Revision: 10},
			true,
		},
	} {
		truth, log := script{truth: c.truth, bounds: restored, log: []string{"updated u1 9 watch"}}.build(t)
		truth.Compactions = []Compaction{c.compaction}
		l := &line{Entry: &log[0], op: Updated, numbers: numbers{version: 9}}
		o := &object{truth: truth.Streams[plain]["x"], lines: []*line{l}}
		s := &streamJudge{judge: &judge{truth: truth}, objects: map[string]*object{l.key(): o}}
		assert.Equal(t, c.want, s.unaware(1, true), name)
	}
}
