// SPDX-License-Identifier: Apache-2.0

package nats

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	"github.com/kube-eventbridge/kube-eventbridge/checkpoint/internal/codec"
)

// messageCost is what a message costs readers and server besides its bytes, in bytes.
const messageCost = 8 << 10

// replay is what the messages of a checkpoint say, as far as they have been read.
type replay struct {
	content *content
	// sequence is that of the newest message, number and epoch are what it says; 0 where there is none.
	sequence, number, epoch uint64
	// commits counts those that were read, saved is when the newest one was made.
	commits uint64
	saved   time.Time
	// torn is why the content is not what was committed: something is missing. Another base mends it.
	torn error
	// parts are those of a commit of which the last message was not read yet.
	parts []entry
	user  user
	// base is what the base costs, since what all messages behind it do; first is the sequence of the base's first
	// message, oldest that of any.
	base, since   int
	first, oldest uint64
}

// entry is a message as the bucket has it.
type entry struct {
	sequence uint64
	time     time.Time
	message
}

func cost(m *message) int { return messageCost + len(m.body) }

func newReplay() *replay { return &replay{content: newContent()} }

// take takes the next message of the bucket.
func (r *replay) take(found raw) {
	if r.sequence == 0 {
		r.oldest = found.sequence
	}
	m, err := decodeMessage(found.data)
	if err != nil {
		r.skip(found.sequence, err)
		return
	}
	r.add(entry{found.sequence, found.time, m})
}

// add takes the next message. What is wrong with it is remembered, as a base may follow.
func (r *replay) add(e entry) {
	if e.number != r.number+1 {
		r.parts = nil
		r.tear(fmt.Errorf("message %d follows message %d", e.number, r.number))
	}
	r.user.take(&e.message)
	r.sequence, r.number, r.epoch = e.sequence, e.number, e.epoch
	r.since += cost(&e.message)
	switch e.kind {
	case kindWriter:
		r.parts = nil
	case kindPart:
		if e.parts == 0 {
			r.parts = nil
		}
		if e.parts == uint64(len(r.parts)) {
			r.parts = append(r.parts, e)
		}
	case kindCommit:
		r.commit(&e)
	case kindBase:
		r.replace(&e)
	}
}

// skip takes a message that cannot be understood.
func (r *replay) skip(sequence uint64, err error) {
	r.sequence, r.parts = sequence, nil
	r.tear(fmt.Errorf("sequence %d: %w", sequence, err))
}

func (r *replay) tear(err error) {
	if r.torn == nil {
		r.torn = err
	}
}

func (r *replay) commit(e *entry) {
	records, err := r.whole(e)
	if err == nil && r.torn == nil {
		err = r.content.apply(records)
		r.commits++
		r.saved = e.time
	}
	if err != nil {
		r.tear(fmt.Errorf("message %d: %w", e.number, err))
	}
}

func (r *replay) replace(e *entry) {
	first, size := e.sequence, cost(&e.message)
	for i, p := range r.parts {
		if i == 0 {
			first = p.sequence
		}
		size += cost(&p.message)
	}
	records, err := r.whole(e)
	content := newContent()
	if err == nil {
		err = content.apply(records)
	}
	if err != nil {
		r.tear(fmt.Errorf("message %d: %w", e.number, err))
		return
	}
	if r.saved.IsZero() {
		r.saved = e.time // not before
	}
	r.content, r.torn, r.base, r.since, r.first = content, nil, size, 0, first
}

// whole returns the records of the commit that ends with e.
func (r *replay) whole(e *entry) ([]byte, error) {
	parts := r.parts
	r.parts = nil
	if e.parts == 0 {
		return e.body, nil
	}
	if e.parts != uint64(len(parts)) {
		return nil, fmt.Errorf("of its %d parts %d are there", e.parts, len(parts))
	}
	size := len(e.body)
	for _, p := range parts {
		size += len(p.body)
	}
	records := make([]byte, 0, size)
	for _, p := range parts {
		records = append(records, p.body...)
	}
	return append(records, e.body...), nil
}

// admit refuses what is not want's.
func (r *replay) admit(path string, want checkpoint.Identity) error {
	if has := r.content.identity; has != (checkpoint.Identity{}) && has != want {
		return &checkpoint.ForeignError{Path: path, Has: has, Want: want}
	}
	return nil
}

// damage returns what is wrong with all that was read.
func (r *replay) damage(path string) error {
	var unknown codec.UnknownFormat
	switch {
	case r.torn == nil:
		return nil
	case errors.As(r.torn, &unknown):
		return &checkpoint.FormatError{Path: path, Format: strconv.Itoa(int(unknown))}
	default:
		return damaged(path, r.torn)
	}
}
