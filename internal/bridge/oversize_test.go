// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kube-eventbridge/kube-eventbridge/encode"
	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge/stream"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
	"github.com/kube-eventbridge/kube-eventbridge/sink"
	"github.com/kube-eventbridge/kube-eventbridge/source"
)

// keepingLog is a broker that takes small messages, and keeps what is larger.
type keepingLog struct {
	*fakeLog
	mu   sync.Mutex
	kept map[string]string
	// fail is why nothing is kept; nil: it is.
	fail func() error
}

func (l *keepingLog) Keep(_ context.Context, name string, data []byte) (string, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.fail != nil {
		if err := l.fail(); err != nil {
			return "", err
		}
	}
	l.kept[name] = string(data)
	return "kept:" + name, nil
}

// sendBody is send for an object with a body of so many bytes.
func sendBody(t *testing.T, s *stream.Stream, op source.Op, name, version string, size int) {
	t.Helper()
	body := source.NewBody([]byte(`{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"` + name +
		`","namespace":"default"},"data":{"x":"` +
		strings.Repeat("x", size) + `"}}`))
	ticket := must.Get(s.Admit(t.Context(), version, len(body.Bytes())))(t)
	s.Deliver(source.Change{
		Op: op, Ident: source.Ident{Namespace: "default", Name: name, UID: "u1", ResourceVersion: version},
		Body: body, Reason: source.ReasonWatch, Ticket: ticket, Size: len(body.Bytes()),
	})
}

// story sends three states of an object, the second of them too large, and returns what the log has of each: type,
// payload, size and reference.
func (r *rig) story(s *stream.Stream, log *fakeLog) []string {
	r.t.Helper()
	sendBody(r.t, s, source.Added, "a", "1", 10)
	sendBody(r.t, s, source.Updated, "a", "2", 2000)
	sendBody(r.t, s, source.Deleted, "a", "3", 3000)
	r.settle()
	var out []string
	for i := range log.log {
		m := &log.log[i]
		st := must.Get(encode.StateOf(m))(r.t)
		_, op, _ := strings.Cut(strings.TrimSuffix(st.Type, ".v1"), "resource.")
		words := []string{op, st.ResourceVersion, attribute(m, "payload"), attribute(m, "datasize"), attribute(m, "dataref")}
		out = append(out, strings.TrimSpace(strings.Join(words, " ")))
	}
	return out
}

const overhead = len(`{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"a","namespace":"default"},` +
	`"data":{"x":""}}`)

func of(size int) string { return strconv.Itoa(size + overhead) }

func TestOversize_what_is_too_large_is_rejected_by_default(t *testing.T) {
	log := newFakeLog()
	log.limit = 1000
	r, s := startStream(t, log, &memoryStore{})
	expect(t, r.story(s, log), "added 1 object", "rejected 2 object", "rejected 3 object")
	assert.EqualValues(t, 2, value(t, r.registry, "publish_failures_total"), "failures are counted")
}

func TestOversize_what_is_too_large_is_published_without_its_object(t *testing.T) {
	for _, faults := range []func() fault{func() fault { return noFault }, flaky(7)} {
		log := newFakeLog()
		log.limit, log.faults = 1000, faults
		r := start(t, log, &memoryStore{})
		r.delivery.Oversize, r.delivery.StopOnReject = ReduceOversize, true
		s := r.stream(nil)
		expect(t, r.story(s, log), "added 1 object", "updated 2 metadata "+of(2000), "deleted 3 metadata "+of(3000))
		if failures, oversized := value(t, r.registry, "publish_failures_total"),
			value(t, r.registry, "oversized_total"); failures != 0 || oversized != 2 {
			t.Errorf("%v failures and %v too large are counted", failures, oversized)
		}
		assert.Equal(t, "2", s.Tracker.Position(), "the position")
	}
}

func TestOversize_what_is_too_large_without_its_object_is_rejected(t *testing.T) {
	log := newFakeLog()
	log.limit = 200 // a rejection is shorter than such a name
	r := start(t, log, &memoryStore{})
	r.delivery.Oversize = ReduceOversize
	name := strings.Repeat("n", 200)
	s := r.stream(nil)
	sendBody(t, s, source.Added, name, "1", 10)
	r.settle()
	if got := attribute(&log.log[0], "type"); got != encode.TypeRejected || len(log.log) != 1 {
		t.Errorf("the log has %d messages, the first a %s", len(log.log), got)
	}
}

