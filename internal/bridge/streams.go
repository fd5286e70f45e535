// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"context"
	"errors"
	"time"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge/ledger"
	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge/stream"
	"github.com/kube-eventbridge/kube-eventbridge/sink"
	"github.com/kube-eventbridge/kube-eventbridge/source"
)

// forStreams is what the streams of a session need of it.
type forStreams struct{ *session }

// newEnvironment returns what the streams of a session have in common.
func newEnvironment(p *session) *stream.Environment {
	c := p.cfg
	return &stream.Environment{
		Session: forStreams{p}, Pipeline: c.Name, Log: c.Log, Client: c.Client, Watches: c.Watches, Recovery: c.Recovery,
		Audit: c.Audit, ResyncRate: c.ResyncRate, PrimeTime: stream.PrimeTime, Checks: !c.Unfenced || c.Term != nil,
		Refresh: func() { c.Catalog.Refresh() }, Budget: p.budget, Delivery: p.delivery, Epochs: p.epochs,
	}
}

// Save implements Session.
func (p forStreams) Save(ctx context.Context) error { return p.save(ctx) }

// Exclusive implements Session.
func (p forStreams) Exclusive(f func()) {
	p.committing.Lock()
	defer p.committing.Unlock()
	f()
}

// Fenced implements Session.
func (p forStreams) Fenced() bool { return p.fenced }

// Interrupt implements Session.
func (p forStreams) Interrupt() {
	p.fail(&sink.InterruptedError{Target: p.cfg.Target, Cause: errNotGiven})
}

var errNotGiven = errors.New("the log has an epoch that the checkpoint has not given")

// Share implements Session. It is how much each stream may hold of deleted objects when all together hold half of the
// limit or more: with those that hold most they take the limit then.
func (p forStreams) Share() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.budget.Limit() / 2 / int64(max(len(p.streams), 1))
}

// NextResync implements Session. It returns a number for a resync or a repair: the one that is asked for, unless it was
// used. It is durable with the next commit, which precedes its first use. The caller holds committing.
func (p forStreams) NextResync(asked int64) int64 {
	if asked <= p.logged.Resyncs {
		asked = max(p.logged.Resyncs+1, time.Now().Unix())
	}
	p.logged.Resyncs, p.unlogged = asked, true
	return p.logged.Resyncs
}

// Restored implements Session. It gives all other streams the epoch too, those that do not run now included: etcd was
// restored, and not every stream shows that. The caller holds committing, and no stream's mu.
func (p forStreams) Restored(s *stream.Stream, epoch uint64, cause *source.RewoundError) {
	p.mu.Lock()
	defer p.mu.Unlock()
	why := s.Epochs.Why(cause)
	open := map[string]bool{}
	for _, other := range p.streams {
		open[other.Name] = true
		if other != s {
			other.Epochs.Restored(epoch, why, cause)
		}
	}
	for name, saved := range p.state.Streams {
		if open[name] || saved.Epoch >= epoch {
			continue
		}
		if !saved.Alone {
			ledger.BeginEpoch(&saved, epoch, saved.Position, why)
			saved.Position = ""
		}
		saved.Alone = false
		p.state.Streams[name] = saved
		p.unopenedChanged(name, saved)
	}
}

// unopenedChanged has what is known of a stream that is not open saved with the next commit. The caller holds
// committing.
func (p *session) unopenedChanged(name string, saved checkpoint.Stream) {
	if p.unopenedSaved == nil {
		p.unopenedSaved = map[string]checkpoint.Stream{}
	}
	p.unopenedSaved[name] = saved
}
