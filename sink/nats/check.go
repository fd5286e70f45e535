// SPDX-License-Identifier: Apache-2.0

package nats

import (
	"context"
	"errors"
	"fmt"
	"strings"

	gonats "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/kube-eventbridge/kube-eventbridge/internal/natsclient"
	"github.com/kube-eventbridge/kube-eventbridge/sink"
)

// Check says what is wrong with the servers or the stream for a sink of c, without making or changing anything. A
// stream that is missing is not wrong, as the sink creates it. Warnings are what costs something. The error is a
// [*sink.UnusableError] where the stream must not be used, is permanent ([sink.IsPermanent]) where the servers refuse
// what is configured, and else says why that is not known. ctx has to have an end.
func Check(ctx context.Context, c Config) (warnings []string, err error) {
	ctx, js, end, err := ask(ctx, c)
	if err != nil {
		return nil, err
	}
	defer end()
	st, err := js.Stream(ctx, c.Stream)
	switch {
	case errors.Is(err, jetstream.ErrStreamNotFound):
		return nil, creatable(ctx, js, &c)
	case errors.Is(err, gonats.ErrNoResponders):
		return nil, sink.Permanent(fmt.Errorf("%w: %w", natsclient.ErrNoJetStream, err))
	case err != nil:
		return nil, fmt.Errorf("check of stream %s: %w", c.Stream, denied(ctx, err))
	}
	found := st.CachedInfo().Config
	if found.Storage == jetstream.MemoryStorage {
		warnings = append(warnings, "stream "+c.Stream+" is kept in memory: its messages end with the servers")
	}
	if differing, edit := c.Limits.differ(found); differing != "" {
		warnings = append(warnings,
			"stream "+c.Stream+" is not changed to the limits of the file: "+differing+"; to change it: "+edit)
	}
	return warnings, check(found, c.Subjects)
}

// creatable says which stream has the subjects of one that is missing: the sink would not be able to create it. A user
// who may not ask for that may be able to create it nevertheless.
func creatable(ctx context.Context, js jetstream.JetStream, c *Config) error {
	other, err := owner(ctx, js, c.Subjects)
	switch {
	case err != nil && sink.IsPermanent(denied(ctx, err)):
		return nil
	case err != nil:
		return fmt.Errorf("check of the subjects of stream %s: %w", c.Stream, err)
	case other != "":
		return taken(c.Stream, "stream "+other, strings.Join(c.Subjects, ", "))
	default:
		return nil
	}
}

// ask connects for a check. The context that it returns ends when the servers do not permit what is asked, which they
// leave without an answer.
func ask(ctx context.Context, c Config) (asking context.Context, js jetstream.JetStream, end func(), err error) {
	asking, deny := context.WithCancelCause(ctx)
	hear := func(_ *gonats.Conn, _ *gonats.Subscription, err error) {
		if subject, ok := natsclient.DeniedSubject(err.Error()); ok {
			deny(notPermitted(subject, err))
		}
	}
	nc, err := natsclient.Dial(c.Client, gonats.Timeout(connectTimeout), gonats.NoReconnect(), gonats.ErrorHandler(hear))
	if err != nil {
		deny(nil)
		return nil, nil, nil, refusal(err)
	}
	end = func() {
		nc.Close()
		deny(nil)
	}
	if js, err = jetstream.New(nc); err != nil {
		end()
		return nil, nil, nil, err
	}
	return asking, js, end, nil
}

// denied returns what the servers do not permit, if that is why a check has failed, else err.
func denied(asking context.Context, err error) error {
	if cause := context.Cause(asking); sink.IsPermanent(cause) {
		return cause
	}
	return err
}

// refusal marks what no waiting cures.
func refusal(err error) error {
	if natsclient.IsRefusal(err) {
		return sink.Permanent(err)
	}
	return err
}
