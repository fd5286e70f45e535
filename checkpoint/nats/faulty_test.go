// SPDX-License-Identifier: Apache-2.0

package nats

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
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

func (f *faulty) mustOpen(ctx context.Context, t fataler, limit int) *Store {
	t.Helper()
	s, err := f.open(ctx, limit)
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	return s
}

// apply returns what a state is after a commit. The state stays as it is.
func apply(s *checkpoint.State, b *checkpoint.Batch) *checkpoint.State {
	out := &checkpoint.State{Identity: b.Identity, Log: s.Log, Streams: maps.Clone(s.Streams), Rows: map[string]map[string]checkpoint.Row{}}
	for name, rows := range s.Rows {
		out.Rows[name] = maps.Clone(rows)
	}
	if b.Log != nil {
		out.Log = *b.Log
	}
	for _, name := range b.Forget {
		delete(out.Streams, name)
		delete(out.Rows, name)
	}
	maps.Copy(out.Streams, b.Streams)
	for name, rows := range b.Put {
		if out.Rows[name] == nil {
			out.Rows[name] = map[string]checkpoint.Row{}
		}
		maps.Copy(out.Rows[name], rows)
	}
	for name, keys := range b.Drop {
		for _, key := range keys {
			delete(out.Rows[name], key)
		}
	}
	maps.DeleteFunc(out.Rows, func(_ string, rows map[string]checkpoint.Row) bool { return len(rows) == 0 })
	return out
}

func emptyState() *checkpoint.State {
	return &checkpoint.State{Streams: map[string]checkpoint.Stream{}, Rows: map[string]map[string]checkpoint.Row{}}
}

// someBatch changes a few rows, or many, of some of three streams, and forgets a stream now and then.
func someBatch(random *rand.Rand) *checkpoint.Batch {
	n := random.Uint64()
	b := &checkpoint.Batch{
		Identity: audit, Streams: map[string]checkpoint.Stream{}, Put: map[string]map[string]checkpoint.Row{}, Drop: map[string][]string{},
	}
	if random.IntN(2) == 0 {
		b.Log = &checkpoint.Log{ID: fmt.Sprint(n), Marks: map[int32]uint64{0: n}}
	}
	for _, name := range []string{"pods.v1", "secrets.v1", "pods.v1/kube-system"} {
		if random.IntN(4) == 0 {
			b.Forget = append(b.Forget, name)
		}
		if random.IntN(2) == 0 {
			b.Streams[name] = checkpoint.Stream{Position: fmt.Sprint(n)}
		}
		b.Put[name] = map[string]checkpoint.Row{}
		for range random.IntN([]int{1, 4, 60}[random.IntN(3)]) {
			key := fmt.Sprintf("default/object-%d", random.IntN(50))
			delete(b.Put[name], key)
			if random.IntN(3) > 0 {
				b.Put[name][key] = checkpoint.Row{UID: "u", ResourceVersion: fmt.Sprint(n), Sequence: n}
			}
		}
		for range random.IntN(10) {
			if key := fmt.Sprintf("default/object-%d", random.IntN(50)); b.Put[name][key] == (checkpoint.Row{}) {
				b.Drop[name] = append(b.Drop[name], key)
			}
		}
	}
	return b
}

func mustLoad(ctx context.Context, t fataler, s *Store) *checkpoint.State {
	t.Helper()
	state, err := s.Load(ctx)
	if err != nil {
		t.Fatalf("load: %v", err)
	}
	return state
}

func mustHold(ctx context.Context, t fataler, s *Store, want *checkpoint.State) {
	t.Helper()
	if got := mustLoad(ctx, t, s); !reflect.DeepEqual(got, want) {
		t.Fatalf("the checkpoint holds\n%+v, want\n%+v", got, want)
	}
}
