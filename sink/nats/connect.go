// SPDX-License-Identifier: Apache-2.0

package nats

import (
	"context"
	"errors"
	"time"

	gonats "github.com/nats-io/nats.go"

	"github.com/kube-eventbridge/kube-eventbridge/internal/natsclient"
	"github.com/kube-eventbridge/kube-eventbridge/sink"
)

const (
	connectTimeout = 5 * time.Second
	// writeBuffer is large because a write costs more than its bytes.
	writeBuffer = 256 << 10
	// firstWait is how long a lost connection is left alone: cuts are mostly short.
	firstWait = 20 * time.Millisecond
)

// connect makes a connection that always reconnects. closed is called once it never will again.
func (s *Sink) connect(ctx context.Context, closed func()) (*gonats.Conn, error) {
	d := natsclient.NewDialer(ctx, connectTimeout, s.reconnecting)
	cfg := s.cfg.Client
	if cfg.InProcess != nil {
		cfg.InProcess = d.InProcess(cfg.InProcess)
	}
	opts := []gonats.Option{
		gonats.SetCustomDialer(d),
		gonats.Timeout(connectTimeout),
		gonats.MaxReconnects(-1),
		gonats.IgnoreAuthErrorAbort(),
		gonats.CustomReconnectDelay(s.reconnectDelay),
		// What the connection held back while there was none would overtake what failed.
		gonats.ReconnectBufSize(-1),
		gonats.WriteBufferSize(writeBuffer),
		gonats.FlusherTimeout(s.cfg.AckTimeout),
		gonats.ReconnectOnFlusherError(),
		gonats.SkipSubjectValidation(),
		gonats.PingInterval(10 * time.Second),
		gonats.DisconnectErrHandler(func(_ *gonats.Conn, err error) { s.disconnected(ctx, err) }),
		gonats.ReconnectErrHandler(func(_ *gonats.Conn, err error) { s.explain(err) }),
		gonats.ReconnectHandler(func(*gonats.Conn) { s.state.look() }),
		gonats.ErrorHandler(func(nc *gonats.Conn, _ *gonats.Subscription, err error) { s.complained(nc, err) }),
		gonats.ClosedHandler(func(*gonats.Conn) { closed() }),
	}
	nc, err := natsclient.Dial(cfg, opts...)
	if err != nil {
		return nil, err
	}
	return nc, nil
}

func (s *Sink) reconnectDelay(attempt int) time.Duration {
	if attempt <= 1 {
		return min(firstWait, s.cfg.Wait)
	}
	return s.cfg.backoff(attempt - 1)
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
	subject, ok := natsclient.DeniedSubject(err.Error())
	s.broker.deny(subject, err)
	denied := func(m *sink.Message, _ uint32) error {
		if !ok || m.Subject != subject {
			return nil
		}
		return notPermitted(subject, err)
	}
	if s.publisher.failWhere(denied) == 0 {
		s.warn(err)
	}
}
