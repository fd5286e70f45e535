// SPDX-License-Identifier: Apache-2.0

package nats

import (
	"context"
	"errors"
	"fmt"
	"time"

	gonats "github.com/nats-io/nats.go"

	"github.com/kube-eventbridge/kube-eventbridge/internal/natsclient"
	"github.com/kube-eventbridge/kube-eventbridge/sink"
)

// request returns a context for one request to the broker, which its caller ends. It ends by itself after the
// acknowledgement timeout, and with the connection: the library would wait on for an answer that cannot come.
func (s *Sink) request(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, end := s.call(ctx)
	ctx, cancel := context.WithTimeout(ctx, s.cfg.AckTimeout)
	return ctx, func() { cancel(); end() }
}

// call returns a context that ends with the connection, for what may last.
func (s *Sink) call(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, hangUp := context.WithCancelCause(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lastRequest++
	id := s.lastRequest
	s.requests[id] = hangUp
	return ctx, func() {
		s.mu.Lock()
		delete(s.requests, id)
		s.mu.Unlock()
		hangUp(nil)
	}
}

// hangUp ends the requests under way.
func (s *Sink) hangUp() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, hangUp := range s.requests {
		hangUp(errDisconnected)
	}
}

// unanswered returns the error of a request, or what ended its context if the error is only that it ended.
func (s *Sink) unanswered(ctx context.Context, err error) error {
	if ended := ctx.Err(); ended == nil || !errors.Is(err, ended) {
		return err
	}
	cause := context.Cause(ctx)
	if !errors.Is(cause, context.DeadlineExceeded) {
		return cause
	}
	return s.silence()
}

// silence returns why a request was not answered in time. A server that denies a request does not answer it.
func (s *Sink) silence() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.denied != nil && time.Since(s.deniedAt) < 2*s.cfg.AckTimeout {
		return s.denied
	}
	return fmt.Errorf("no answer within %v", s.cfg.AckTimeout)
}

// complained deals with what the broker says without being asked.
func (s *Sink) complained(nc *gonats.Conn, err error) {
	switch {
	case errors.Is(err, gonats.ErrPermissionViolation):
		s.forbidden(err)
	case nc.IsReconnecting():
		s.explain(err)
	default:
		s.warn(natsclient.Explain(err))
	}
}

// forbidden fails for good what the broker does not permit to publish.
func (s *Sink) forbidden(err error) {
	s.mu.Lock()
	s.denied, s.deniedAt = err, time.Now()
	s.mu.Unlock()
	subject, ok := natsclient.DeniedSubject(err.Error())
	denied := func(m *sink.Message, _ uint32) error {
		if !ok || m.Subject != subject {
			return nil
		}
		return notPermitted(subject, err)
	}
	s.denyKeeps(subject, err)
	if s.failWhere(denied) == 0 {
		s.warn(err)
	}
}

func notPermitted(subject string, err error) error {
	return sink.Permanent(fmt.Errorf("the broker does not permit this user to publish to %s: %w", subject, err))
}
