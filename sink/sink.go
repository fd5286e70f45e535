// SPDX-License-Identifier: Apache-2.0

// Package sink defines what it means to have delivered a message.
//
// Delivery is at least once as seen from here: after a retry or a restart a message may be handed to the broker
// again, with the same id and the same bytes. What makes the log effectively free of duplicates is that the broker, or
// the check of the last message of a key, recognises it.
package sink

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Attribute is one CloudEvents attribute: a lower-case name without a binding's prefix, and its value as plain text.
type Attribute struct{ Name, Value string }

// Integer reports whether the attribute is an integer: CloudEvents' JSON format has such a one as a number.
func (a Attribute) Integer() bool {
	switch a.Name {
	case "datasize", "sampledrate", "writerterm":
		return true
	default:
		return false
	}
}

// Message is what a broker is given. The sink adds its protocol's binding: header prefixes and escaping.
//
// A Message belongs to the sink from Publish until its done function is called; it is not changed meanwhile.
type Message struct {
	// Subject is the rendered subject (NATS) or topic (Kafka).
	Subject string
	// Key is the partition key; equal to the attribute partitionkey.
	Key string
	// ID is what the broker recognises a repetition by. It is the same whenever the same event is published.
	ID string
	// Attributes are the context attributes of binary mode; empty in structured mode.
	Attributes []Attribute
	// ContentType is application/json in binary mode, application/cloudevents+json in structured mode.
	ContentType string
	Data        []byte

	// Verify asks the sink to publish only if the last message of the key's subject is still the one at Previous
	// (0: none). A sink that cannot check ignores it. After an ambiguous failure a sink verifies unasked.
	Verify   bool
	Previous uint64
	// Shared says that the subject carries messages of other keys too, so that nothing can be verified.
	Shared bool
	// Everywhere asks for the message in each partition: whoever reads one of them reads it. That of the key gets it
	// last, when all others have it, and the receipt is of that one.
	Everywhere bool
	// Last says that nothing is true of the key's object any more: it is gone.
	Last bool
}

// Receipt is the broker's answer: where the message stands in the log.
type Receipt struct {
	// Sequence is the message's place in its stream or partition, from 1; 0 where the sink has no such thing.
	Sequence uint64
	// Partition is the Kafka partition, 0 elsewhere.
	Partition int32
	// Duplicate says that the broker had the message already: as the last of its subject, unless the message is Shared
	// or Everywhere.
	Duplicate bool
}

// Done is told the fate of a message, exactly once for each Publish, from any goroutine. It must not block and must
// not call Publish.
type Done func(Receipt, error)

// Publisher hands messages to a broker.
type Publisher interface {
	// Publish takes m over. It blocks while too many messages are unacknowledged, and returns before m is
	// acknowledged; done is called once, possibly before Publish returns, also when ctx ends while it waits.
	//
	// The error given to done is nil when the broker has the message for good, a [*ConflictError] when Verify found
	// another message, one for which [IsPermanent] holds when the broker will never take m, and [IsTooLarge] where that
	// is for its size, and else a failure after which it is not known whether the broker has the message: it must be
	// published again, unchanged.
	//
	// A nil error also says that m is the last message of its subject, unless m is Shared or Everywhere. A broker that
	// recognises ids stores no message whose id it knows, also if another one was stored behind it. That is a
	// [*ConflictError] too, and the caller decides what the log has to be told.
	//
	// Messages of different keys may be stored in any order. A caller that wants an order has one unacknowledged
	// message at a time.
	Publish(ctx context.Context, m *Message, done Done)
}

// Sink is a broker's side of the bridge. Publish may be called while Run runs, and calls done with an error otherwise.
type Sink interface {
	Publisher
	// Run connects, checks or creates what the sink publishes to, and serves until ctx ends; it waits for a broker
	// that is away. It returns nil when ctx ended, and an error only for what must not be used: see [UnusableError]; or
	// for a log that went back behind what it had acknowledged in this run or what Bounds told of it, or was recreated:
	// a [*RewoundError]. A sink looks before it publishes on a new connection, and every few seconds besides: so long
	// may messages go to a log that was recreated on an open connection. When Run has returned every done function has
	// been called and no goroutine of the sink is left.
	Run(ctx context.Context) error
	// Ready reports whether the broker is reachable now: nil, or why not.
	Ready() error
}

// Log is what a sink has published, for the process that publishes it. A [Sink] whose messages can be read back is one
// too. Its methods may be called while Run runs; they wait for a broker that is away, and fail only when ctx or Run
// ends or f does, or with an [*UnusableError] where the broker's limits forbid reading.
type Log interface {
	// Bounds returns what the log has. Where a replicated log ends before what is expected, by partition, it is asked
	// again for a while, since a replica that was left behind may have answered.
	Bounds(ctx context.Context, expected map[int32]uint64) (LogBounds, error)
	// At returns the message at a place, whosesoever it is, without its data but for structured events; nil if there is
	// none, or none any more.
	At(ctx context.Context, partition int32, sequence uint64) (*Stored, error)
	// Read calls f, from one goroutine, for the messages under the sink's own subjects or topics that q asks for, in
	// the order of each partition, up to the last that is there when Read is called. Messages that the broker removes
	// meanwhile may be missing. A message that was to be Everywhere is given once, and only if it is; where the log has
	// lost copies of it, or got more partitions since, it may be missing. Others may publish under the same subjects:
	// whose a message is, its attributes say.
	Read(ctx context.Context, q Query, f func(*Stored) error) error
}

