// SPDX-License-Identifier: Apache-2.0

package natslog

import (
	"context"
	"encoding/json"
	"strconv"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/kube-eventbridge/kube-eventbridge/internal/event"
)

// Before implements [event.Log]. It also returns nil where the stream does not answer: a server before 2.11, a stream
// without direct gets, an interruption.
func (l *Log) Before(ctx context.Context, m *event.Message) *event.Message {
	// Up to 0 would mean: up to the end.
	if !l.direct || m.Sequence <= 1 {
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
	found, err := strconv.ParseUint(reply.Header.Get(jetstream.SequenceHeader), 10, 64)
	if err != nil || found >= m.Sequence {
		return nil
	}
	stored, err := time.Parse(time.RFC3339Nano, reply.Header.Get(jetstream.TimeStampHeaer))
	if err != nil {
		return nil
	}
	before := message(m.Subject, found, stored, reply.Header, reply.Data)
	return &before
}
