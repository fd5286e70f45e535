// SPDX-License-Identifier: Apache-2.0

package nats

import (
	"context"
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
)

var errAway = errors.New("the server is away")

// faulty passes requests to a real server, unless something goes wrong.
type faulty struct {
	messages
	// before, if not nil, is asked before each request.
	before func(request string) fault
	// late are messages that were thought lost and are still under way.
	late []func(context.Context)
	// asked counts requests.
	asked int
}

// fault is what becomes of a request; the zero fault is nothing.
type fault struct {
	// err is the answer. lose: the request does not arrive; or, if late, not yet.
	err        error
	lose, late bool
}

func (f *faulty) pass(request string) fault {
	f.asked++
	if f.before == nil {
		return fault{}
	}
	return f.before(request)
}

func (f *faulty) append(ctx context.Context, number, after uint64, data []byte) (uint64, error) {
	wrong := f.pass("append")
	if wrong.lose {
		if wrong.late {
			copied := append([]byte(nil), data...)
			f.late = append(f.late, func(ctx context.Context) { _, _ = f.messages.append(ctx, number, after, copied) })
		}
		return 0, wrong.err
	}
	sequence, err := f.messages.append(ctx, number, after, data)
	if err == nil && wrong.err != nil {
		return 0, wrong.err
	}
	return sequence, err
}

func (f *faulty) last(ctx context.Context) (raw, error) {
	if wrong := f.pass("last"); wrong.err != nil {
		return raw{}, wrong.err
	}
	return f.messages.last(ctx)
}

func (f *faulty) read(ctx context.Context, after, to uint64, do func(raw)) error {
	if wrong := f.pass("read"); wrong.err != nil {
		return wrong.err
	}
	return f.messages.read(ctx, after, to, do)
}

func (f *faulty) purge(ctx context.Context, before uint64) error {
	if wrong := f.pass("purge"); wrong.lose {
		return wrong.err
	}
	return f.messages.purge(ctx, before)
}

// deliverLate has one of the messages that were thought lost arrive.
func (f *faulty) deliverLate(ctx context.Context, random *rand.Rand) {
	if len(f.late) > 0 {
		i := random.IntN(len(f.late))
		f.late[i](ctx)
		f.late = append(f.late[:i:i], f.late[i+1:]...)
	}
}

// bench is a server with a bucket, for many checkpoints.
type bench struct{ b *bucket }

func newBench(t *testing.T) *bench {
	t.Helper()
	cfg := at(newServer(t).ClientURL()).withDefaults(audit)
	b := must.Get(connect(t.Context(), cfg))(t)
	t.Cleanup(b.close)
	must.Get(b.find(t.Context()))(t)
	return &bench{b}
}

// messages returns those of a checkpoint, which nothing happens to yet.
func (b *bench) messages(name string) *faulty {
	at := &bucket{cfg: b.b.cfg, nc: b.b.nc, js: b.b.js}
	at.cfg.Name = name
	return &faulty{messages: at}
}

// open opens a checkpoint whose messages have a limit.
func (f *faulty) open(ctx context.Context, limit int) (*Store, error) {
	return open(ctx, f.messages.(*bucket).cfg, audit, f, limit)
}

func (f *faulty) mustOpen(ctx context.Context, t must.TB, limit int) *Store {
	t.Helper()
	return must.Get(f.open(ctx, limit))(t)
}
