// SPDX-License-Identifier: Apache-2.0

package window

import (
	"context"
	"strings"
	"sync"

	gonats "github.com/nats-io/nats.go"

	"github.com/kube-eventbridge/kube-eventbridge/sink"
)

// Window has the unacknowledged messages. A message has a slot, and each use of a slot a generation of its own; both
// are in the subject that the answer is sent to. An answer that comes late, or twice, as it may when a stream's leader
// changes, therefore never counts for another message.
type Window struct {
	free  chan int
	slots []slot
	// inbox is the subject before the token, with its dot.
	inbox string
}

type slot struct {
	mu      sync.Mutex
	m       *sink.Message // nil: no answer is expected
	done    sink.Done
	gen     uint64 // of the last use
	tick    uint32 // of the clock, at the last use
	replies string // the next reply subjects, cut from one string

	// While m is being sent it is read, and its owner must not have it back: what becomes of it meanwhile waits here.
	sending bool
	answer  *gonats.Msg
	failure error
}

const (
	slotDigits  = 4
	genDigits   = 12
	tokenDigits = slotDigits + genDigits
	genMask     = 1<<(4*genDigits) - 1
	// batch is how many reply subjects are made at once.
	batch = 16
)

// New returns a window of so many slots. Inbox is the subject of answers without its last token.
func New(size int, inbox string) *Window {
	w := &Window{free: make(chan int, size), slots: make([]slot, size), inbox: inbox + "."}
	for i := range size {
		w.free <- i
	}
	return w
}

// Answers returns the subject that has all answers.
func (w *Window) Answers() string { return w.inbox + "*" }

// Used returns the number of slots in use.
func (w *Window) Used() int { return len(w.slots) - len(w.free) }

// Acquire waits for a slot.
func (w *Window) Acquire(ctx context.Context) (int, error) {
	select {
	case i := <-w.free:
		return i, nil
	default:
	}
	select {
	case i := <-w.free:
		return i, nil
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

// Release gives slot i back. Its message must have been taken.
func (w *Window) Release(i int) { w.free <- i }

// Put places m, which is about to be sent, in slot i and returns the generation and the subject for its answer.
func (w *Window) Put(i int, m *sink.Message, done sink.Done, tick uint32) (gen uint64, reply string) {
	s := &w.slots[i]
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gen++
	s.m, s.done, s.tick, s.sending = m, done, tick, true
	if s.replies == "" {
		s.replies = w.nextReplies(i, s.gen)
	}
	n := len(w.inbox) + tokenDigits
	reply, s.replies = s.replies[:n], s.replies[n:]
	return s.gen, reply
}

func (w *Window) nextReplies(i int, gen uint64) string {
	var b strings.Builder
	b.Grow(batch * (len(w.inbox) + tokenDigits))
	for n := range uint64(batch) {
		b.WriteString(w.inbox)
		var token [tokenDigits]byte
		hex(token[:slotDigits], uint64(i))
		hex(token[slotDigits:], gen+n)
		b.Write(token[:])
	}
	return b.String()
}

// Sent ends what put began: the message is not read any more. It returns what has become of it meanwhile.
func (w *Window) Sent(i int) (answer *gonats.Msg, failure error) {
	s := &w.slots[i]
	s.mu.Lock()
	defer s.mu.Unlock()
	answer, failure = s.answer, s.failure
	s.sending, s.answer, s.failure = false, nil, nil
	return answer, failure
}

// Take takes the message of the generation out of slot i, and reports false if somebody has taken it before. Whoever
// takes it owes it its done, and the slot a release. While it is being sent, no goroutine can: then answer or failure
// is kept for whoever sends it.
func (w *Window) Take(i int, gen uint64, answer *gonats.Msg, failure error) (*sink.Message, sink.Done, bool) {
	s := &w.slots[i]
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.m == nil || s.gen&genMask != gen&genMask:
		return nil, nil, false
	case s.sending:
		if s.answer == nil {
			s.answer = answer
		}
		if s.failure == nil {
			s.failure = failure
		}
		return nil, nil, false
	}
	m, done := s.m, s.done
	s.m, s.done = nil, nil
	return m, done, true
}

// Each calls f for every message whose fate is open, in the order of the slots. f must not use the window.
func (w *Window) Each(f func(i int, gen uint64, m *sink.Message, tick uint32)) {
	for i := range w.slots {
		s := &w.slots[i]
		s.mu.Lock()
		if s.m != nil && s.failure == nil {
			f(i, s.gen, s.m, s.tick)
		}
		s.mu.Unlock()
	}
}

// Parse reads slot and generation out of the subject of an answer.
func (w *Window) Parse(subject string) (i int, gen uint64, ok bool) {
	if len(subject) != len(w.inbox)+tokenDigits {
		return 0, 0, false
	}
	token := subject[len(w.inbox):]
	n, ok1 := unhex(token[:slotDigits])
	gen, ok2 := unhex(token[slotDigits:])
	if !ok1 || !ok2 || n >= uint64(len(w.slots)) {
		return 0, 0, false
	}
	return int(n), gen, true
}

// hex fills b with the last digits of n.
func hex(b []byte, n uint64) {
	for i := len(b) - 1; i >= 0; i-- {
		b[i] = "0123456789abcdef"[n&15]
		n >>= 4
	}
}

func unhex(s string) (n uint64, ok bool) {
	for i := range len(s) {
		switch c := s[i]; {
		case '0' <= c && c <= '9':
			n = n<<4 | uint64(c-'0')
		case 'a' <= c && c <= 'f':
			n = n<<4 | uint64(c-'a'+10)
		default:
			return 0, false
		}
	}
	return n, true
}
