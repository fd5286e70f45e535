// SPDX-License-Identifier: Apache-2.0

package delivery

import (
	"time"

	"golang.org/x/time/rate"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	"github.com/kube-eventbridge/kube-eventbridge/encode"
	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge/health"
	"github.com/kube-eventbridge/kube-eventbridge/sink"
	"github.com/kube-eventbridge/kube-eventbridge/source"
)

// Stream is where an object comes from, and what it comes back to. An object belongs to the caller of its methods.
type Stream interface {
	// Account returns what is counted and said of the stream.
	Account() *Account
	// Take makes the oldest pending change of an object its attempt, unless one is under way.
	Take(o *Object)
	// Due says what becomes of an attempt's change, behind the row that is known of its object.
	Due(o *Object) (row checkpoint.Row, fate Fate)
	// Encode fills the attempt's message, and says what the sink has to check. Where the change cannot be encoded it
	// returns why, and the message is a rejection.
	Encode(o *Object, row checkpoint.Row) error
	// Data returns the data of an event of a change.
	Data(c *source.Change) ([]byte, error)
	// Found takes note of what the log was seen to have last of an object.
	Found(o *Object, has *encode.State, at uint64)
	// PassOver takes note that a state is not published, because the log has it at a place.
	PassOver(place uint64)
	// Published counts an attempt that the broker has acknowledged.
	Published(a *Attempt, now time.Time)
	// Separable reports whether an event that is too large may not be so without what was before.
	Separable(a *Attempt, err error) bool
	// SetAside records an object as refused; false if no more may be.
	SetAside(o *Object, err error) bool
	// Finish ends an attempt, and reports whether another change is pending, for which it has added the object to the
	// queue. Place is where the object's last event now is in the log, if it moves; r is the broker's last word.
	Finish(o *Object, place checkpoint.Row, moves bool, r sink.Receipt) (more bool)
	// Settle closes a ticket.
	Settle(ticket source.Ticket)
}

// Fate is what becomes of a change.
type Fate uint8

// The fates.
const (
	// Publish it behind the row.
	Publish Fate = iota
	// Remember it in the row's place, and publish nothing.
	Remember
	// Leave it.
	Leave
)

// Account is what is counted of a stream, and what has happened to it.
type Account struct {
	Name      string
	Metrics   *health.Stream
	Incidents *health.StreamIncidents
	Rate      health.Rate
	// Latest: messages that are late have ids of their own.
	Latest bool
	often  often
}

// often limits how often a stream says each of what may be true of every event.
type often struct{ unencodable, contested, rejected, refused, oversized, unkept rate.Sometimes }

// SayEvery has the delivery say of the stream once in an interval what may be true of every event.
func (a *Account) SayEvery(interval time.Duration) {
	o := &a.often
	for _, s := range []*rate.Sometimes{
		&o.unencodable, &o.contested, &o.rejected, &o.refused, &o.oversized, &o.unkept,
	} {
		s.Interval = interval
	}
}
