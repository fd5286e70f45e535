// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge/stream"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
	"github.com/kube-eventbridge/kube-eventbridge/source"
)

// Times of writes.
const firstWrite, secondWrite, thirdWrite = "2020-01-01T00:00:01Z", "2020-01-01T00:00:02Z", "2020-01-01T00:00:03Z"

// sendWritten sends a change of an object whose newest entry in managedFields is of a time and a manager.
func sendWritten(t *testing.T, s *stream.Stream, op source.Op, uid, version, at, manager string) {
	t.Helper()
	body := source.NewBody([]byte(`{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"a","namespace":"default",` +
		`"uid":"` + uid +
		`","resourceVersion":"` + version + `","managedFields":[{"manager":"` + manager + `","operation":"Update","time":"` +
		at + `"}]}}`))
	ticket := must.Get(s.Admit(t.Context(), version, len(body.Bytes())))(t)
	s.Deliver(source.Change{
		Op: op, Ident: source.Ident{Namespace: "default", Name: "a", UID: uid, ResourceVersion: version},
		Body: body, Reason: source.ReasonWatch, Seen: time.Now(), Ticket: ticket, Size: len(body.Bytes()),
	})
	settleNow(t, s)
}

// writersOf returns who wrote each event, by the log, from the n-th on: version and manager.
func writersOf(log *fakeLog, n int) (all []string) {
	log.mu.Lock()
	defer log.mu.Unlock()
	for i := n; i < len(log.log); i++ {
		if m := &log.log[i]; attribute(m, "sequence") != "" {
			all = append(all, strings.TrimSpace(attribute(m, "resourceversion")+" "+attribute(m, "fieldmanager")))
		}
	}
	return all
}

func TestWriter_of_a_change_is_that_of_no_older_write(t *testing.T) {
	log, store := newReadableLog(), &memoryStore{}
	r, s := saved(t, log, store)
	live := func(s *stream.Stream) {
		sendWritten(t, s, source.Added, "u2", "12", firstWrite, "kubectl")
		sendWritten(t, s, source.Updated, "u2", "13", firstWrite, "kubectl") // leaves no time
		sendWritten(t, s, source.Deleted, "u2", "14", firstWrite, "kubectl")
		sendWritten(t, s, source.Added, "u3", "15", secondWrite, "helm")
	}
	live(s)
	told := writersOf(log.fakeLog, 0)
	assert.Equal(t, []string{"12 kubectl", "13", "14", "15 helm"}, told[len(told)-4:])
	note(t, s, source.Progress{Kind: source.Bookmark, Version: "20"})
	r.stopSaved()
	store.rewind()
	_, s = startStream(t, log, store)
	live(s)
	again := writersOf(log.fakeLog, 0)
	assert.Greater(t, len(again), len(told))
	assert.NotContains(t, again, "13 kubectl", "a rewind names an older write")
}

func TestWriter_of_what_is_selected_again_is_not_known(t *testing.T) {
	log, _, s := startNew(t, &StreamSpec{LabelSelector: "!hidden"})
	snapshot(t, s, "1")
	n := len(log.log)
	sendWritten(t, s, source.Added, "u2", "12", firstWrite, "kubectl")
	sendWritten(t, s, source.Deleted, "u2", "14", firstWrite, "kubectl") // it has the label
	sendWritten(t, s, source.Added, "u2", "16", firstWrite, "kubectl")   // whoever took it away
	assert.Equal(t, []string{"12 kubectl", "14", "16"}, writersOf(log, n))
}

// leavesOut leaves out a version.
type leavesOut string

func (w leavesOut) Filter(c *source.Change, _ [16]byte, _ func() []byte) (reason string, now [16]byte, err error) {
	if c.ResourceVersion == string(w) {
		reason = "expression"
	}
	return reason, now, nil
}

func TestWriter_is_named_behind_what_is_not_published(t *testing.T) {
	log, _, s := startNew(t, &StreamSpec{Filter: leavesOut("13")})
	snapshot(t, s, "1")
	n := len(log.log)
	sendWritten(t, s, source.Added, "u2", "12", firstWrite, "kubectl")
	sendWritten(t, s, source.Updated, "u2", "13", secondWrite, "kubelet")
	sendWritten(t, s, source.Updated, "u2", "14", thirdWrite, "helm")
	sendWritten(t, s, source.Updated, "u2", "15", thirdWrite, "helm")
	assert.Equal(t, []string{"12 kubectl", "14 helm", "15"}, writersOf(log, n))
}
