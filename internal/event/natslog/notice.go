// SPDX-License-Identifier: Apache-2.0

package natslog

import (
	"context"
	"errors"
	"fmt"

	gonats "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/kube-eventbridge/kube-eventbridge/internal/natsclient"
)

// interrupted gives notice of why nothing is read, once for each reason in a row.
func (r *reader) interrupted(err error) {
	var notice string
	switch {
	case errors.Is(err, errMissed) && r.nc.IsConnected():
		return // nothing is lost, unless the next look at the stream says so
	case !r.nc.IsConnected() || errors.Is(err, context.Canceled):
		notice = "no connection to " + r.servers() + ", trying again until there is one"
		if !r.begun {
			notice += "; is the NATS server, or the bridge that contains it, running there?"
		}
	case errors.Is(err, jetstream.ErrStreamNotFound):
		notice = fmt.Sprintf("there is no stream %q yet, waiting for it", r.cfg.Stream)
		r.missing = true
	case errors.Is(err, context.DeadlineExceeded) || errors.Is(err, gonats.ErrTimeout):
		notice = fmt.Sprintf("no answer about stream %q from %s, trying again", r.cfg.Stream, r.servers())
	default:
		notice = fmt.Sprintf("reading stream %q failed, trying again: %v", r.cfg.Stream, answered(err))
	}
	if notice != r.waiting {
		r.waiting = notice
		r.cfg.Notice(notice)
	}
}

// answered says what to look at where a broker has no JetStream.
func answered(err error) error {
	if errors.Is(err, gonats.ErrNoResponders) || errors.Is(err, jetstream.ErrJetStreamNotEnabled) ||
		errors.Is(err, jetstream.ErrJetStreamNotEnabledForAccount) {
		return fmt.Errorf("%w: %w", natsclient.ErrNoJetStream, err)
	}
	return err
}

// reads gives notice that messages are asked for: at first where one follows, and after what it gave notice of.
func (r *reader) reads() {
	switch {
	case !r.begun && r.Follow:
		r.cfg.Notice(fmt.Sprintf("reading stream %s at %s %s; ^C ends it", r.cfg.Stream, r.servers(), r.Part(r.missing)))
	case r.waiting != "":
		r.cfg.Notice(fmt.Sprintf("reading stream %s at %s again", r.cfg.Stream, r.servers()))
	}
	r.begun, r.waiting = true, ""
}
