// SPDX-License-Identifier: Apache-2.0

package preflight

import (
	"context"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	checkpointnats "github.com/kube-eventbridge/kube-eventbridge/checkpoint/nats"
	"github.com/kube-eventbridge/kube-eventbridge/internal/config"
	"github.com/kube-eventbridge/kube-eventbridge/internal/wiring"
)

// checkBucket asks about a checkpoint in NATS, unless its servers have just given no answer.
func (c *checkup) checkBucket(ctx context.Context, path string, p *config.Pipeline, answered bool) {
	if p.Checkpoint.NATS == nil || len(p.Checkpoint.NATS.Servers) == 0 && !answered {
		return
	}
	keep, err := wiring.NATSCheckpoint(p)
	c.checkCheckpoint(ctx, path+".checkpoint.nats", err,
		func(ctx context.Context) error { return checkpointnats.Check(ctx, keep) })
}

// checkCheckpoint asks a broker about the checkpoint at path, unless its configuration is wrong.
func (c *checkup) checkCheckpoint(ctx context.Context, path string, wrong error, ask func(context.Context) error) {
	if wrong != nil {
		add(&c.Problems, path, "%v", wrong)
		return
	}
	ctx, cancel := context.WithTimeout(ctx, wiring.AskFor)
	defer cancel()
	switch err := ask(ctx); {
	case checkpoint.IsPermanent(err):
		add(&c.Problems, path, "%v", err)
	case err != nil:
		add(&c.Unreached, path, "%v", err)
	}
}
