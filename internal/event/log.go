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

// Bodies reads single messages of a log again. A [Log] that was replaced may have another message at a position that
// was given out before: callers forget positions when they are told so, and check what they get until then.
type Bodies interface {
	// At returns the message at a position that Read has given out; nil without an error if the log does not have it any
	// more. It may be called concurrently, also while Read is. Positions in ascending order are read fastest.
	At(ctx context.Context, position uint64) (*Message, error)
}

// Progress shows users of the broker how far a reader has come. It only measures: nothing is read from there.
type Progress interface {
	// Acknowledge moves the durable consumer or consumer group that the log is configured with up to marks, never back.
	// It returns when that is done, so a caller that goes on reading calls it from a goroutine of its own.
	Acknowledge(ctx context.Context, upTo Marks) error
	// Behind returns how many messages the log has behind marks, at most: those that the reader does not want are
	// counted, and on Kafka those that were compacted away.
	Behind(ctx context.Context, upTo Marks) (uint64, error)
}

// Marks has, for each [Message.Lane], the position of the last message that was taken over.
type Marks map[uint16]uint64

// Take moves the mark of a message's lane to the message, unless it is beyond it.
func (m Marks) Take(taken *Message) { m[taken.Lane] = max(m[taken.Lane], taken.Position) }

// Message is a message of the log.
type Message struct {
	sink.Stored
	// Subject is the subject (NATS) or topic (Kafka).
	Subject string
	// Place is where the message is in the log, as a person finds it there, if the sequence alone does not say it.
	Place string
	// Position says where the message is in its log to [Bodies]. It is opaque, never 0, and valid until the log is closed
	// or replaced. Positions of one lane are in the order of the log.
	Position uint64
	// Lane is the part of the log that has an order: on Kafka each partition is one, a stream has only lane 0.
	Lane uint16
	// Lanes is how many lanes the message's subject has: on Kafka the partitions of its topic.
	Lanes int
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
	// Newest begins with the newest event of each subject, as far as the log can tell which those are, else with the
	// oldest event. Until then is not for it.
	Newest bool
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
	case s.Start.Newest:
		return "from the newest event of each object on" + until
	case !s.Start.Time.IsZero():
		return "from " + s.Start.Time.Format(time.RFC3339) + " on" + until
	case s.Start.Beginning || missing:
		return "from its beginning on" + until
	default:
		return "from now on" + until
	}
}

// Reading is what a [Log] is asked for. All its functions are set, but CaughtUp may be nil; one at a time is called.
type Reading struct {
	Span
	// Each takes the messages over, in the order of the log. Its error ends the reading, and is returned as it is.
	Each func(context.Context, Message) error
	// Copies: a marker that several lanes have is given from each of them, and not from the first alone.
	Copies bool
	// Counts reports whether a message counts for Start.Last.
	Counts func(Message) bool
	// Replaced says that what follows is of another log, which has taken the place of the one read so far.
	Replaced func()
	// CaughtUp is called once when all that the log had when the reading began was given to Each, and once more after
	// each Replaced. A log that does not exist has nothing: CaughtUp is called as soon as that is known, and Replaced when
	// the log comes to exist.
	CaughtUp func()
}
