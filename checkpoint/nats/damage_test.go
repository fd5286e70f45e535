// SPDX-License-Identifier: Apache-2.0

package nats

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	gonats "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	"github.com/kube-eventbridge/kube-eventbridge/checkpoint/storetest"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
)

const auditKeys = "$KV." + testBucket + ".prod-eu-1.audit."

// What somebody else does to the checkpoint's keys is reported, by who opens it and by who has it open, and never
// mended by guessing.
func TestDamage_is_reported_and_leaves_the_bucket_as_it_is(t *testing.T) {
	for name, damage := range map[string]func(context.Context, jetstream.JetStream, jetstream.KeyValue) error{
		"a key is deleted": func(ctx context.Context, _ jetstream.JetStream, kv jetstream.KeyValue) error {
			return kv.Delete(ctx, "prod-eu-1.audit.2")
		},
		"a key is purged away": func(ctx context.Context, js jetstream.JetStream, _ jetstream.KeyValue) error {
			stream, err := js.Stream(ctx, "KV_"+testBucket)
			if err != nil {
				return err
			}
			return stream.Purge(ctx, jetstream.WithPurgeSubject(auditKeys+"2"))
		},
		"a value is something else": func(ctx context.Context, _ jetstream.JetStream, kv jetstream.KeyValue) error {
			_, err := kv.PutString(ctx, "prod-eu-1.audit.3", "{}")
			return err
		},
		"a value of another format": func(ctx context.Context, _ jetstream.JetStream, kv jetstream.KeyValue) error {
			_, err := kv.Put(ctx, "prod-eu-1.audit.4", []byte{format + 1, 'c'})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			srv := newServer(t)
			cfg, js := at(srv.ClientURL()), client(t, srv)
			s := mustOpen(t.Context(), t, cfg)
			for n := range 3 {
				require.NoError(t, s.Commit(t.Context(), benchRows(n, 5, n)))
			}
			kv, err := js.KeyValue(t.Context(), testBucket)
			if err == nil {
				err = damage(t.Context(), js, kv)
			}
			require.NoError(t, err)
			before := status(t, js)
			_, opened := Open(t.Context(), cfg, audit)
			_, inspected := Inspect(t.Context(), cfg, audit)
			for what, err := range map[string]error{"open": opened, "inspect": inspected} {
				var damaged *checkpoint.DamagedError
				var unknown *checkpoint.FormatError
				assert.True(t, (errors.As(err, &damaged) || errors.As(err, &unknown)) && checkpoint.IsPermanent(err),
					"%s: error %v, want that it is damaged, or of another format", what, err)
			}
			assert.Equal(t, before, status(t, js), "the bucket")
			if strings.Contains(name, "purged") {
				return // it was not written to
			}
			err = s.Commit(t.Context(), benchRows(0, 1, 9))
			assert.True(t, checkpoint.IsPermanent(err), "commit: error %v, want a permanent one", err)
		})
	}
}

func status(t *testing.T, js jetstream.JetStream) (s jetstream.StreamState) {
	t.Helper()
	stream := must.Get(js.Stream(t.Context(), "KV_"+testBucket))(t)
	s = stream.CachedInfo().State
	s.Consumers = 0
	return s
}

// A purge that was cut short leaves some of what is before the base.
func TestRemains_of_what_is_before_the_base_do_no_harm(t *testing.T) {
	srv := newServer(t)
	s, want := mustOpen(t.Context(), t, at(srv.ClientURL())), storetest.Empty()
	s.log.messages = &faulty{messages: s.log.messages, before: func(request string) fault {
		return fault{lose: request == "purge", err: map[bool]error{true: errAway}[request == "purge"]}
	}}
	for n := range 6 {
		if n == 4 {
			rebaseNow(s)
		}
		b := benchRows(n, 5, n)
		require.NoError(t, s.Commit(t.Context(), b))
		want = storetest.After(want, b)
	}
	js := client(t, srv)
	stream := must.Get(js.Stream(t.Context(), "KV_"+testBucket))(t)
	for _, number := range []int{1, 3, 4} {
		require.NoError(t, stream.Purge(t.Context(), jetstream.WithPurgeSubject(fmt.Sprint(auditKeys, number))))
	}
	storetest.MustHold(t.Context(), t, s, want)
	next := mustOpen(t.Context(), t, at(srv.ClientURL()))
	storetest.MustHold(t.Context(), t, next, want)
	require.NoError(t, next.Commit(t.Context(), benchRows(0, 1, 9)))
	left := status(t, js).Msgs
	assert.True(t, left <= 5, "%d messages are left, want the base and what is behind it", left)
}

