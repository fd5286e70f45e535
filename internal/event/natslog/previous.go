// SPDX-License-Identifier: Apache-2.0

package natslog

import (
	"context"
	"encoding/json"

	"github.com/kube-eventbridge/kube-eventbridge/internal/event"
)

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
