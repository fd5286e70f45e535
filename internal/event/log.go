// SPDX-License-Identifier: Apache-2.0

package event

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/kube-eventbridge/kube-eventbridge/sink"
)

// Log is where a broker keeps messages.
type Log interface {
	// Read gives the messages of a part of the log to r.Each. It waits for a broker that is away, and then goes on with
	// the next message. It returns nil when all of that part was read, and an error when ctx ended, when r.Each failed,
	// and when the log can never be read. It is called once.
	Read(ctx context.Context, r Reading) error
	// Before returns the message before m of the same subject or key, nil where there is none and where the log cannot
	// tell. It is called by what Read calls.
	Before(ctx context.Context, m *Message) *Message
}

// Message is a message of the log.
type Message struct {
	sink.Stored
	// Subject is the subject (NATS) or topic (Kafka).
	Subject string
	// Place is where the message is in the log, as a person finds it there, if the sequence alone does not say it.
	Place string
}

// Location returns where a message is in the log, for a person.
func (m *Message) Location() string { return cmp.Or(m.Place, strconv.FormatUint(m.Sequence, 10)) }

// Start says where reading begins. The zero Start is the end of the log: only what is stored from now on.
type Start struct {
	// Beginning begins with the oldest event.
	Beginning bool
	// Time begins with the first event stored at or after it.
	Time time.Time
	// Last begins with the n-th last of the events that are shown.
	Last int
}

// Span is a part of a log.
type Span struct {
	Start Start
	// Until ends the reading before the first event stored at or after it; zero: never.
	Until time.Time
	// Follow goes on at the end of the log, and waits for a log that does not exist. Without it reading ends where the
	// log ended at the start.
	Follow bool
}

// Part says for a person which part of a log is read. Missing says that the log was seen not to exist, so that all of
// it is new.
func (s Span) Part(missing bool) string {
	until := ""
	if !s.Until.IsZero() {
		until = " until " + s.Until.Format(time.RFC3339)
	}
	switch {
	case s.Start.Last == 1:
		return "from the last event that matches" + until
	case s.Start.Last > 0:
		return fmt.Sprintf("from the last %d events that match%s", s.Start.Last, until)
	case !s.Start.Time.IsZero():
		return "from " + s.Start.Time.Format(time.RFC3339) + " on" + until
	case s.Start.Beginning || missing:
		return "from its beginning on" + until
	default:
		return "from now on" + until
	}
}

// Reading is what a [Log] is asked for. All its functions are set; one at a time is called.
type Reading struct {
	Span
	// Each takes the messages over, in the order of the log. Its error ends the reading, and is returned as it is.
	Each func(context.Context, Message) error
	// Counts reports whether a message counts for Start.Last.
	Counts func(Message) bool
	// Replaced says that what follows is of another log, which has taken the place of the one read so far.
	Replaced func()
}
