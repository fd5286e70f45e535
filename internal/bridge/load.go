// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	"github.com/kube-eventbridge/kube-eventbridge/internal/pause"
)

// firstLoadDelay is between the first two attempts to read the checkpoint.
const firstLoadDelay = 250 * time.Millisecond

// load reads the checkpoint, however often that takes. The error is ctx's, or permanent.
func (p *session) load(ctx context.Context) (*checkpoint.State, error) {
	p.loading.begin()
	for delay := firstLoadDelay; ; delay = min(2*delay, maxCommitDelay) {
		state, err := p.cfg.Store.Load(ctx)
		switch {
		case err != nil && ctx.Err() != nil:
			return nil, ctx.Err()
		case err == nil, checkpoint.IsPermanent(err):
			p.loading.end(p.log)
			return state, err
		}
		p.loading.failed(p.log, err)
		if err := pause.For(ctx, delay); err != nil {
			return nil, err
		}
	}
}

var errLoading = errors.New("it is being read")

// loading is how reading the checkpoint is doing.
type loading struct {
	mu sync.Mutex
	// err is why nothing can begin yet, nil while the checkpoint is not being read.
	err error
	// failing and told are when it failed first, and when that was logged last; zero where it has not.
	failing, told time.Time
}

func (l *loading) begin() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.err, l.failing, l.told = errLoading, time.Time{}, time.Time{}
}

// failed takes note of an attempt, and logs the first, and one that was long after the last that was logged.
func (l *loading) failed(log *slog.Logger, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.err = err
	now := time.Now()
	switch {
	case l.failing.IsZero():
		l.failing, l.told = now, now
		log.Warn("waiting for the checkpoint", "err", err)
	case now.Sub(l.told) >= logEvery:
		l.told = now
		log.Warn("still waiting for the checkpoint", "since", l.failing.Format(time.TimeOnly), "err", err)
	}
}

func (l *loading) end(log *slog.Logger) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.failing.IsZero() {
		log.Info("checkpoint answers", "after", time.Since(l.failing).Round(time.Millisecond).String())
	}
	l.err = nil
}

// problem returns what keeps the checkpoint from being there.
func (l *loading) problem() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}
