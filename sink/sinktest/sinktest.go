// SPDX-License-Identifier: Apache-2.0

// Package sinktest is the contract of [sink.Sink], and of [sink.Log] where a sink is one too, as a test suite.
package sinktest

import (
	"context"
	"errors"
	"fmt"
	"path"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
	"github.com/kube-eventbridge/kube-eventbridge/sink"
)

// Harness is a sink in front of a broker of its own, with an empty log. A nil function, or a false, says that the sink
// has no such thing; the tests that need it are skipped aloud.
type Harness struct {
	// Sink is what is tested. The suite runs it.
	Sink sink.Sink
	// Log reads the whole log back, in its order. Messages of one key must be in order, keys may be mixed.
	Log func(t *testing.T) []sink.Stored
	// Subject returns where messages of a key go.
	Subject func(key string) string
	// Shared says that Subject is the same for several keys.
	Shared bool
	// Remembers says that the broker recognises the id of an earlier message, Verifies that it checks the last message
	// of a key.
	Remembers, Verifies bool
	// Limit is a size of data that the broker refuses for good; 0: there is none.
	Limit int
	// Cut cuts the sink's connections. They can be made again at once.
	Cut func()
	// Stop stops the broker, Start starts it with the same log.
	Stop, Start func(t *testing.T)
	// Save takes a copy of the broker's store, Restore puts it in the place of what has become of the store since. The
	// broker may be away meanwhile.
	Save, Restore func(t *testing.T)
	// Destroy removes the log, as somebody would who does not know what it is for.
	Destroy func(t *testing.T)
	// Remake destroys the log and recreates it with n messages that somebody else publishes, on connections that stay
	// open.
	Remake func(t *testing.T, n int)
	// Purge removes all messages as limits do: the log goes on after them.
	Purge func(t *testing.T)
	// Insists says that the sink publishes again by itself while its broker is away: a message is not given back to its
	// publisher then.
	Insists bool
	// Own says which messages the sink itself writes, as a marker of its start: they are no messages of those who
	// publish. Log leaves them out. What the log acknowledged of them is lost with it.
	Own func(*sink.Stored) bool
	// Library is the import path of the sink's client library: nothing of it may run when the sink has ended.
	Library string
	// Unordered says that attributes come back in any order.
	Unordered bool
}

// patience is how long anything may take: four restarts of a broker on a busy machine take two minutes.
const patience = 5 * time.Minute

// Run runs the suite. newSink is called for each test.
func Run(t *testing.T, newSink func(t *testing.T) *Harness) {
	tests := []struct {
		name string
		test func(t *testing.T, h *Harness)
	}{
		{"every message arrives once, with its attributes and data", testArrives},
		{"hostile characters survive", testHostile},
		{"structured messages have no attributes", testStructured},
		{"done is called once, also when the context ends", testDoneOnce},
		{"a caller without patience is told so", testImpatient},
		{"what does not run publishes nothing", testNotRunning},
		{"the same id twice is a duplicate", testDuplicate},
		{"what is acknowledged is the last of its key", testOvertaken},
		{"the same marker twice is a duplicate", testMarkedAgain},
		{"a check of the last message finds another one", testConflict},
		{"a message published before is no conflict", testOwn},
		{"what is too large is refused for good", testTooLarge},
		{"a broker that is away is a reason to try again", testAway},
		{"order per key under cuts", testCuts},
		{"order per key under restarts of the broker", testRestarts},
		{"an empty log has bounds and nothing to read", testEmptyLog},
		{"the log is read back as it was published", testReadBack},
		{"a log keeps its identity until it is recreated", testIdentity},
		{"a message is found at its place, and nothing elsewhere", testPlaces},
		{"the last of each key", testLastOfKey},
		{"without data structured messages still have theirs", testHeaders},
		{"reading ends as its caller wants it to", testReadEnds},
		{"reading goes on after cuts", testReadCuts},
		{"reading ends while others publish", testReadBusy},
		{"messages that were removed are no loss", testPurged},
		{"a log restored from an older copy ends the run", testRestored},
		{"a log that was destroyed ends the run", testDestroyed},
		{"a log that was recreated ends the run", testRemade},
		{"a log that was recreated and published to by others ends the run", testRemadeByOthers},
		{"a log that lost what was not promised does not end the run", testNothingPromised},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) { tt.test(t, newSink(t)) })
	}
}

// own reports whether the sink itself wrote a message.
func (h *Harness) own(st *sink.Stored) bool { return h.Own != nil && h.Own(st) }

