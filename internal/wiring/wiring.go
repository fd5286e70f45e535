// SPDX-License-Identifier: Apache-2.0

package wiring

import (
	"io"
	"log/slog"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	"github.com/kube-eventbridge/kube-eventbridge/encode"
	"github.com/kube-eventbridge/kube-eventbridge/internal/config"
	"github.com/kube-eventbridge/kube-eventbridge/internal/exit"
	"github.com/kube-eventbridge/kube-eventbridge/sink"
	sinkkafka "github.com/kube-eventbridge/kube-eventbridge/sink/kafka"
	"github.com/kube-eventbridge/kube-eventbridge/sink/nats"
	"github.com/kube-eventbridge/kube-eventbridge/sink/nats/embedded"
	"github.com/kube-eventbridge/kube-eventbridge/sink/stdout"
)

// Wiring makes the parts of pipelines.
type Wiring struct {
	Log *slog.Logger
	// Elected says that a lease decides who publishes.
	Elected bool
	// Out and Format are where and how the sink stdout prints.
	Out    io.Writer
	Format stdout.Format
	// APIServer is its URL, without a user.
	APIServer string
}

// clientID is what brokers log, and meter, connections under.
const clientID = "kube-eventbridge"

// Sink returns what a pipeline publishes to. Server is the embedded one, if it has that. Epoch is as in
// [bridge.Config]. The files of secrets are read.
func (w *Wiring) Sink(
	c *config.Pipeline, id checkpoint.Identity, server *embedded.Server, subject *encode.Template, clock *sinkkafka.Clock,
	epoch func() uint64,
) (sink.Sink, error) {
	if c.Sink.Kafka != nil {
		return w.kafkaSink(c, id, clock, epoch)
	}
	js := JetStream(c)
	if js == nil {
		return stdout.New(w.Out, w.Format, w.Log), nil
	}
	if c.Sink.Embedded != nil {
		n := streamConfig(js, subject)
		n.Client.InProcess, n.Broken = server, server.Err
		return nats.New(n, w.Log)
	}
	n, err := NATSSink(c.Sink.NATS, subject)
	if err != nil {
		return nil, &exit.InputError{Err: err}
	}
	to, err := nats.New(n, w.Log)
	if err != nil {
		return nil, &exit.InputError{Err: err}
	}
	return to, nil
}
