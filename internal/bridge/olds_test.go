// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	"github.com/kube-eventbridge/kube-eventbridge/encode"
	"github.com/kube-eventbridge/kube-eventbridge/internal/testtier"
	"github.com/kube-eventbridge/kube-eventbridge/sink"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Whatever fails: what a reader makes of the events is what whole objects would have said.
func TestOlds_whoever_applies_all_events_has_every_object_under_faults_and_crashes(t *testing.T) {
	counted := map[string]int{}
	for seed := range uint64(testtier.Rounds(8, 24, 240)) {
		random := rand.New(rand.NewPCG(seed, 5))
		log, store, p := newReadableLog(), &memoryStore{}, newPast(random, 400)
		client := p.client(t)
		log.faults = flaky(seed)
		if seed%4 == 1 {
			log.refuse = func(m *sink.Message) bool {
				return strings.Contains(m.Subject, "o1") && len(m.Data)%3 == 0 && !strings.HasSuffix(m.ID, ".rejected")
			}
		}
		var to sink.Sink = log
		if seed%5 == 0 {
			to = log.fakeLog // one that cannot be read back
		}
		for at, crashes := 0, 0; crashes < 3 || at < len(p.frames); crashes++ {
			r := start(t, to, store)
			r.cfg.Client = client
			spec := &StreamSpec{Encoding: encode.Config{Payload: []encode.Payload{encode.MergePatch, encode.Change}[seed%2]}, Latest: seed%3 == 1}
			if seed%3 == 2 {
				spec.Filter = sevenths{}
			}
			s := r.stream(spec)
			s.saved.Fingerprint = s.fingerprint // as behind a first list
			p.gone = random.IntN(2) * at
			require.NoError(t, s.prime(t.Context()))
			at, _ = strconv.Atoi(s.tracker.Position())
			end := min(len(p.frames), at+1+random.IntN(200))
			for i, f := range p.frames[at:end] {
				f.send(t, s)
				if i%50 == 49 {
					require.NoError(t, r.commit(t.Context()))
				}
			}
			if end == len(p.frames) {
				r.settle()
			}
			_ = r.stop()
			at = end
			if random.IntN(2) == 0 {
				log.forgetIDs()
			}
		}
		reads := newReader()
		p.check(t, log.fakeLog, reads)
		for payload, n := range reads.count {
			counted[payload] += n
		}
	}
	assert.GreaterOrEqual(t, counted["merge-patch"], counted["object"]/2, "too few are patches: %v", counted)
	assert.NotEqual(t, 0, counted["change"], "too few are patches: %v", counted)
}

func TestOlds_an_event_that_is_too_large_with_what_was_before_is_published_without(t *testing.T) {
	log := newFakeLog()
	log.limit = 800
	r := start(t, log, &memoryStore{})
	s := r.stream(&StreamSpec{Encoding: encode.Config{Payload: encode.Change}})
	p := story(`"data":{"x":"a"}`, `"data":{"x":"b"}`, `"data":{"x":"`+strings.Repeat("c", 200)+`"}`, `"data":{"x":"d"}`, `"data":{"x":"`+strings.Repeat("e", 900)+`"}`, `"data":{"x":"f"}`)
	for _, f := range p.frames {
		f.send(t, s)
		r.settle()
	}
	var got []string
	for i := range log.log {
		m := &log.log[i]
		got = append(got, strings.TrimSpace(attribute(m, "resourceversion")+" "+strings.Split(attribute(m, "type"), ".")[3]+" "+attribute(m, "baseversion")))
	}
	expect(t, got, "1 added", "2 updated 1", "3 updated", "4 updated", "5 rejected", "6 updated")
	p.check(t, log, newReader())
	if n := value(t, r.registry, "publish_failures_total"); n != 1 {
		t.Errorf("%v failures are counted, want 1", n)
	}
}

