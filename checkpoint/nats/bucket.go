// SPDX-License-Identifier: Apache-2.0

package nats

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	gonats "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/kube-eventbridge/kube-eventbridge/internal/natsclient"
	"github.com/kube-eventbridge/kube-eventbridge/internal/pause"
)

var (
	// errNoBucket says that there is no such bucket.
	errNoBucket = errors.New("there is no such bucket")
	// errMoved says that the last message is not the one that was expected.
	errMoved = errors.New("the last message is another one")
)

// raw is a message before it is understood.
type raw struct {
	sequence uint64
	time     time.Time
	data     []byte
}

// bucket is a checkpoint's part of a bucket.
type bucket struct {
	cfg Config
	nc  *gonats.Conn
	js  jetstream.JetStream
	// denied is what the server did not permit last. It does not answer such a request.
	denied atomic.Pointer[error]
	// end cuts the connections.
	end context.CancelFunc
}

// connect connects to the server; lost connections are always made again.
func connect(ctx context.Context, cfg Config) (*bucket, error) {
	b := &bucket{cfg: cfg}
	var life context.Context
	life, b.end = context.WithCancel(context.WithoutCancel(ctx))
	defer context.AfterFunc(ctx, b.end)()
	d := natsclient.NewDialer(life, cfg.Timeout, nil)
	nc, err := cfg.Dial(
		gonats.SetCustomDialer(d), gonats.Timeout(cfg.Timeout), gonats.MaxReconnects(-1), gonats.IgnoreAuthErrorAbort(),
		gonats.ReconnectWait(pause.ShortestWait), gonats.ReconnectJitter(pause.ShortestWait, pause.ShortestWait),
		gonats.ReconnectBufSize(-1), // a message is sent again by who waits for its answer
		gonats.ErrorHandler(func(_ *gonats.Conn, _ *gonats.Subscription, err error) {
			if errors.Is(err, gonats.ErrPermissionViolation) {
				b.denied.Store(&err)
			}
		}),
	)
	if err != nil {
		b.end()
		return nil, err
	}
	b.nc = nc
	if b.js, err = jetstream.New(nc); err != nil {
		b.close()
		return nil, err
	}
	return b, nil
}

func (b *bucket) close() {
	b.end()
	b.nc.Close()
}

// most is the largest message that the server takes.
func (b *bucket) most() int { return int(b.nc.MaxPayload()) }

// ask calls do with a context that bounds one request, and explains why there was no answer.
func (b *bucket) ask(ctx context.Context, do func(ctx context.Context) error) error {
	limited, cancel := context.WithTimeout(ctx, b.cfg.Timeout)
	defer cancel()
	b.denied.Store(nil)
	err := do(limited)
	if err == nil || ctx.Err() != nil {
		return err
	}
	var api *jetstream.APIError
	denied := b.denied.Load()
	switch {
	case errors.As(err, &api):
		return explain(api)
	case denied != nil:
		return fmt.Errorf("the server does not permit it: %w", *denied)
	case errors.Is(err, gonats.ErrNoResponders), errors.Is(err, jetstream.ErrNoStreamResponse):
		return fmt.Errorf("%w: %w", natsclient.ErrNoJetStream, err)
	case limited.Err() != nil:
		return fmt.Errorf("no answer within %v", b.cfg.Timeout)
	default:
		return err
	}
}

func explain(api *jetstream.APIError) error {
	switch api.ErrorCode {
	case natsclient.CodeNoStream:
		return errNoBucket
	case natsclient.CodeWrongLast, natsclient.CodeWrongLastInProcess:
		return fmt.Errorf("%w: %w", errMoved, api)
	default:
		return api
	}
}

// append stores message number of the checkpoint if the last one of it has the sequence after; otherwise the error is
// errMoved.
func (b *bucket) append(ctx context.Context, number, after uint64, data []byte) (sequence uint64, err error) {
	m := &gonats.Msg{Subject: b.cfg.prefix() + strconv.FormatUint(number, 10), Data: data}
	err = b.ask(ctx, func(ctx context.Context) error {
		ack, err := b.js.PublishMsg(ctx, m, jetstream.WithExpectStream(b.cfg.stream()),
			jetstream.WithExpectLastSequenceForSubject(after, b.cfg.prefix()+">"), jetstream.WithRetryAttempts(0))
		if err == nil {
			sequence = ack.Sequence
		}
		return err
	})
	if errors.Is(err, natsclient.ErrNoJetStream) {
		if _, gone := b.last(ctx); errors.Is(gone, errNoBucket) {
			return 0, gone
		}
	}
	return sequence, err
}

// last returns the checkpoint's newest message; its sequence is 0 if there is none. It asks the stream's leader, never
// a replica, which may be behind.
func (b *bucket) last(ctx context.Context) (last raw, err error) {
	err = b.ask(ctx, func(ctx context.Context) error {
		which := map[string]any{"last_by_subj": b.cfg.prefix() + ">"}
		m, err := natsclient.Get(ctx, b.nc, "$JS.API", b.cfg.stream(), which)
		if m != nil {
			last = raw{m.Sequence, m.Time, m.Data}
		}
		return err
	})
	return last, err
}

// purge removes the checkpoint's messages before a sequence.
func (b *bucket) purge(ctx context.Context, before uint64) error {
	return b.ask(ctx, func(ctx context.Context) error {
		query, err := json.Marshal(map[string]any{"filter": b.cfg.prefix() + ">", "seq": before})
		if err != nil {
			return err
		}
		reply, err := b.nc.RequestWithContext(ctx, "$JS.API.STREAM.PURGE."+b.cfg.stream(), query)
		if err != nil {
			return err
		}
		var r struct {
			Error *jetstream.APIError `json:"error"`
		}
		if err := json.Unmarshal(reply.Data, &r); err != nil || r.Error == nil {
			return err
		}
		return r.Error
	})
}
