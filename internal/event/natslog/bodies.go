// SPDX-License-Identifier: Apache-2.0

package natslog

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	gonats "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/kube-eventbridge/kube-eventbridge/internal/event"
	"github.com/kube-eventbridge/kube-eventbridge/internal/natsclient"
)

// At implements [event.Bodies]. Any server that has the stream answers, where the stream allows direct gets; what that
// one does not have, the stream's leader is asked for. Some of At's calls wait for each other, so that a caller with
// many goroutines does not flood the server.
func (l *Log) At(ctx context.Context, position uint64) (*event.Message, error) {
	select {
	case l.gets <- struct{}{}:
		defer func() { <-l.gets }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	ctx, cancel := context.WithTimeout(ctx, askFor)
	defer cancel()
	m, err := l.get(ctx, position)
	if err != nil {
		return nil, fmt.Errorf("read message %d of stream %s at %s: %w", position, l.cfg.Stream, l.servers(), answered(err))
	}
	return m, nil
}

func (l *Log) get(ctx context.Context, sequence uint64) (*event.Message, error) {
	request, err := json.Marshal(struct {
		Sequence uint64 `json:"seq"`
	}{sequence})
	if err != nil {
		return nil, err
	}
	if l.direct.Load() {
		reply, err := l.nc.RequestWithContext(ctx, "$JS.API.DIRECT.GET."+l.cfg.Stream, request)
		switch {
		case errors.Is(err, gonats.ErrNoResponders): // direct gets are not allowed any more
		case err != nil:
			return nil, err
		case reply.Header.Get("Status") == "":
			return directMessage(reply)
		}
	}
	return l.askLeader(ctx, request)
}

// Before implements [event.Log]. It also returns nil where the stream does not answer: a server before 2.11, a stream
// without direct gets, an interruption.
func (l *Log) Before(ctx context.Context, m *event.Message) *event.Message {
	// Up to 0 would mean: up to the end.
	if !l.direct.Load() || m.Sequence <= 1 {
		return nil
	}
	request, err := json.Marshal(struct {
		Subjects []string `json:"multi_last"`
		UpTo     uint64   `json:"up_to_seq"`
	}{[]string{m.Subject}, m.Sequence - 1})
	if err != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, askFor)
	defer cancel()
	reply, err := l.nc.RequestWithContext(ctx, "$JS.API.DIRECT.GET."+l.cfg.Stream, request)
	if err != nil || reply.Header.Get("Status") != "" {
		return nil
	}
	before, err := directMessage(reply)
	if err != nil || before.Sequence >= m.Sequence {
		return nil
	}
	return before
}

// askLeader asks the leader of the stream for a message.
func (l *Log) askLeader(ctx context.Context, request []byte) (*event.Message, error) {
	reply, err := l.nc.RequestWithContext(ctx, "$JS.API.STREAM.MSG.GET."+l.cfg.Stream, request)
	if err != nil {
		return nil, err
	}
	return leaderMessage(reply.Data)
}

// lastOf returns the sequence of the last message of some subjects, all where none is named; 0 if there is none.
func (l *Log) lastOf(ctx context.Context, subjects []string) (last uint64, err error) {
	ctx, cancel := context.WithTimeout(ctx, askFor)
	defer cancel()
	if len(subjects) == 0 {
		subjects = []string{">"}
	}
	for _, subject := range subjects {
		request, err := json.Marshal(struct {
			Subject string `json:"last_by_subj"`
		}{subject})
		if err != nil {
			return 0, err
		}
		m, err := l.askLeader(ctx, request)
		if err != nil {
			return 0, err
		}
		if m != nil {
			last = max(last, m.Sequence)
		}
	}
	return last, nil
}

// directMessage reads the answer to a direct get.
func directMessage(reply *gonats.Msg) (*event.Message, error) {
	sequence, err := strconv.ParseUint(reply.Header.Get(jetstream.SequenceHeader), 10, 64)
	if err != nil {
		return nil, fmt.Errorf("the answer's sequence: %w", err)
	}
	stored, err := time.Parse(time.RFC3339Nano, reply.Header.Get(jetstream.TimeStampHeaer))
	if err != nil {
		return nil, fmt.Errorf("the answer's time: %w", err)
	}
	m := message(reply.Header.Get(jetstream.SubjectHeader), sequence, stored, reply.Header, reply.Data)
	return &m, nil
}

// leaderMessage reads what a stream's leader answers; nil if it does not have the message.
func leaderMessage(answer []byte) (*event.Message, error) {
	var got struct {
		Error   *jetstream.APIError `json:"error"`
		Message *struct {
			Subject  string    `json:"subject"`
			Sequence uint64    `json:"seq"`
			Header   []byte    `json:"hdrs"`
			Data     []byte    `json:"data"`
			Time     time.Time `json:"time"`
		} `json:"message"`
	}
	switch err := json.Unmarshal(answer, &got); {
	case err != nil:
		return nil, err
	case got.Error != nil && got.Error.ErrorCode == natsclient.CodeNoMessage:
		return nil, nil
	case got.Error != nil:
		return nil, got.Error
	case got.Message == nil:
		return nil, errors.New("the answer has no message")
	}
	var h gonats.Header
	if len(got.Message.Header) > 0 {
		var err error
		if h, err = gonats.DecodeHeadersMsg(got.Message.Header); err != nil {
			return nil, err
		}
	}
	m := message(got.Message.Subject, got.Message.Sequence, got.Message.Time, h, got.Message.Data)
	return &m, nil
}