// Who is told that an object has left the selection has been told of it before; who is told so again may not have been.
func TestOlds_a_deletion_because_of_the_selection_says_what_was_deleted(t *testing.T) {
	for name, c := range map[string]struct{ namespaceAt, repair, id, want string }{
		"once":  {"30", "", "u1.deleted.s30", `"data":{"x":"2"}`},
		"again": {"30", "9", "u1.deleted.s30.r0", ""},
	} {
		log := newReadableLog()
		p := story(`"data":{"x":"1"}`, `"data":{"x":"2"}`)
		spec := func() StreamSpec { return StreamSpec{Encoding: encode.Config{Payload: encode.Change}} }
		r, s := restarted(t, log, p, 2, spec(), spec())
		s.mu.Lock()
		s.saved.Repair = c.repair
		s.mu.Unlock()
		require.NoError(t, r.leave(t.Context(), s, c.namespaceAt))
		last := &log.log[len(log.log)-1]
		_, old, known := strings.Cut(string(last.Data), `"oldObject":`)
		if !strings.HasSuffix(last.ID, "."+c.id) || known != (c.want != "") || !strings.Contains(old, c.want) || (attribute(last, "baseversion") == "2") != known {
			t.Errorf("%s: %s has %s, made from %q", name, last.ID, last.Data, attribute(last, "baseversion"))
		}
	}
}

func TestOlds_are_known_only_of_what_the_row_says(t *testing.T) {
	k := newOlds(&StreamSpec{Olds: true, Encoding: encode.Config{Payload: encode.Change}}, newPacker)
	k.put("a", old{uid: "u1", data: k.packer.pack([]byte("data")), version: "5", sequence: 7, partition: 2, state: k.packer.pack([]byte("state")), seen: "6"})
	row := checkpoint.Row{UID: "u1", ResourceVersion: "6", Sequence: 7, Partition: 2}
	for name, c := range map[string]struct {
		edit          func(*checkpoint.Row)
		logged, state bool
	}{
		"it is":              {func(*checkpoint.Row) {}, true, true},
		"another object":     {func(r *checkpoint.Row) { r.UID = "u2" }, false, false},
		"another history":    {func(r *checkpoint.Row) { r.Superseded = true }, false, false},
		"it was deleted":     {func(r *checkpoint.Row) { r.Deleted = true }, false, false},
		"a later event":      {func(r *checkpoint.Row) { r.Sequence = 8 }, false, true},
		"another partition":  {func(r *checkpoint.Row) { r.Partition = 1 }, false, true},
		"a later state":      {func(r *checkpoint.Row) { r.ResourceVersion = "7" }, true, false},
		"of another process": {func(r *checkpoint.Row) { r.Fresh = !r.Fresh }, true, true},
	} {
		at := row
		c.edit(&at)
		logged, state := k.logged("a", at, nil), k.before("a", at, nil)
		if string(logged.Data) != map[bool]string{true: "data"}[c.logged] || (logged.ResourceVersion == "5") != c.logged ||
			string(state) != map[bool]string{true: "state"}[c.state] {
			t.Errorf("%s: %q of %s, and %q", name, logged.Data, logged.ResourceVersion, state)
		}
	}
	require.Nil(t, k.logged("b", checkpoint.Row{}, nil).Data, "something is known of what was never put")
	assert.Nil(t, k.before("b", checkpoint.Row{}, nil), "something is known of what was never put")
}

func TestOlds_count_what_they_hold(t *testing.T) {
	k := newOlds(&StreamSpec{Olds: true}, newPacker)
	for i := range 100 {
		k.put("a", old{state: make([]byte, i)})
		k.put("b", old{data: make([]byte, i)})
	}
	if objects, bytes := k.total(); objects != 2 || bytes != 2*(99+1+oldOverhead) {
		t.Errorf("%d objects, %d bytes", objects, bytes)
	}
	k.drop("a")
	k.drop("b")
	k.drop("c")
	if objects, bytes := k.total(); objects != 0 || bytes != 0 {
		t.Errorf("%d objects, %d bytes", objects, bytes)
	}
}