// LogBounds are the bounds of a log.
type LogBounds struct {
	// ID is another one when the log is recreated under its name.
	ID string
	// Partitions are those of each partition, by its number. A log without partitions has the partition 0.
	Partitions map[int32]Bounds
	// Fenced says that no message of an older process can follow the first one of this process.
	Fenced bool
	// Indexed says that the last message of each key is found without reading the others: [Query].LastOfKey costs as
	// much as there are keys.
	Indexed bool
}

// Bounds are the sequences of the oldest and the newest message of a partition. If there is no message, First is
// Last+1.
type Bounds struct{ First, Last uint64 }

// Query says which messages of a log to read.
type Query struct {
	// After is the sequence, by partition, that the messages come after; 0 for a partition that is not named.
	After map[int32]uint64
	// LastOfKey asks for the last message of each subject (NATS) or key (Kafka) only. Where the sink cannot select
	// them, it reads all: the last of a key that f is called with is the last.
	LastOfKey bool
	// Subjects, if any, asks for the messages of these subjects only. A sink that has no subjects reads all.
	Subjects []string
	// Data asks for the messages' data. Without it the sink may leave them empty, but for structured events.
	Data bool
}

// RewoundError says that a log has lost messages that its broker had acknowledged: it was restored from an older copy,
// or recreated. Acknowledgements from before do not hold any more.
type RewoundError struct {
	Target string
	// Acknowledged is the sequence of the last message that was acknowledged, or that Bounds told of, Last that of the
	// last one that is there.
	Acknowledged, Last uint64
}

// Error implements error.
func (e *RewoundError) Error() string {
	return fmt.Sprintf(
		"%s has lost acknowledged messages: it acknowledged %d, and what it has ends at %d, or is something else there",
		e.Target, e.Acknowledged, e.Last)
}

// InterruptedError says that it is not known, and no repetition finds out, whether the log has what was under way: a
// new sink reads the log back before it publishes again.
type InterruptedError struct {
	Target string
	Cause  error
}

// Error implements error.
func (e *InterruptedError) Error() string {
	return fmt.Sprintf("%s may have what was published last, or not: %v", e.Target, e.Cause)
}

// Unwrap returns the cause.
func (e *InterruptedError) Unwrap() error { return e.Cause }

// Stored is a message as the log has it.
type Stored struct {
	Sequence  uint64
	Partition int32
	// Subject is the message's; empty where the sink has none.
	Subject     string
	ID          string
	Attributes  []Attribute
	ContentType string
	Data        []byte
	Time        time.Time
	// Epoch is the highest epoch that the pipeline had given, where the message says that a writer has started; else 0.
	// Read and At fill it in without being asked for data. Which pipeline that is, the attributes say.
	Epoch uint64
}

// ConflictError says that the last message of the key is not the expected one, and that nothing was stored.
type ConflictError struct {
	// Last is that message; nil where there is none.
	Last *Stored
	// Duplicate is the sequence at which the log has, or had, a message with the same id; 0 where it was not that. The
	// broker stores nothing under this id while it remembers it.
	Duplicate uint64
}

// Error implements error.
func (e *ConflictError) Error() string {
	last := "the log has no message of this key"
	if e.Last != nil {
		last = fmt.Sprintf("the log's last message of this key is %s at %d", e.Last.ID, e.Last.Sequence)
	}
	if e.Duplicate > 0 {
		return fmt.Sprintf("%s, and the broker stores nothing under this id again, which it knows from %d", last, e.Duplicate)
	}
	return last + ", another one was expected"
}

// UnusableError says that a broker's stream or topic must not be used, and what to do about it.
type UnusableError struct {
	Target, Reason, Advice string
	// Overtaken: another writer has taken this one's place.
	Overtaken bool
	// Cause is the error that told; it may be nil.
	Cause error
}

// Unwrap returns the cause.
func (e *UnusableError) Unwrap() error { return e.Cause }

// Taken reports whether another writer has taken this one's place.
func (e *UnusableError) Taken() bool { return e.Overtaken }

// Error implements error.
func (e *UnusableError) Error() string {
	return fmt.Sprintf("%s cannot be used: %s; %s", e.Target, e.Reason, e.Advice)
}

// Keeper is a [Sink] that can keep what is too large for a message.
type Keeper interface {
	// Keep stores data under a name, and returns a URI reference by which a consumer of the log finds it. What is there
	// already under the name, and is the same, is left as it is. It makes one attempt, which ends with ctx and may be
	// made again; an error for which [IsPermanent] holds says that data will never be kept. It may be called while Run
	// runs, and fails otherwise.
	Keep(ctx context.Context, name string, data []byte) (ref string, err error)
}

type permanentError struct{ err error }

func (e *permanentError) Error() string { return e.err.Error() }
func (e *permanentError) Unwrap() error { return e.err }

// Permanent marks err as one that repeating the same message cannot cure.
func Permanent(err error) error {
	if err == nil {
		return nil
	}
	return &permanentError{err}
}

// TooLarge is [Permanent] where the reason is that the message has more bytes than the broker takes: a smaller one
// might be taken.
func TooLarge(err error) error {
	if err == nil {
		return nil
	}
	return Permanent(&tooLargeError{err})
}

type tooLargeError struct{ err error }

func (e *tooLargeError) Error() string { return e.err.Error() }
func (e *tooLargeError) Unwrap() error { return e.err }

// IsTooLarge reports whether err was marked by [TooLarge].
func IsTooLarge(err error) bool {
	var l *tooLargeError
	return errors.As(err, &l)
}

// IsPermanent reports whether err was marked by [Permanent].
func IsPermanent(err error) bool {
	var p *permanentError
	return errors.As(err, &p)
}
