// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/time/rate"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	"github.com/kube-eventbridge/kube-eventbridge/encode"
	"github.com/kube-eventbridge/kube-eventbridge/encode/jsonscan"
	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge/stream"
	"github.com/kube-eventbridge/kube-eventbridge/internal/sequence"
	"github.com/kube-eventbridge/kube-eventbridge/sink"
	"github.com/kube-eventbridge/kube-eventbridge/source"
)

// Who asks for something to be published again may have nothing to apply a patch to. Consumers that are up to date pass
// over it, so that nothing applies to it either.
func TestOlds_what_is_published_again_is_whole_and_no_base(t *testing.T) {
	log, r, s := startNew(t, &StreamSpec{Encoding: encode.Config{Payload: encode.MergePatch}})
	p := story(`"data":{"x":"a"}`, `"data":{"x":"b"}`, `"data":{"x":"c"}`, `"data":{"x":"d"}`, `"data":{"x":"e"}`)
	for _, f := range p.frames[:2] {
		f.send(t, s)
	}
	r.settle()
	s.Mu.Lock()
	s.Saved.Replay = checkpoint.Replay{To: "3", Number: 7}
	s.Mu.Unlock()
	for _, f := range p.frames[2:] {
		f.send(t, s)
	}
	r.settle()
	var got []string
	for i := range log.log {
		got = append(got, attribute(&log.log[i], "payload"))
	}
	expect(t, got, "object", "merge-patch", "object", "object", "merge-patch")
	p.check(t, log, newApplier())
}

// A chain of patches goes on in an epoch whose versions compare with those before, and in no other.
func TestOlds_of_another_epoch_are_a_base_where_versions_compare(t *testing.T) {
	reselected := func(_ *testing.T, s *stream.Stream) {
		s.Mu.Lock()
		defer s.Mu.Unlock()
		s.Epochs.TakeEpoch(checkpoint.Owes{List: sequence.Reselect})
	}
	for name, c := range map[string]struct {
		begin func(*testing.T, *stream.Stream)
		third string
	}{"restored": {restored, "object"}, "reselected": {reselected, "merge-patch"}} {
		t.Run(name, func(t *testing.T) {
			log, r, s := startNew(t, &StreamSpec{Encoding: encode.Config{Payload: encode.MergePatch}})
			p := story(`"data":{"x":"a"}`, `"data":{"x":"b"}`, `"data":{"x":"c"}`, `"data":{"x":"d"}`)
			for i, f := range p.frames {
				if i == 2 {
					r.settle()
					before := s.Epoch
					c.begin(t, s)
					require.Greater(t, s.Epoch, before)
				}
				f.send(t, s)
			}
			r.settle()
			var got []string
			for i := range log.log {
				got = append(got, attribute(&log.log[i], "payload"))
			}
			expect(t, got, "object", "merge-patch", c.third, "merge-patch")
			p.check(t, log, newApplier())
		})
	}
}

// republish publishes a frame again, as a resync does.
func (f frame) republish(t *testing.T, s *stream.Stream) {
	t.Helper()
	s.Status.State(source.Watching, nil)
	s.Tracker.Bookmark(strconv.Itoa(f.version))
	id := source.Ident{Namespace: "default", Name: f.name, UID: f.uid, ResourceVersion: strconv.Itoa(f.version)}
	ok, err := s.Resyncer.RepublishOne(t.Context(), id, frameContent(f.body), 7, rate.NewLimiter(rate.Inf, 1))
	require.True(t, ok && err == nil, "%v %v", ok, err)
}

type frameContent string

func (c frameContent) Size() int { return len(c) }

func (c frameContent) Bytes() []byte { return []byte(c) }

func (c frameContent) Body() *source.Body { return source.NewBody([]byte(c)) }

func TestOlds_what_a_resync_publishes_otherwise_than_it_was_is_no_base(t *testing.T) {
	redacted := StreamSpec{Encoding: encode.Config{
		Payload: encode.MergePatch,
		Redact:  []jsonscan.Path{parsed(t, "data.secret")},
	}}
	log, p := newReadableLog(), story(`"data":{"secret":"hunter2","y":"1"}`, `"data":{"secret":"hunter2","y":"2"}`)
	r, s := restarted(t, log, p, 1, StreamSpec{Encoding: encode.Config{Payload: encode.MergePatch}}, redacted)
	p.frames[0].republish(t, s)
	r.settle()
	row, _ := s.Ledger.Get("default/a")
	assert.EqualValues(t, 0, row.Form, "a restart would take it for a base: %+v", row)
	p.frames[1].send(t, s)
	r.settle()
	data := passing(t, log.fakeLog).objects["default/a"].(map[string]any)["data"].(map[string]any)
	assert.True(t, data["secret"] != "hunter2" && data["y"] == "2", "who is up to date has %v", data)
}

// The event was refused; the broker's limit is raised, and a resync publishes its object.
func TestOlds_what_only_a_resync_has_published_is_no_base(t *testing.T) {
	log := newFakeLog()
	log.limit = 800
	r := start(t, log, &memoryStore{})
	s := r.stream(&StreamSpec{Encoding: encode.Config{Payload: encode.MergePatch}})
	s.Saved.Owes = checkpoint.Owes{}
	large := strings.Repeat("b", 900)
	p := story(`"data":{"x":"a"}`, `"data":{"x":"`+large+`","y":"1"}`, `"data":{"x":"`+large+`","y":"2"}`)
	for _, f := range p.frames[:2] {
		f.send(t, s)
		r.settle()
	}
	log.set(func() { log.limit = 0 })
	p.frames[1].republish(t, s)
	r.settle()
	p.frames[2].send(t, s)
	r.settle()
	data := passing(t, log).objects["default/a"].(map[string]any)["data"].(map[string]any)
	assert.True(t, len(log.log) == 4 && data["x"] == large && data["y"] == "2",
		"of %d events, who is up to date has %v", len(log.log), data)
}

