// SPDX-License-Identifier: Apache-2.0

package nats_test

import (
	"bytes"
	"context"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
	"github.com/kube-eventbridge/kube-eventbridge/internal/natsclient"
	"github.com/kube-eventbridge/kube-eventbridge/sink"
	"github.com/kube-eventbridge/kube-eventbridge/sink/nats"
	"github.com/kube-eventbridge/kube-eventbridge/sink/sinktest"
)

const (
	bucket     = "KUBERNETES-objects"
	objectName = "0123456789abcdef.3b1f1f5e-8a9d-4c55-9b57-5a3f9a0c7b21.48211734.h2.r1"
)

func randomBytes(n int) []byte {
	random, data := rand.NewPCG(1, 2), make([]byte, n)
	for i := range data {
		data[i] = byte(random.Uint64())
	}
	return data
}

// kept is what a consumer finds under objectName.
func (b *broker) kept(t *testing.T) (data []byte, status jetstream.ObjectStoreStatus, messages uint64) {
	t.Helper()
	js := b.connect(t)
	store := must.Get(js.ObjectStore(t.Context(), bucket))(t)
	data = must.Get(store.GetBytes(t.Context(), objectName))(t)
	status = must.Get(store.Status(t.Context()))(t)
	st := must.Get(js.Stream(t.Context(), "OBJ_"+bucket))(t)
	return data, status, st.CachedInfo().State.LastSeq
}

func keep(t *testing.T, s *nats.Sink, data []byte) {
	t.Helper()
	ref := must.Get(s.Keep(t.Context(), objectName, data))(t)
	require.Equal(t, "nats-obj:"+bucket+"/"+objectName, ref, "what is kept")
}

func TestSink_keeps_what_is_too_large_for_as_long_as_messages(t *testing.T) {
	for _, maxPayload := range []int32{1 << 20, 64 << 10} {
		b := newBroker(t, func(o *server.Options) { o.MaxPayload = maxPayload })
		cfg := config(b.addr())
		cfg.Limits.MaxAge = 72 * time.Hour
		s := readySink(t, cfg)
		data := randomBytes(3_000_000)
		keep(t, s, data)
		got, status, messages := b.kept(t)
		if !bytes.Equal(got, data) || status.TTL() != 72*time.Hour || status.Storage() != jetstream.FileStorage ||
			status.Replicas() != 1 {
			t.Errorf("%d bytes are kept for %v in %v", len(got), status.TTL(), status.Storage())
		}
		// A process that comes after a crash does it again.
		keep(t, s, data)
		_, _, again := b.kept(t)
		assert.Equal(t, messages, again, "what is there is written again: %d messages, then", messages)
		keep(t, s, data[:1000])
		got, _, _ = b.kept(t)
		assert.Equal(t, data[:1000], got, "%d bytes are kept, want the last 1000", len(got))
		n := len(b.log(t))
		assert.Equal(t, 0, n, "the stream has %d messages", n)
	}
}

func TestSink_leaves_a_bucket_that_exists_as_it_is(t *testing.T) {
	b := newBroker(t)
	js := b.connect(t)
	must.Get(js.CreateObjectStore(t.Context(), jetstream.ObjectStoreConfig{Bucket: bucket, TTL: time.Hour}))(t)
	s := readySink(t, config(b.addr()))
	keep(t, s, []byte("x"))
	_, status, _ := b.kept(t)
	assert.Equal(t, time.Hour, status.TTL(), "objects are kept")
}

func TestSink_keeps_nothing_while_the_broker_is_away_and_then_does(t *testing.T) {
	b := newBroker(t)
	cfg := config(sinktest.NewProxy(t, b.addr).Addr())
	s := newSink(t, cfg)
	_, err := s.Keep(t.Context(), objectName, []byte("x"))
	assert.True(t, err != nil && !sink.IsPermanent(err), "before Run: %v", err)
	ready(t, s)
	b.stop(t)
	_, err = s.Keep(t.Context(), objectName, []byte("x"))
	assert.True(t, err != nil && !sink.IsPermanent(err), "without a broker: %v", err)
	b.start(t)
	must.Succeed(t, "it is kept", func() error {
		_, err := s.Keep(t.Context(), objectName, []byte("x"))
		return err
	})
}

