// SPDX-License-Identifier: Apache-2.0

package nats

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	gonats "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/kube-eventbridge/kube-eventbridge/internal/natsclient"
	"github.com/kube-eventbridge/kube-eventbridge/sink"
	"github.com/kube-eventbridge/kube-eventbridge/sink/nats/header"
)

// lookup is a message that was not stored, and needs the last message of its subject to be settled. Its slot is still
// taken.
type lookup struct {
	slot int
	m    *sink.Message
	done sink.Done
	// cause is the refusal, because another message is the last of the subject; nil where the server recognised the id.
	cause *jetstream.APIError
	// duplicate is the sequence that the server has for the id; 0 where it refused the message.
	duplicate uint64
}

// lookAll works until ctx ends.
func (s *Sink) lookAll(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case l := <-s.lookups:
			rc, err := s.resolve(ctx, l)
			s.finish(l.slot, l.m, l.done, rc, err)
		}
	}
}

// resolve finds out whether the last message of the subject is ours: published before, with its acknowledgement lost.
func (s *Sink) resolve(ctx context.Context, l lookup) (sink.Receipt, error) {
	last, err := s.last(ctx, l.m.Subject)
	if l.duplicate > 0 {
		return s.resolveDuplicate(ctx, l, last, err)
	}
	switch {
	case err != nil:
		return sink.Receipt{}, s.orEnded(ctx, fmt.Errorf("%w; look the last message up: %w", l.cause, err))
	case last != nil && last.ID == l.m.ID:
		s.stats.duplicates.Add(1)
		s.answering.Lock()
		s.acknowledge(mark{last.Sequence, last.ID}, true)
		s.answering.Unlock()
		return sink.Receipt{Sequence: last.Sequence, Duplicate: true}, nil
	case current(last) == l.m.Previous:
		// Another message of the subject was under way, and did not get through.
		return sink.Receipt{}, l.cause
	default:
		s.stats.conflicts.Add(1)
		return sink.Receipt{}, &sink.ConflictError{Last: last}
	}
}

// resolveDuplicate finds out whether a message that the server recognised is the last of its subject.
func (s *Sink) resolveDuplicate(ctx context.Context, l lookup, last *sink.Stored, err error) (sink.Receipt, error) {
	switch {
	case err != nil:
		err = fmt.Errorf("stored already at %d; look the last message up: %w", l.duplicate, err)
		return sink.Receipt{}, s.orEnded(ctx, err)
	case current(last) == l.duplicate:
		s.stats.duplicates.Add(1)
		return sink.Receipt{Sequence: l.duplicate, Duplicate: true}, nil
	default:
		s.stats.conflicts.Add(1)
		return sink.Receipt{}, &sink.ConflictError{Last: last, Duplicate: l.duplicate}
	}
}

func current(last *sink.Stored) uint64 {
	if last == nil {
		return 0
	}
	return last.Sequence
}

// storedMessage is JetStream's answer to a request for a message.
type storedMessage struct {
	Error   *jetstream.APIError `json:"error"`
	Message struct {
		Sequence uint64    `json:"seq"`
		Header   []byte    `json:"hdrs"`
		Data     []byte    `json:"data"`
		Time     time.Time `json:"time"`
	} `json:"message"`
}

// last returns the last message of a subject, nil if there is none.
func (s *Sink) last(ctx context.Context, subject string) (*sink.Stored, error) {
	return s.get(ctx, map[string]any{"last_by_subj": subject})
}

// get returns the message that which says, nil if there is none. It asks the stream's leader, never a replica: that
// may not have yet what the leader refused a message for.
func (s *Sink) get(ctx context.Context, which map[string]any) (*sink.Stored, error) {
	ctx, cancel := s.request(ctx)
	defer cancel()
	query, err := json.Marshal(which)
	if err != nil {
		return nil, err
	}
	reply, err := s.conn.Load().RequestWithContext(ctx, s.api()+".STREAM.MSG.GET."+s.cfg.Stream, query)
	if err != nil {
		return nil, s.unanswered(ctx, err)
	}
	var r storedMessage
	if err := json.Unmarshal(reply.Data, &r); err != nil {
		return nil, err
	}
	switch {
	case r.Error != nil && r.Error.ErrorCode == natsclient.CodeNoMessage:
		return nil, nil
	case r.Error != nil:
		return nil, r.Error
	case r.Message.Sequence == 0:
		return nil, errors.New("the answer has no message")
	}
	st, err := decodeStored(r)
	return &st, err
}

func decodeStored(r storedMessage) (sink.Stored, error) {
	var h gonats.Header
	if len(r.Message.Header) > 0 {
		var err error
		if h, err = gonats.DecodeHeadersMsg(r.Message.Header); err != nil {
			return sink.Stored{}, err
		}
	}
	st := header.Decode(h, r.Message.Data)
	st.Sequence, st.Time = r.Message.Sequence, r.Message.Time
	return st, nil
}

// api is the prefix of JetStream's own subjects.
func (s *Sink) api() string {
	if s.cfg.Domain != "" {
		return "$JS." + s.cfg.Domain + ".API"
	}
	return "$JS.API"
}