// hangingLog is a broker whose object store does not answer.
type hangingLog struct {
	*fakeLog
	keeping chan struct{}
}

func (l *hangingLog) Keep(ctx context.Context, _ string, _ []byte) (string, error) {
	l.keeping <- struct{}{}
	<-ctx.Done()
	return "", ctx.Err()
}

func TestOversize_uploads_hold_up_no_other_object(t *testing.T) {
	log := &hangingLog{newFakeLog(), make(chan struct{})}
	log.limit = 1000
	r := start(t, log, &memoryStore{})
	r.delivery.Oversize = StoreOversize
	s := r.stream(nil)
	for i := range workers {
		sendBody(t, s, source.Added, fmt.Sprint("large", i), strconv.Itoa(i+1), 2000)
		<-log.keeping
	}
	sendBody(t, s, source.Added, "small", "9", 10)
	must.Happen(t, "the small object", func() bool { return len(log.lines()) == 1 })
	require.NoError(t, r.stop())
}

func TestOversize_what_is_too_large_is_kept_whole_and_referred_to(t *testing.T) {
	log := &keepingLog{fakeLog: newFakeLog(), kept: map[string]string{}}
	log.limit = 1000
	r := start(t, log, &memoryStore{})
	r.delivery.Oversize = StoreOversize
	update, deletion := "", ""
	lines := r.story(r.stream(nil), log.fakeLog)
	for name := range log.kept {
		if strings.HasSuffix(name, ".1") {
			deletion = name
		} else {
			update = name
		}
	}
	expect(t, lines, "added 1 object", "updated 2 metadata "+of(2000)+" kept:"+update,
		"deleted 3 metadata "+of(3000)+" kept:"+deletion)
	if got := log.kept[update]; len(log.kept) != 2 || len(got) != 2000+overhead || update != log.log[1].ID {
		t.Errorf("%d are kept; under %s %d bytes", len(log.kept), update, len(got))
	}
}

func TestOversize_what_cannot_be_kept_now_waits_in_sight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &keepingLog{fakeLog: newFakeLog(), kept: map[string]string{}}
		log.limit = 1000
		tries := 0
		r := start(t, log, &memoryStore{})
		log.fail = func() error {
			if tries++; tries <= 3 {
				return errors.New("no answer")
			}
			if tries > 4 {
				return nil
			}
			if err := r.delivery.Broker.Problem(nil); err == nil || !strings.Contains(err.Error(), "no answer") {
				t.Errorf("meanwhile the broker's problem is %v", err)
			}
			return nil
		}
		r.delivery.Oversize = StoreOversize
		lines := r.story(r.stream(nil), log.fakeLog)
		assert.True(t, len(lines) == 3 && strings.HasPrefix(lines[1], "updated 2 metadata") && len(log.kept) == 2,
			"the log is %v, and %d are kept", lines, len(log.kept))
		assert.NoError(t, r.delivery.Broker.Problem(nil), "everything is published")
		_ = r.stop()
	})
}

func TestOversize_what_will_never_be_kept_is_rejected(t *testing.T) {
	log := &keepingLog{
		fakeLog: newFakeLog(), kept: map[string]string{},
		fail: func() error { return sink.Permanent(errors.New("no bucket")) },
	}
	log.limit = 1000
	r := start(t, log, &memoryStore{})
	r.delivery.Oversize = StoreOversize
	lines := r.story(r.stream(nil), log.fakeLog)
	expect(t, lines, "added 1 object", "rejected 2 object", "rejected 3 object")
	assert.Contains(t, string(log.log[1].Data), "no bucket", "the rejection")
}

// A process that follows a crash is told by the log that it has the event, in whatever size.
func TestOversize_what_was_published_without_its_object_is_not_repeated(t *testing.T) {
	log, store := newReadableLog(), &memoryStore{}
	log.limit = 1000
	for range 2 {
		r := start(t, log, store)
		r.delivery.Oversize = ReduceOversize
		s := r.stream(nil)
		sendBody(t, s, source.Updated, "a", "2", 2000)
		r.settleAndStop()
		log.forgetIDs()
		store = &memoryStore{}
	}
	assert.Len(t, log.log, 1, "the log is %v", log.lines())
}