func TestSink_never_keeps_anything_for_a_stream_that_cannot_name_a_bucket(t *testing.T) {
	b := newBroker(t)
	cfg := config(b.addr())
	cfg.Stream = "A$B"
	s := readySink(t, cfg)
	_, err := s.Keep(t.Context(), objectName, []byte("x"))
	assert.True(t, sink.IsPermanent(err), "kept: %v", err)
}

// Beside what publishing takes.
func TestSink_needs_few_permissions_to_keep(t *testing.T) {
	const store = "OBJ_" + bucket
	more := []string{
		"$JS.API.STREAM.INFO." + store, "$JS.API.STREAM.CREATE." + store, "$JS.API.STREAM.PURGE." + store,
		"$JS.API.DIRECT.GET." + store + ".>",
		"$O." + bucket + ".>",
	}
	b := newBroker(t, func(o *server.Options) {
		o.Users = []*server.User{{Username: "bridge", Password: "pw", Permissions: &server.Permissions{
			Publish:   &server.SubjectPermission{Allow: slices.Concat([]string{"k8s.>"}, permissions, more)},
			Subscribe: &server.SubjectPermission{Allow: []string{"_INBOX.>"}},
		}}}
	})
	cfg := config(b.addr())
	cfg.Client.Auth.User, cfg.Client.Auth.Password = "bridge", "pw"
	s, said := newTalkingSink(t, cfg)
	end := ready(t, s)
	for _, n := range []int{300_000, 300_000, 200_000} {
		keep(t, s, randomBytes(n))
	}
	require.NoError(t, end())
	assert.NotContains(t, said(), "Violation", "something was denied")
}

func TestSink_that_may_not_keep_says_so_at_once(t *testing.T) {
	const store = "OBJ_" + bucket
	for name, c := range map[string]struct {
		more []string
		want string
	}{
		"nothing of the bucket": {nil, "to publish to $JS.API.STREAM.INFO." + store},
		"no objects": {
			[]string{
				"$JS.API.STREAM.INFO." + store, "$JS.API.STREAM.CREATE." + store, "$JS.API.STREAM.PURGE." + store,
				"$JS.API.DIRECT.GET." + store + ".>",
			},
			"to publish to $O." + bucket + ".C.",
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBroker(t, func(o *server.Options) {
				o.Users = []*server.User{{Username: "bridge", Password: "pw", Permissions: &server.Permissions{
					Publish:   &server.SubjectPermission{Allow: slices.Concat([]string{"k8s.>"}, permissions, c.more)},
					Subscribe: &server.SubjectPermission{Allow: []string{"_INBOX.>"}},
				}}}
			})
			cfg := config(b.addr())
			cfg.Client.Auth.User, cfg.Client.Auth.Password, cfg.AckTimeout = "bridge", "pw", time.Hour
			s, _ := newTalkingSink(t, cfg)
			end := ready(t, s)
			_, err := s.Keep(must.Within(t, 20*time.Second), objectName, randomBytes(300_000))
			assert.ErrorContains(t, err, c.want)
			assert.True(t, sink.IsPermanent(err), "it is tried again")
			require.NoError(t, end())
		})
	}
}

func TestCheck_says_what_is_not_permitted(t *testing.T) {
	b := newBroker(t, func(o *server.Options) {
		o.Users = []*server.User{{Username: "bridge", Password: "pw", Permissions: &server.Permissions{
			Publish: &server.SubjectPermission{Deny: []string{"$JS.API.>"}},
		}}}
	})
	cfg := config(b.addr())
	cfg.Client.Auth.User, cfg.Client.Auth.Password = "bridge", "pw"
	for name, check := range map[string]func(context.Context, nats.Config) ([]string, error){
		"to publish to $JS.API.STREAM.INFO." + cfg.Stream: nats.Check,
		"to publish to $JS.API.STREAM.INFO.OBJ_":          nats.CheckBucket,
	} {
		_, err := check(must.Within(t, 20*time.Second), cfg)
		assert.ErrorContains(t, err, name)
		assert.True(t, sink.IsPermanent(err), "it is taken for something that passes")
	}
}

