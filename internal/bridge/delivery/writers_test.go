// SPDX-License-Identifier: Apache-2.0

package delivery

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/kube-eventbridge/kube-eventbridge/encode"
	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge/ledger"
	"github.com/kube-eventbridge/kube-eventbridge/internal/sequence"
	"github.com/kube-eventbridge/kube-eventbridge/sink"
)

// someStream is a stream that has an account and nothing else.
type someStream struct {
	Stream
	account Account
}

func (s *someStream) Account() *Account { return &s.account }

func TestForeign_tells_an_event_of_another_process_from_one_of_this_process(t *testing.T) {
	for name, c := range map[string]struct {
		change func(p *writers, o *Object, has *encode.State, last *sink.Stored)
		want   bool
	}{
		"behind what this process knows": {want: true},
		"an epoch that was not given, at the start": {
			want: true,
			change: func(p *writers, _ *Object, has *encode.State, _ *sink.Stored) {
				p.began, has.Sequence.Epoch = time.Now(), 4
			},
		},
		"at the start, when messages of the process before arrive": {change: func(p *writers, _ *Object, _ *encode.State,
			_ *sink.Stored,
		) {
			p.began = time.Now()
		}},
		"with a lease": {change: func(p *writers, _ *Object, has *encode.State, _ *sink.Stored) {
			p.config.Leased, has.Sequence.Epoch = true, 4
		}},
		"the event itself": {change: func(_ *writers, _ *Object, _ *encode.State, last *sink.Stored) { last.ID = "own" }},
		"not behind it":    {change: func(_ *writers, _ *Object, _ *encode.State, last *sink.Stored) { last.Sequence = 7 }},
		"the first message of the object": {change: func(_ *writers, o *Object, _ *encode.State, _ *sink.Stored) {
			o.Attempt.Message.Previous = 0
		}},
		"published again": {change: func(_ *writers, o *Object, _ *encode.State,
			_ *sink.Stored,
		) {
			o.Attempt.Delta.Again = 1
		}},
		"latest mode": {change: func(_ *writers, o *Object, _ *encode.State,
			_ *sink.Stored,
		) {
			o.Stream.Account().Latest = true
		}},
	} {
		t.Run(name, func(t *testing.T) {
			p := &writers{config: &Config{Epochs: &ledger.Epochs{}}, began: time.Now().Add(-2 * LateFor)}
			p.config.Epochs.Observe(3)
			o := &Object{Stream: &someStream{}}
			o.Attempt.Message = &sink.Message{ID: "own", Previous: 7}
			has, last := &encode.State{Sequence: sequence.Sequence{Epoch: 3}}, &sink.Stored{ID: "other", Sequence: 8}
			if c.change != nil {
				c.change(p, o, has, last)
			}
			assert.Equal(t, c.want, p.foreign(o, has, last))
		})
	}
}
