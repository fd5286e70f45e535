// SPDX-License-Identifier: Apache-2.0

package wiring

import (
	"fmt"
	"slices"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	"github.com/kube-eventbridge/kube-eventbridge/encode/jsonscan"
	"github.com/kube-eventbridge/kube-eventbridge/encode/redact"
	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge"
	"github.com/kube-eventbridge/kube-eventbridge/internal/config"
	"github.com/kube-eventbridge/kube-eventbridge/internal/exit"
	"github.com/kube-eventbridge/kube-eventbridge/source/reader"
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
		return "topic " + TopicsOf(c.Sink.Kafka.Topic, id)
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

func recovery(c config.Recovery) reader.Recovery {
	if !c.Enabled {
		return reader.Recovery{}
	}
	return reader.Recovery{Reads: c.MaxReads, Time: c.MaxTime}
}

// secretHashes returns how a pipeline shows that a Secret's value changed; nil if it does not. It reads the file of the
// key.
func secretHashes(c *config.Pipeline) (*redact.Hashes, error) {
	key, err := c.Encoding.Secrets.HashKey()
	if err != nil {
		return nil, &exit.InputError{Err: fmt.Errorf("pipeline %s: %w", c.Name, err)}
	}
	if key == nil {
		return nil, nil
	}
	return redact.NewHashes(key), nil
}

// paths parses lists of paths.
func paths(lists ...[]string) ([]jsonscan.Path, error) {
	var all []jsonscan.Path
	for _, s := range slices.Concat(lists...) {
		p, err := jsonscan.ParsePath(s)
		if err != nil {
			return nil, err
		}
		all = append(all, p)
	}
	return all, nil
}
