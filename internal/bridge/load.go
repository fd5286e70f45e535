// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"context"
	"errors"
	"time"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge/health"
	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge/stream"
	"github.com/kube-eventbridge/kube-eventbridge/internal/pause"
)

// firstLoadDelay is between the first two attempts to read the checkpoint.
const firstLoadDelay = 250 * time.Millisecond

// checkpointNews is how often it is logged that the checkpoint cannot be read or saved.
var checkpointNews = health.Intervals{Same: stream.LogEvery, Other: stream.LogEvery}

// load reads the checkpoint, however often that takes. The error is ctx's, or permanent.
func (p *session) load(ctx context.Context) (*checkpoint.State, error) {
	p.loading.Store(true)
	for delay := firstLoadDelay; ; delay = min(2*delay, maxCommitDelay) {
		state, err := p.cfg.Store.Load(ctx)
		switch {
		case err != nil && ctx.Err() != nil:
			return nil, ctx.Err()
		case err == nil, checkpoint.IsPermanent(err):
			p.observeLoad(nil)
			p.loading.Store(false)
			return state, err
		}
		p.observeLoad(err)
		if err := pause.For(ctx, delay); err != nil {
			return nil, err
		}
	}
}

// observeLoad takes note of how reading the checkpoint went, and logs what is news.
func (p *session) observeLoad(err error) {
	switch n, since := p.checkpoint.Observe(err, checkpointNews); n {
	case health.Begins:
		p.log.Warn("waiting for the checkpoint", "err", err)
	case health.Lasts:
		p.log.Warn("still waiting for the checkpoint", "since", since.Format(time.TimeOnly), "err", err)
	case health.Ends:
		p.log.Info("checkpoint answers", "after", time.Since(since).Round(time.Millisecond).String())
	case health.Nothing:
	}
}

// unloaded returns why nothing can begin: the checkpoint is being read. Nil where it is not.
func (p *session) unloaded() error {
	if !p.loading.Load() {
		return nil
	}
	if _, err := p.checkpoint.Problem(); err != nil {
		return err
	}
	return errLoading
}

var errLoading = errors.New("it is being read")