// A bucket that went back, or was created again, has lost commits: this process must not go on, and the next one can.
func TestLost_commits_are_noticed(t *testing.T) {
	t.Run("the bucket was created again", func(t *testing.T) {
		srv := newServer(t)
		s, js := mustOpen(t.Context(), t, at(srv.ClientURL())), client(t, srv)
		require.NoError(t, s.Commit(t.Context(), benchRows(0, 1, 1)))
		require.NoError(t, js.DeleteKeyValue(t.Context(), testBucket))
		mustBeLost(t, s.Commit(t.Context(), benchRows(0, 1, 2)))
		next := mustOpen(t.Context(), t, at(srv.ClientURL()))
		storetest.MustHold(t.Context(), t, next, storetest.Empty())
		require.NoError(t, next.Commit(t.Context(), benchRows(0, 1, 3)))
	})
	for name, use := range map[string]func(context.Context, *Store) error{
		"the server went back, and a commit finds that": func(ctx context.Context,
			s *Store,
		) error {
			return s.Commit(ctx, benchRows(0, 5, 3))
		},
		"the server went back, and a load finds that": func(ctx context.Context,
			s *Store,
		) error {
			_, err := s.Load(ctx)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) { mustNoticeOlderServer(t, use) })
	}
	t.Run("the bucket was deleted, and a load finds that", func(t *testing.T) {
		srv := newServer(t)
		s, js := mustOpen(t.Context(), t, at(srv.ClientURL())), client(t, srv)
		require.NoError(t, s.Commit(t.Context(), benchRows(0, 1, 1)))
		require.NoError(t, js.DeleteKeyValue(t.Context(), testBucket))
		_, err := s.Load(t.Context())
		mustBeLost(t, err)
	})
}

func mustNoticeOlderServer(t *testing.T, use func(context.Context, *Store) error) {
	t.Helper()
	dir, saved := t.TempDir(), t.TempDir()
	port := 0
	start := func() *server.Server {
		srv := newServer(t, func(o *server.Options) {
			o.StoreDir = dir
			if port > 0 {
				o.Port = port
			}
		})
		return srv
	}
	srv := start()
	cfg := at(srv.ClientURL())
	var url string
	cfg.Dial = func(options ...gonats.Option) (*gonats.Conn, error) { return gonats.Connect(url, options...) }
	url = srv.ClientURL()
	s, want := mustOpen(t.Context(), t, cfg), storetest.Empty()
	require.NoError(t, s.Commit(t.Context(), benchRows(0, 5, 1)))
	want = storetest.After(want, benchRows(0, 5, 1))
	stop(srv)
	require.NoError(t, os.CopyFS(saved, os.DirFS(dir)))
	srv = start()
	url = srv.ClientURL()
	s = mustOpen(t.Context(), t, cfg)
	require.NoError(t, s.Commit(t.Context(), benchRows(0, 5, 2)))
	stop(srv)
	dir = saved
	srv = start()
	b := must.Get(connect(t.Context(), at(srv.ClientURL()).withDefaults(audit)))(t)
	t.Cleanup(b.close)
	s.log.messages, s.session.Insistence, s.cfg.Patience, b.cfg.Timeout = b, time.Second, time.Second, time.Second
	mustBeLost(t, use(t.Context(), s))
	storetest.MustHold(t.Context(), t, mustOpen(t.Context(), t, at(srv.ClientURL())), want)
}

func stop(srv *server.Server) {
	srv.Shutdown()
	srv.WaitForShutdown()
}

func mustBeLost(t *testing.T, err error) {
	t.Helper()
	var lost *LostError
	require.True(t, errors.As(err, &lost), "the error says that commits are lost")
	assert.True(t, checkpoint.IsPermanent(err), "the error says that commits are lost")
}

// Whatever the bytes, decoding ends with an error, or with something that is encoded and decoded alike.
func FuzzMessage(f *testing.F) {
	commit := message{
		kind: kindCommit, writer: 1 << 63, epoch: 300, number: 7, parts: 2,
		body: appendBatch(nil, benchRows(0, 2, 1)),
	}
	f.Add(commit.append(nil))
	f.Add([]byte{format, 'w'})
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := decodeMessage(data)
		if err != nil {
			return
		}
		again := must.Get(decodeMessage(m.append(nil)))(t)
		assert.Equal(t, m, again)
		c := newContent()
		if c.apply(m.body) != nil {
			return
		}
		same := newContent()
		assert.NoError(t, same.apply(c.records(nil)), "what was made of it is not read")
		_, _ = c.state()
	})
}
