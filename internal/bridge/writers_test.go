// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/kube-eventbridge/kube-eventbridge/encode"
	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge/ledger"
	"github.com/kube-eventbridge/kube-eventbridge/internal/sequence"
	"github.com/kube-eventbridge/kube-eventbridge/sink"
)

func TestForeign_tells_an_event_of_another_process_from_one_of_this_process(t *testing.T) {
	for name, c := range map[string]struct {
		change func(p *session, o *object, has *encode.State, last *sink.Stored)
		want   bool
	}{
		"behind what this process knows": {want: true},
		"an epoch that was not given, at the start": {
			want: true,
			change: func(p *session, _ *object, has *encode.State, _ *sink.Stored) {
				p.began, has.Sequence.Epoch = time.Now(), 4
			},
		},
		"at the start, when messages of the process before arrive": {change: func(p *session, _ *object, _ *encode.State,
			_ *sink.Stored,
		) {
			p.began = time.Now()
		}},
		"with a lease": {change: func(p *session, _ *object, has *encode.State, _ *sink.Stored) {
			p.cfg.Term, has.Sequence.Epoch = &Term{}, 4
		}},
		"the event itself": {change: func(_ *session, _ *object, _ *encode.State, last *sink.Stored) { last.ID = "own" }},
		"not behind it":    {change: func(_ *session, _ *object, _ *encode.State, last *sink.Stored) { last.Sequence = 7 }},
		"the first message of the object": {change: func(_ *session, o *object, _ *encode.State, _ *sink.Stored) {
			o.attempt.message.Previous = 0
		}},
		"published again": {change: func(_ *session, o *object, _ *encode.State,
			_ *sink.Stored,
		) {
			o.attempt.delta.Again = 1
		}},
		"latest mode": {change: func(_ *session, o *object, _ *encode.State,
			_ *sink.Stored,
		) {
			o.stream.spec.Latest = true
		}},
	} {
		t.Run(name, func(t *testing.T) {
			p := &session{cfg: &Config{}, epochs: &ledger.Epochs{}, began: time.Now().Add(-2 * lateFor)}
			p.epochs.Observe(3)
			o := &object{stream: &stream{spec: &StreamSpec{}}}
			o.attempt.message = &sink.Message{ID: "own", Previous: 7}
			has, last := &encode.State{Sequence: sequence.Sequence{Epoch: 3}}, &sink.Stored{ID: "other", Sequence: 8}
			if c.change != nil {
				c.change(p, o, has, last)
			}
			assert.Equal(t, c.want, p.foreign(o, has, last))
		})
	}
}