// Who has the permissions that the runbook names can create the stream, and may not ask which other streams there are.
func TestCheck_asks_for_nothing_that_the_bridge_does_not_need(t *testing.T) {
	b := newBroker(t, func(o *server.Options) {
		o.Users = []*server.User{{Username: "bridge", Password: "pw", Permissions: &server.Permissions{
			Publish: &server.SubjectPermission{Deny: []string{"$JS.API.STREAM.NAMES"}},
		}}}
	})
	cfg := config(b.addr())
	cfg.Client.Auth.User, cfg.Client.Auth.Password = "bridge", "pw"
	warnings, err := nats.Check(must.Within(t, time.Hour), cfg)
	require.NoError(t, err)
	assert.Empty(t, warnings)
}

func TestCheckBucket_says_what_is_wrong_with_it_and_makes_none(t *testing.T) {
	const log, subjects = "KUBERNETES", "$O." + bucket
	for name, c := range map[string]struct {
		change   func(*jetstream.StreamConfig)
		keeps    time.Duration // of the log
		warnings []string
		err      string
	}{
		"as it is made": {func(*jetstream.StreamConfig) {}, 0, nil, ""},
		"sealed": {
			func(c *jetstream.StreamConfig) { c.Sealed = true }, 0, nil,
			"bucket " + bucket + " cannot be used: it is sealed",
		},
		"other subjects": {
			func(c *jetstream.StreamConfig) { c.Subjects = []string{"x.>"} }, 0, nil,
			"cannot be used: its stream has other subjects than those of an object store",
		},
		"no rollup": {
			func(c *jetstream.StreamConfig) { c.AllowRollup = false }, 0, nil,
			"cannot be used: its stream allows no rollup",
		},
		"in memory": {
			func(c *jetstream.StreamConfig) { c.Storage = jetstream.MemoryStorage }, 0,
			[]string{"bucket " + bucket + " is kept in memory: its objects end with the servers"},
			"",
		},
		"for longer": {func(c *jetstream.StreamConfig) { c.MaxAge = 2 * time.Hour }, time.Hour, nil, ""},
		"for less": {
			func(c *jetstream.StreamConfig) { c.MaxAge = time.Hour }, 2 * time.Hour,
			[]string{"bucket " + bucket +
				" keeps objects for 1h0m0s, and the stream events for 2h0m0s: what older events refer to is gone"},
			"",
		},
		"not without a limit": {
			func(c *jetstream.StreamConfig) { c.MaxAge = time.Hour }, 0,
			[]string{"bucket " + bucket +
				" keeps objects for 1h0m0s, and the stream events without a limit: what older events refer to is gone"},
			"",
		},
		"with an end": {
			func(c *jetstream.StreamConfig) { c.MaxBytes = 1 << 20 }, 0,
			[]string{"bucket " + bucket + " takes 1048576 bytes: when it is full, what is too large for the stream waits"},
			"",
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBroker(t)
			js := b.connect(t)
			at := nats.Config{
				Client: natsclient.Config{Servers: []string{b.addr()}}, Stream: log, Subjects: []string{"k8s.>"},
				Limits: nats.Limits{MaxAge: c.keeps},
			}
			require.Nil(t, must.Get(nats.CheckBucket(t.Context(), at))(t), "of none")
			assert.Error(t, must.Err(js.Stream(t.Context(), "OBJ_"+bucket)), "it made the bucket")
			has := jetstream.StreamConfig{
				Name: "OBJ_" + bucket, Subjects: []string{subjects + ".C.>", subjects + ".M.>"},
				AllowRollup: true,
			}
			c.change(&has)
			sealed := has.Sealed // which nothing is made as
			has.Sealed = false
			_, err := js.CreateStream(t.Context(), has)
			if has.Sealed = sealed; err == nil && sealed {
				_, err = js.UpdateStream(t.Context(), has)
			}
			require.NoError(t, err)
			warnings, err := nats.CheckBucket(t.Context(), at)
			assert.True(t, slices.Equal(warnings, c.warnings) && (err == nil) == (c.err == "") &&
				(err == nil || strings.Contains(err.Error(), c.err)), "%q, %v", warnings, err)
		})
	}
}
