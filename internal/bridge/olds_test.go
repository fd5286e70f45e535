// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	"github.com/kube-eventbridge/kube-eventbridge/encode"
	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge/delivery"
	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge/previous"
	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge/stream"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
	"github.com/kube-eventbridge/kube-eventbridge/internal/testtier"
	"github.com/kube-eventbridge/kube-eventbridge/sink"
	"github.com/kube-eventbridge/kube-eventbridge/source"
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
			r.env.Client = client
			spec := &StreamSpec{
				Encoding: encode.Config{Payload: []encode.Payload{encode.MergePatch, encode.Change}[seed%2]},
				Latest:   seed%3 == 1,
			}
			if seed%3 == 2 {
				spec.Filter = sevenths{}
			}
			if seed%4 == 3 {
				r.budget.SetLimit(16 << 10) // room for the previous states of few objects
			}
			s := r.stream(spec)
			s.Saved.Owes = checkpoint.Owes{} // as behind a first list
			p.gone = random.IntN(2) * at
			require.NoError(t, s.Before.Prime(t.Context()))
			at, _ = strconv.Atoi(s.Tracker.Position())
			end := min(len(p.frames), at+1+random.IntN(200))
			for i, f := range p.frames[at:end] {
				f.send(t, s)
				_, kept := s.Before.Cache.Total()
				require.LessOrEqual(t, kept, r.budget.Limit()/4)
				if i%50 == 49 {
					require.NoError(t, r.journal.Commit(t.Context()))
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
		reads := newApplier()
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
	p := story(`"data":{"x":"a"}`, `"data":{"x":"b"}`, `"data":{"x":"`+strings.Repeat("c", 200)+`"}`, `"data":{"x":"d"}`,
		`"data":{"x":"`+strings.Repeat("e", 900)+`"}`, `"data":{"x":"f"}`)
	for _, f := range p.frames {
		f.send(t, s)
		r.settle()
	}
	var got []string
	for i := range log.log {
		m := &log.log[i]
		got = append(got, strings.TrimSpace(attribute(m, "resourceversion")+" "+strings.Split(attribute(m, "type"),
			".")[3]+" "+attribute(m, "baseversion")))
	}
	expect(t, got, "1 added", "2 updated 1", "3 updated", "4 updated", "5 rejected", "6 updated")
	p.check(t, log, newApplier())
	assert.EqualValues(t, 1, value(t, r.registry, "publish_failures_total"), "failures are counted")
}

// Who is told that an object has left the selection has been told of it before; who is told so again may not have been.
func TestOlds_a_deletion_because_of_the_selection_says_what_was_deleted(t *testing.T) {
	log := newReadableLog()
	p := story(`"data":{"x":"1"}`, `"data":{"x":"2"}`)
	spec := func() StreamSpec { return StreamSpec{Encoding: encode.Config{Payload: encode.Change}} }
	r, s := restarted(t, log, p, 2, spec(), spec())
	require.NoError(t, r.retire(t.Context(), t.Context(), s, always(source.ReasonDeselected), "a test"))
	last := &log.log[len(log.log)-1]
	_, old, _ := strings.Cut(string(last.Data), `"oldObject":`)
	assert.Contains(t, old, `"data":{"x":"2"}`)
	assert.Equal(t, "2", attribute(last, "baseversion"))
	assert.Equal(t, "deselected", attribute(last, "reason"))
}

// The previous states of a thousand objects take no more of the buffer than those of ten. Objects that change often are
// published as patches.
func TestOlds_for_which_there_is_no_room_are_evicted(t *testing.T) {
	log, r, s := startNew(t, &StreamSpec{Encoding: encode.Config{Payload: encode.MergePatch}})
	r.budget.SetLimit(16 << 10)
	const n = 1000
	version := 0
	change := func(op source.Op, i int) {
		version++
		name := "o" + strconv.Itoa(i)
		send(t, s, op, name, "u-"+name, strconv.Itoa(version), source.ReasonWatch)
	}
	for i := range n {
		change(source.Added, i)
	}
	r.settle()
	assert.LessOrEqual(t, r.budget.Bytes(), r.budget.Limit()/4)
	for _, i := range []int{1, 1, 0, 0} {
		change(source.Updated, i)
		r.settle()
	}
	var payloads []string
	for i := range log.log[n:] {
		m := &log.log[n+i]
		payloads = append(payloads, attribute(m, "name")+" "+attribute(m, "payload"))
	}
	expect(t, payloads, "o1 object", "o1 merge-patch", "o0 object", "o0 merge-patch")
	assert.EqualValues(t, 2, value(t, r.registry, "old_objects_unknown_total"))
	objects := value(t, r.registry, "old_objects")
	assert.True(t, objects > 5 && objects < 15, "of %v objects something is kept", objects)
}

// The buffer becomes smaller, and nothing changes of the objects whose states it has.
func TestOlds_are_evicted_when_the_buffer_becomes_smaller(t *testing.T) {
	_, r, s := startNew(t, &StreamSpec{Encoding: encode.Config{Payload: encode.MergePatch}})
	for i := range 100 {
		send(t, s, source.Added, "o"+strconv.Itoa(i), "u", strconv.Itoa(i+1), source.ReasonWatch)
	}
	r.settle()
	p := &Pipeline{}
	p.current.Store(r.session)
	p.SetBuffer(16 << 10)
	assert.LessOrEqual(t, r.budget.Bytes(), r.budget.Limit()/4)
	objects, _ := s.Before.Cache.Total()
	assert.Positive(t, objects)
}

// What a restart reads of the states of one stream does not come on top of what another stream has read.
func TestOlds_of_a_full_buffer_are_not_kept(t *testing.T) {
	b := delivery.NewBudget(1 << 20)
	k := previous.NewCache(b, func() {}).Objects(true, false)
	require.NoError(t, b.Acquire(t.Context(), 1<<20-1<<10, false))
	for i := range 100 {
		k.Put(strconv.Itoa(i), previous.State{UID: "u", Data: make([]byte, 100)})
	}
	assert.LessOrEqual(t, b.Bytes(), b.Limit())
	objects, _ := k.Total()
	assert.Positive(t, objects)
}

// BenchmarkEncodeFrom is all that an update of a Pod costs that is made from the one before: what the log has is
// decompressed, compared with the new state, and that is compressed in turn.
func BenchmarkEncodeFrom(b *testing.B) {
	raw := must.Get(os.ReadFile("../../encode/testdata/pod.json"))(b)
	before := bytes.ReplaceAll(raw, []byte(`"48211734"`), []byte(`"48211700"`))
	before = bytes.Replace(before, []byte(`"phase":"Running"`), []byte(`"phase":"Pending"`), 1)
	before = bytes.Replace(before, []byte(`"type":"Ready","status":"True"`), []byte(`"type":"Ready","status":"False"`), 1)
	for _, payload := range []encode.Payload{encode.Change, encode.MergePatch, encode.JSONPatch} {
		b.Run(string(payload), func(b *testing.B) {
			spec := &StreamSpec{Encoding: encode.Config{Cluster: "test", Pipeline: "test", Payload: payload}}
			at := source.Stream{Resource: source.Resource{Version: "v1", Resource: "pods", Kind: "Pod", Namespaced: true}}
			e := spec.Encoder(at)
			s := (&stream.Stream{
				Identity: stream.Identity{Stream: at, Spec: spec, Encoder: e},
				Parts: stream.Parts{Before: stream.PreviousStates{States: previous.States{
					Cache: previous.NewCache(delivery.NewBudget(1<<20), func() {}).Objects(true, false),
				}}},
			}).Assemble()
			o := &delivery.Object{Stream: &s.Publication, Key: "n/p"}
			o.Attempt = delivery.Attempt{Message: &sink.Message{}, Delta: delivery.Delta{Change: source.Change{
				Op: source.Updated, Ident: source.Ident{Namespace: "n", Name: "p", UID: "u", ResourceVersion: "48211734"},
				Body: source.NewBody(raw),
			}}}
			data := must.Get(e.Data(&source.Change{Op: source.Updated, Body: source.NewBody(before)}))(b)
			s.Before.Cache.Put(o.Key, previous.State{
				UID: "u", Data: s.Before.Cache.Pack(data), Version: "48211700", Sequence: 1,
			})
			row := checkpoint.Row{UID: "u", ResourceVersion: "48211700", Sequence: 1}
			b.SetBytes(int64(len(raw)))
			b.ReportAllocs()
			for b.Loop() {
				if err := s.Before.EncodeFrom(o, row); err != nil || !o.Attempt.Based {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(len(o.Attempt.Data)), "kept-B")
		})
	}
}

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
	assert.EqualValues(t, 0,
		value(t, r.registry, "filter_errors_total")+value(t, r.registry, "old_objects_unknown_total"), "errors")
	n := value(t, r.registry, "old_objects")
	assert.EqualValues(t, 1, n, "of %v objects something is kept", n)
}

func TestOlds_what_depends_on_a_state_that_is_not_known_is_published_and_no_fault_of_the_filter(t *testing.T) {
	var told []string
	// Which asks too.
	spec := StreamSpec{Filter: asking{&told}, Olds: true, Encoding: encode.Config{Payload: encode.MergePatch}}
	log := newReadableLog()
	p := story(`"data":{"x":"a"}`, `"data":{"x":"b"}`, `"data":{"x":"c"}`, `"data":{"x":"d"}`)
	p.gone = 10
	r, s := restarted(t, log, p, 3, spec, spec)
	p.frames[3].send(t, s)
	r.settle()
	expect(t, told, "1 added", "2 a", "3 b", "4 unknown")
	expect(t, log.lines(), "added default/a u1 1 watch", "updated default/a u1 3 watch", "updated default/a u1 4 watch")
	errs, unknown := value(t, r.registry, "filter_errors_total"), value(t, r.registry, "old_objects_unknown_total")
	assert.True(t, errs == 0 && unknown == 1, "%v errors and %v unknown are counted", errs, unknown)
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
	row, _ := s.Ledger.Get("default/a")
	a := &delivery.Attempt{Delta: delivery.Delta{Repeated: true, Change: source.Change{
		Op: source.Updated, Ident: source.Ident{Namespace: "default", Name: "a", UID: "u1", ResourceVersion: "2"}, Again: 5,
		Body: source.NewBody([]byte(p.frames[1].body)),
	}}}
	assert.False(t, s.Publication.Filtered(a, row), "it is left out")
	expect(t, told, "1 added", "2 a", "2 unknown")
	n := value(t, r.registry, "filter_errors_total") + value(t, r.registry, "old_objects_unknown_total")
	assert.True(t, n == 0, "%v are counted", n)
}
