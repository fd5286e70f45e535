// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge"
	"github.com/kube-eventbridge/kube-eventbridge/internal/config"
)

// note looks which pipelines have ended. The error says that nothing may go on: no pipeline does, another process
// leads, or the API server shows at the start that the configuration is wrong.
func (f *fleet) note() error {
	var ended []*member
	for _, m := range f.members {
		if m.ended || !m.over() || m.err == nil {
			continue
		}
		var wrong *bridge.SpecError
		if m.first && errors.As(m.err, &wrong) || f.term != nil && checkpoint.IsTaken(m.err) {
			return m.err
		}
		ended = append(ended, m)
	}
	if err := f.allEnded(); err != nil {
		return err
	}
	for _, m := range ended {
		f.end(m)
	}
	return nil
}

// over reports whether a member does not run, so that err can be read.
func (m *member) over() bool {
	if m.done == nil {
		return true
	}
	select {
	case <-m.done:
		return true
	default:
		return false
	}
}

// end tells that a member has ended, and has it tried again later.
func (f *fleet) end(m *member) {
	m.ended = true
	if m.stop != nil {
		m.stop()
	}
	if m.store != nil {
		if err := m.store.Close(); err != nil {
			f.process.log.Error("a checkpoint cannot be closed", "pipeline", m.cfg.Name, "err", err)
		}
		m.store = nil
	}
	if m.pipeline == nil {
		m.pipeline = bridge.New(m.cfg)
	}
	if !m.began.IsZero() && time.Since(m.began) > f.maxRetryDelay {
		m.delay = 0 // it ran well for a while
	}
	m.delay = min(max(2*m.delay, f.retryDelay), f.maxRetryDelay)
	m.again = time.Now().Add(m.delay)
	m.pipeline.End(m.err)
	f.process.log.Error("a pipeline has ended; the others go on", "pipeline", m.cfg.Name, "again in", m.delay.String(),
		"err", m.err)
}

// nextTry fires when a pipeline that has ended is to be tried again.
func (f *fleet) nextTry() <-chan time.Time {
	var next time.Time
	for _, m := range f.members {
		if m.ended && (next.IsZero() || m.again.Before(next)) {
			next = m.again
		}
	}
	if next.IsZero() {
		return nil
	}
	return time.After(time.Until(next))
}

// retry begins the pipelines again whose time it is.
func (f *fleet) retry(ctx context.Context) {
	for at, m := range f.members {
		if !m.ended || time.Now().Before(m.again) {
			continue
		}
		i := slices.IndexFunc(f.cfg.Pipelines, func(c config.Pipeline) bool { return c.Name == m.cfg.Name })
		next, err := f.build(f.cfg, i, f.broker, nil)
		if err != nil {
			m.err = err
			f.end(m)
			continue
		}
		next.delay = m.delay
		f.members[at] = next
		f.process.log.Info("a pipeline that had ended begins again", "pipeline", m.cfg.Name)
		f.begin(ctx, next)
	}
	f.tell()
}