// start runs the sink until stop is called, at the latest at the end of the test, and checks that nothing is left of
// it.
func start(t *testing.T, h *Harness) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	wait := run(ctx, t, h)
	stop = sync.OnceFunc(func() {
		cancel()
		if err := wait(); err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	t.Cleanup(stop)
	return stop
}

// run runs the sink until ctx ends. wait waits for its end, checks that nothing is left of it, and returns its error.
func run(ctx context.Context, t *testing.T, h *Harness) (wait func() error) {
	t.Helper()
	ended := make(chan error, 1)
	go func() { ended <- h.Sink.Run(ctx) }()
	must.Succeed(t, "the sink is ready", h.Sink.Ready)
	return func() (err error) {
		select {
		case err = <-ended:
		case <-time.After(patience):
			t.Error("Run has not ended")
		}
		if h.Sink.Ready() == nil {
			t.Error("ready after its end")
		}
		h.checkLeaks(t)
		return err
	}
}

// checkLeaks looks for goroutines of the sink and its library; those of tests are calls of Publish at most.
func (h *Harness) checkLeaks(t *testing.T) {
	t.Helper()
	library := strings.ReplaceAll(path.Base(h.Library), ".", "%2e")
	leaks := func() (found []string) {
		all := make([]byte, 16<<20)
		all = all[:runtime.Stack(all, true)]
		for stack := range strings.SplitSeq(string(all), "\n\n") {
			ours := strings.Contains(stack, "/kube-eventbridge/sink/") ||
				h.Library != "" && strings.Contains(stack, path.Dir(h.Library)+"/"+library)
			tests := strings.Contains(stack, "/sink/sinktest.") || strings.Contains(stack, "_test.") ||
				strings.Contains(stack, "testing.")
			if ours && !tests {
				found = append(found, stack)
			}
		}
		return found
	}
	must.Succeed(t, "the sink's goroutines end", func() error {
		if left := leaks(); len(left) > 0 {
			return errors.New(strings.Join(left, "\n\n"))
		}
		return nil
	})
}

// result is what done was told.
type result struct {
	receipt sink.Receipt
	err     error
}

// publish publishes m and waits for the answer.
func publish(t *testing.T, p sink.Publisher, m *sink.Message) result {
	t.Helper()
	return send(t, p, m)()
}

// send publishes m. answer waits for the answer.
func send(t *testing.T, p sink.Publisher, m *sink.Message) (answer func() result) {
	t.Helper()
	got := make(chan result, 8)
	p.Publish(t.Context(), m, func(rc sink.Receipt, err error) { got <- result{rc, err} })
	return func() result {
		t.Helper()
		select {
		case r := <-got:
			return r
		case <-time.After(patience):
			t.Fatalf("no answer for %s", m.ID)
			return result{}
		}
	}
}

// mustPublish publishes m and wants it accepted.
func mustPublish(t *testing.T, p sink.Publisher, m *sink.Message) sink.Receipt {
	t.Helper()
	r := publish(t, p, m)
	if r.err != nil {
		t.Fatalf("publish %s: %v", m.ID, r.err)
	}
	return r.receipt
}

// insist publishes m until it is accepted: the sink may not have seen yet that its broker was away.
func (h *Harness) insist(t *testing.T, m *sink.Message) {
	t.Helper()
	must.Succeed(t, "published "+m.ID, func() error { return publish(t, h.Sink, m).err })
}

// message returns the n-th message of a key in binary mode.
func (h *Harness) message(key string, n int, more ...sink.Attribute) *sink.Message {
	id := fmt.Sprintf("%s.%d", key, n)
	return &sink.Message{
		Subject: h.Subject(key),
		Key:     key,
		ID:      id,
		Attributes: append([]sink.Attribute{
			{Name: "specversion", Value: "1.0"},
			{Name: "id", Value: id},
			{Name: "source", Value: "/clusters/test/api/v1/pods"},
			{Name: "type", Value: "io.kube-eventbridge.resource.updated.v1"},
			{Name: "time", Value: "2026-01-02T03:04:05Z"},
			{Name: "datacontenttype", Value: "application/json"},
			{Name: "partitionkey", Value: key},
		}, more...),
		ContentType: "application/json",
		Data:        fmt.Appendf(nil, `{"key":%q,"n":%d}`, key, n),
		Shared:      h.Shared,
	}
}

// compare reports how a stored message differs from the published one.
func (h *Harness) compare(t *testing.T, got sink.Stored, want *sink.Message) {
	t.Helper()
	if got.ID != want.ID {
		t.Errorf("id %q, want %q", got.ID, want.ID)
	}
	if got.ContentType != want.ContentType {
		t.Errorf("%s: content type %q, want %q", want.ID, got.ContentType, want.ContentType)
	}
	if string(got.Data) != string(want.Data) {
		t.Errorf("%s: data %.200q, want %.200q", want.ID, got.Data, want.Data)
	}
	has, wants := slices.Clone(got.Attributes), slices.Clone(want.Attributes)
	if h.Unordered {
		byName := func(a, b sink.Attribute) int { return strings.Compare(a.Name, b.Name) }
		slices.SortFunc(has, byName)
		slices.SortFunc(wants, byName)
	}
	if !slices.Equal(has, wants) {
		t.Errorf("%s: attributes\n%q, want\n%q", want.ID, has, wants)
	}
}
