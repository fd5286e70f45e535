// SPDX-License-Identifier: Apache-2.0

// Package applyloop is what replicate is compared with: a loop that reads the log of a cluster from NATS and has
// kubectl write each event to another cluster. It takes a replica's file, so that whatever breaks replicate can break
// it too. It cleans and marks objects as replicate does, so that one judge judges both.
//
// It does well what such loops do. It reads by a durable consumer, so that it goes on where it was. It acknowledges an
// event when kubectl has written it; what failed comes again. A call of kubectl writes many events. It does not do what
// such loops do not: it does not know whether an object of the target is its own, whether an event is older than what
// it has written, or how much it deletes. Where several run, each takes what comes.
package applyloop

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os/exec"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kube-eventbridge/kube-eventbridge/integration/internal/pause"
	"github.com/kube-eventbridge/kube-eventbridge/internal/event"
	"github.com/kube-eventbridge/kube-eventbridge/internal/replica/clean"
	"github.com/kube-eventbridge/kube-eventbridge/sink/nats/header"
)

const (
	// most is how many events a call of kubectl writes.
	most = 50
	// ackWait is after how long an event comes again that was not acknowledged.
	ackWait = 30 * time.Second
	// retry is after how long an event comes again that kubectl did not write, and a broker is asked again.
	retry = time.Second
)

// Run writes what the log of the file's only replica has, until ctx ends. Kubectl is the program.
func Run(ctx context.Context, file, kubectl string, log *slog.Logger) error {
	cfg, err := load(file)
	if err != nil {
		return err
	}
	rules, err := cfg.rules()
	if err != nil {
		return err
	}
	conn, err := nats.Connect(cfg.from().NATS.Servers[0], nats.MaxReconnects(-1), nats.RetryOnFailedConnect(true))
	if err != nil {
		return fmt.Errorf("connect to the broker: %w", err)
	}
	defer conn.Close()
	js, err := jetstream.New(conn)
	if err != nil {
		return fmt.Errorf("use JetStream: %w", err)
	}
	l := &loop{cfg: cfg, rules: rules, js: js, kubectl: kubectl, log: log}
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return serve(ctx, cfg) })
	g.Go(func() error { l.run(ctx); return nil })
	return g.Wait()
}

// loop has kubectl write what it reads.
type loop struct {
	cfg     *settings
	rules   *clean.Rules
	js      jetstream.JetStream
	kubectl string
	log     *slog.Logger
}

// run goes on until ctx ends, whatever the broker answers.
func (l *loop) run(ctx context.Context) {
	for ctx.Err() == nil {
		if err := l.consume(ctx); err != nil && ctx.Err() == nil {
			l.log.Error("the broker does not answer", "error", err)
			_ = pause.For(ctx, retry) // the loop ends with ctx
		}
	}
}

// consume writes batch after batch.
func (l *loop) consume(ctx context.Context) error {
	consumer, err := l.js.CreateOrUpdateConsumer(ctx, l.cfg.from().NATS.Stream, jetstream.ConsumerConfig{
		Durable: l.cfg.Replicas[0].Name, AckPolicy: jetstream.AckExplicitPolicy, AckWait: ackWait,
	})
	if err != nil {
		return err
	}
	for ctx.Err() == nil {
		batch, err := consumer.Fetch(most, jetstream.FetchMaxWait(retry))
		if err != nil {
			return err
		}
		l.write(ctx, batch.Messages())
		if err := batch.Error(); err != nil {
			return err
		}
	}
	return nil
}

// change is what an event has kubectl do.
type change struct {
	message jetstream.Msg
	verb    string
	object  map[string]any
}

// write writes messages in their order: a call of kubectl has what is next to each other and has one verb.
func (l *loop) write(ctx context.Context, messages <-chan jetstream.Msg) {
	var together []change
	for m := range messages {
		c, err := l.decode(m)
		if err != nil {
			l.log.Error("an event is left out", "error", err)
		}
		if c.verb == "" {
			_ = m.Ack() // what is not acknowledged comes again
			continue
		}
		if len(together) > 0 && together[0].verb != c.verb {
			l.settle(ctx, together)
			together = nil
		}
		together = append(together, c)
	}
	if len(together) > 0 {
		l.settle(ctx, together)
	}
}

// decode returns what an event has kubectl do. It has no verb if that is nothing.
func (l *loop) decode(m jetstream.Msg) (c change, err error) {
	e, err := event.Decode(event.Message{Stored: header.Decode(m.Headers(), m.Data()), Subject: m.Subject()})
	if err != nil {
		return c, err
	}
	c.message = m
	switch e.Op {
	case event.Added, event.Updated:
		c.verb = "apply"
	case event.Deleted:
		c.verb = "delete"
	default:
		return c, nil
	}
	object, _, whole := e.States()
	resource := schema.GroupResource{Group: e.Group, Resource: e.Resource}
	if _, skips := l.rules.Skips(resource, object); skips || !whole || !l.cfg.selects(e) {
		return change{}, nil
	}
	if err := l.rules.Object(resource, object); err != nil {
		return change{}, err
	}
	mark(object, e)
	c.object = object
	return c, nil
}

// mark says what an object was made of, as replicate does.
func mark(object map[string]any, e *event.Event) {
	metadata, _ := object["metadata"].(map[string]any)
	annotations, _ := metadata["annotations"].(map[string]any)
	if annotations == nil {
		annotations = make(map[string]any)
		metadata["annotations"] = annotations
	}
	annotations[clean.Origin] = e.Attr("partitionkey")
	annotations[clean.OriginUID] = e.Attr("objectuid")
	annotations[clean.OriginSequence] = e.Attr("sequence")
}

// settle has kubectl make changes, and acknowledges them if it has.
func (l *loop) settle(ctx context.Context, changes []change) {
	err := l.call(ctx, changes)
	if err != nil && ctx.Err() == nil {
		l.log.Error("kubectl fails", "error", err)
	}
	for _, c := range changes {
		if err != nil {
			_ = c.message.NakWithDelay(retry) // else it comes again later
		} else {
			_ = c.message.Ack() // else it comes again
		}
	}
}

// call calls kubectl with changes of one verb.
func (l *loop) call(ctx context.Context, changes []change) error {
	args := []string{"--kubeconfig", l.cfg.Kubernetes.Kubeconfig, changes[0].verb, "-f", "-"}
	if changes[0].verb == "delete" {
		args = append(args, "--ignore-not-found", "--wait=false")
	}
	var in, said bytes.Buffer
	for _, c := range changes {
		if err := json.NewEncoder(&in).Encode(c.object); err != nil {
			return err
		}
	}
	cmd := exec.CommandContext(ctx, l.kubectl, args...)
	cmd.Stdin, cmd.Stderr = &in, &said
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: %w: %s", changes[0].verb, err, strings.TrimSpace(said.String()))
	}
	return nil
}
