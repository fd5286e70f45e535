// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"

	gonats "github.com/nats-io/nats.go"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	checkpointnats "github.com/kube-eventbridge/kube-eventbridge/checkpoint/nats"
	"github.com/kube-eventbridge/kube-eventbridge/internal/config"
	"github.com/kube-eventbridge/kube-eventbridge/internal/natsclient"
)

// natsCheckpointConfig is that of a pipeline's checkpoint, without a log. It reads the files of secrets.
func natsCheckpointConfig(c *config.Pipeline) (checkpointnats.Config, error) {
	servers, access := c.CheckpointServers()
	to := natsclient.Config{Servers: servers, Name: clientID}
	var err error
	to.Auth, to.TLS, err = accessTo(access)
	return checkpointnats.Config{
		Dial:   func(options ...gonats.Option) (*gonats.Conn, error) { return natsclient.Dial(to, options...) },
		Bucket: c.Checkpoint.NATS.Bucket, Replicas: c.Checkpoint.NATS.Replicas, Patience: openPatience,
	}, err
}

// natsStore returns a checkpoint in a bucket. It is opened when it is read first, so that servers that are away keep no other pipeline from its work.
func (p *process) natsStore(c *config.Pipeline, id checkpoint.Identity) (openStore, error) {
	at, err := natsCheckpointConfig(c)
	if err != nil {
		return nil, &inputError{err}
	}
	at.Log, at.Elected = p.log.With("pipeline", c.Name), p.cfg.LeaderElection != nil
	return lateStoreOf(c, id, func(ctx context.Context) (openStore, error) { return checkpointnats.Open(ctx, at, id) })
}