// parted is a topic whose keys are in another partition once it has more of them.
type parted struct {
	*fakeLog
	partition int32
	of        map[string]int32
}

func (p *parted) Publish(ctx context.Context, m *sink.Message, done sink.Done) {
	to := p.partition
	p.of[m.ID], m.Verify = to, false
	p.fakeLog.Publish(ctx, m, func(r sink.Receipt, err error) {
		r.Partition = to
		done(r, err)
	})
}

func TestOlds_are_no_base_in_another_partition(t *testing.T) {
	log := &parted{fakeLog: newFakeLog(), of: map[string]int32{}}
	r := start(t, log, &memoryStore{})
	s := r.stream(&StreamSpec{Encoding: encode.Config{Payload: encode.MergePatch}})
	p := story(`"data":{"x":"a"}`, `"data":{"x":"b"}`, `"data":{"x":"c"}`, `"data":{"x":"d"}`, `"data":{"x":"e"}`)
	for i, f := range p.frames {
		log.partition = int32(min(i/2, 1))
		f.send(t, s)
		r.settle()
		row, _ := s.Ledger.Get("default/a")
		assert.Equal(t, (i == 2), (row.Form == 0), "the row of event %d is %+v", i, row)
	}
	var got []string
	for i := range log.log {
		m := &log.log[i]
		got = append(got, fmt.Sprint(log.of[m.ID], " ", attribute(m, "payload"), attribute(m, "baseversion")))
	}
	expect(t, got, "0 object", "0 merge-patch1", "1 merge-patch2", "1 object", "1 merge-patch4")
	p.check(t, log.fakeLog, newApplier())
}

// A log drops its oldest messages, and the later ones have to make sense without them.
func TestOlds_what_the_log_has_no_more_is_no_base(t *testing.T) {
	log, r, s := startNew(t, &StreamSpec{Encoding: encode.Config{Payload: encode.MergePatch}})
	p := story(`"data":{"x":"a"}`, `"data":{"x":"b"}`, `"data":{"x":"c"}`, `"data":{"x":"d"}`)
	for i, f := range p.frames {
		f.send(t, s)
		r.settle()
		if i == 1 {
			log.set(func() { clear(log.last) })
		}
	}
	var got []string
	for i := range log.log {
		got = append(got, attribute(&log.log[i], "payload")+attribute(&log.log[i], "baseversion"))
	}
	expect(t, got, "object", "merge-patch1", "object", "merge-patch3")
}

// What a dead process has published behind what is known is not what the next event is made from.
func TestOlds_what_the_log_turns_out_to_have_is_no_base(t *testing.T) {
	log, store := newFakeLog(), &memoryStore{} // it cannot be read back
	patches := func() *StreamSpec { return &StreamSpec{Encoding: encode.Config{Payload: encode.MergePatch}} }
	p := story(`"data":{"x":"a"}`, `"data":{"x":"b"}`, `"data":{"x":"c","y":"c"}`, `"data":{"x":"c","z":"d"}`)
	r := start(t, log, store)
	s := r.stream(patches())
	s.Saved.Owes = checkpoint.Owes{}
	p.frames[0].send(t, s)
	p.frames[1].send(t, s)
	r.settle()
	require.NoError(t, r.journal.Commit(t.Context()))
	p.frames[2].send(t, s)
	r.settleAndStop()
	log.forgetIDs()

	r = start(t, log, store)
	r.env.Client = p.client(t)
	s = r.stream(patches())
	require.NoError(t, s.Before.Prime(t.Context()))
	objects, _ := s.Before.Cache.Total()
	require.Equal(t, 1, objects, "of %d objects it is known what was before", objects)
	p.frames[2].send(t, s)
	p.frames[3].send(t, s)
	r.settle()
	expect(t, log.lines(), "added default/a u1 1 watch", "updated default/a u1 2 watch", "updated default/a u1 3 watch",
		"updated default/a u1 4 watch")
	p.check(t, log, newApplier())
}

// The broker recognises a repetition by its id, and what it has may have been encoded by another configuration.
func TestOlds_what_the_broker_had_already_is_no_base(t *testing.T) {
	log, store := newFakeLog(), &memoryStore{}
	p := story(`"data":{"x":"a"}`, `"data":{"x":"b"}`, `"data":{"x":"c"}`)
	for _, redact := range [][]jsonscan.Path{nil, {parsed(t, "data.x")}} {
		r := start(t, log, store)
		s := r.stream(&StreamSpec{Encoding: encode.Config{Payload: encode.MergePatch, Redact: redact}})
		for _, f := range p.frames[:2+len(redact)] {
			f.send(t, s)
		}
		r.settleAndStop()
	}
	if last := &log.log[len(log.log)-1]; attribute(last, "payload") != "object" ||
		attribute(last, "resourceversion") != "3" {
		t.Errorf("the last event is %v", last.Attributes)
	}
}
