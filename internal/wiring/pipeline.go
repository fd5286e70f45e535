// SPDX-License-Identifier: Apache-2.0

package wiring

import (
	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge"
	"github.com/kube-eventbridge/kube-eventbridge/internal/config"
	"github.com/kube-eventbridge/kube-eventbridge/source"
)

// Pipeline returns what a configuration says of a pipeline. Its parts are left out: streams, sink, checkpoint, and what
// reads the cluster.
func Pipeline(cfg *config.Config, c *config.Pipeline, id checkpoint.Identity) bridge.Config {
	b := bridge.Config{
		Name:         c.Name,
		Target:       target(c, id),
		Identity:     id,
		Buffer:       int64(cfg.BufferShare(c)),
		Recovery:     recovery(c.Recovery),
		Audit:        c.Audit.Interval,
		StopOnReject: c.OnReject == config.OnRejectStop,
		Oversize:     oversize(c.Oversize),
		Unfenced:     unfenced(&c.Sink),
	}
	for i := range cfg.Pipelines {
		b.Siblings = append(b.Siblings, cfg.Pipelines[i].Name)
	}
	return b
}

// target names what a pipeline publishes to.
func target(c *config.Pipeline, id checkpoint.Identity) string {
	if c.Sink.Kafka != nil {
		return "topic " + TopicsOf(c.Sink.Kafka, id)
	}
	if js := JetStream(c); js != nil {
		return "stream " + js.Stream
	}
	return "standard output"
}

// unfenced reports whether the broker is not to check what each event follows.
func unfenced(s *config.Sink) bool {
	return s.NATS != nil && !s.NATS.Fence || s.Embedded != nil && !s.Embedded.Fence
}

func oversize(o config.Oversize) bridge.Oversize {
	switch o {
	case config.OversizeMetadata:
		return bridge.ReduceOversize
	case config.OversizeStore:
		return bridge.StoreOversize
	default:
		return bridge.RejectOversize
	}
}

func recovery(c config.Recovery) source.Recovery {
	if !c.Enabled {
		return source.Recovery{}
	}
	return source.Recovery{Reads: c.MaxReads, Time: c.MaxTime}
}
