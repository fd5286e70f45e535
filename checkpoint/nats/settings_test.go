// SPDX-License-Identifier: Apache-2.0

package nats

import (
	"errors"
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
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
)

func TestOpen_makes_a_bucket_that_keeps_everything(t *testing.T) {
	srv := newServer(t)
	mustOpen(t.Context(), t, at(srv.ClientURL()))
	kv := must.Get(client(t, srv).KeyValue(t.Context(), testBucket))(t)
	s := must.Get(kv.Status(t.Context()))(t)
	c := s.Config()
	assert.True(t, c.History == 1 && c.TTL == 0 && c.Storage == jetstream.FileStorage && c.MaxBytes <= 0 &&
		c.Replicas == 1, "the bucket is made with %+v", c)
}

func TestOpen_and_check_refuse_a_bucket_that_would_lose_something_and_say_what_to_change(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*jetstream.StreamConfig)
		want   string
	}{
		"memory": {func(c *jetstream.StreamConfig) { c.Storage = jetstream.MemoryStorage }, "name another bucket"},
		"TTL": {
			func(c *jetstream.StreamConfig) { c.MaxAge = time.Hour },
			"nats stream edit KV_checkpoints --max-age 0s",
		},
		"discard old": {
			func(c *jetstream.StreamConfig) { c.Discard, c.MaxBytes = jetstream.DiscardOld, 1<<20 },
			"--discard new",
		},
		"interest":    {func(c *jetstream.StreamConfig) { c.Retention = jetstream.InterestPolicy }, "name another bucket"},
		"no purge":    {func(c *jetstream.StreamConfig) { c.AllowRollup, c.DenyPurge = false, true }, "name another bucket"},
		"no ack":      {func(c *jetstream.StreamConfig) { c.NoAck = true }, "--ack"},
		"no bucket":   {func(c *jetstream.StreamConfig) { c.Subjects = []string{"other.>"} }, "name another bucket"},
		"tiny values": {func(c *jetstream.StreamConfig) { c.MaxMsgSize = 300 }, "64 KiB"},
	} {
		t.Run(name, func(t *testing.T) {
			srv := newServer(t)
			js := client(t, srv)
			cfg := jetstream.StreamConfig{
				Name: "KV_" + testBucket, Subjects: []string{"$KV." + testBucket + ".>"}, MaxMsgsPerSubject: 1,
				Discard:     jetstream.DiscardNew,
				AllowRollup: true, DenyDelete: true, AllowDirect: true,
			}
			c.change(&cfg)
			must.Get(js.CreateStream(t.Context(), cfg))(t)
			_, opened := Open(t.Context(), at(srv.ClientURL()), audit)
			errs := []error{opened}
			if name != "tiny values" { // which only a commit meets
				errs = append(errs, Check(t.Context(), at(srv.ClientURL())))
			}
			for _, err := range errs {
				var settings *SettingsError
				assert.True(t, errors.As(err, &settings) && checkpoint.IsPermanent(err) &&
					strings.Contains(err.Error(), c.want), "error %v, want a SettingsError that says %q", err, c.want)
			}
		})
	}
}

func TestOpen_that_cannot_make_the_bucket_says_how_to(t *testing.T) {
	cfg := at(newServer(t).ClientURL())
	cfg.Replicas = 3
	_, err := Open(t.Context(), cfg, audit)
	var settings *SettingsError
	if !errors.As(err, &settings) || !strings.Contains(err.Error(),
		"nats kv add checkpoints --history 1 --storage file --replicas 3") {
		t.Errorf("error %v, want a SettingsError with the command", err)
	}
}

func TestCheck_and_Inspect_make_nothing(t *testing.T) {
	srv := newServer(t)
	require.NoError(t, Check(t.Context(), at(srv.ClientURL())))
	found, err := Inspect(t.Context(), at(srv.ClientURL()), audit)
	assert.True(t, err == nil && found.State.Identity == (checkpoint.Identity{}) && found.Saved.IsZero(),
		"found %+v, %v", found, err)
	assert.ErrorIs(t, must.Err(client(t, srv).KeyValue(t.Context(), testBucket)), jetstream.ErrBucketNotFound,
		"want that there is no bucket")
}

// An inspection shows what was committed and that a process commits. It does not disturb that process.
func TestInspect_does_not_disturb_a_writer(t *testing.T) {
	srv := newServer(t)
	cfg := at(srv.ClientURL())
	s := mustOpen(t.Context(), t, cfg)
	require.NoError(t, s.Commit(t.Context(), benchRows(0, 3, 1)))
	other := audit
	other.ClusterUID = "unknown"
	first, err := Inspect(t.Context(), cfg, other)
	require.True(t, err == nil && len(first.State.Rows["pods.v1"]) == 3 && first.State.Identity == audit &&
		time.Since(first.Saved) <= time.Minute, "found %+v, %v", first, err)
	require.NoError(t, s.Commit(t.Context(), benchRows(0, 4, 2)))
	second, err := Inspect(t.Context(), cfg, audit)
	assert.True(t, err == nil && len(second.State.Rows["pods.v1"]) == 4 && second.Number != first.Number,
		"found %+v, %v", second, err)
}

// Two clusters, and two pipelines, keep out of each other's way in one bucket.
func TestCheckpoints_share_a_bucket(t *testing.T) {
	cfg := at(newServer(t).ClientURL())
	ids := []checkpoint.Identity{
		audit,
		{ClusterUID: audit.ClusterUID, Cluster: audit.Cluster, Pipeline: "aud"},
		{ClusterUID: "x", Cluster: "prod.eu.1", Pipeline: "audit"},
	}
	for n, id := range ids {
		s := must.Get(Open(t.Context(), cfg, id))(t)
		b := benchRows(0, n+1, n)
		b.Identity = id
		require.NoError(t, s.Commit(t.Context(), b))
		require.NoError(t, s.Close())
	}
	for n, id := range ids {
		found, err := Inspect(t.Context(), cfg, id)
		assert.True(t, err == nil && len(found.State.Rows["pods.v1"]) == n+1 && found.State.Identity == id,
			"found %+v, %v", found, err)
	}
}

// These are all the permissions that a user needs, as docs/operations.md has them.
func TestPermissions_that_are_enough(t *testing.T) {
	const stream = "KV_" + testBucket
	user := &server.User{Username: "bridge", Password: "secret", Permissions: &server.Permissions{
		Publish: &server.SubjectPermission{Allow: []string{
			"$KV." + testBucket + ".>", "$JS.API.STREAM.INFO." + stream, "$JS.API.STREAM.MSG.GET." + stream,
			"$JS.API.CONSUMER.CREATE." + stream + ".>",
			"$JS.API.CONSUMER.MSG.NEXT." + stream + ".>", "$JS.API.STREAM.PURGE." + stream,
		}},
		Subscribe: &server.SubjectPermission{Allow: []string{"_INBOX.>"}},
	}}
	maker := &server.User{Username: "maker", Password: "secret", Permissions: &server.Permissions{
		Publish: &server.SubjectPermission{
			Allow: append([]string{"$JS.API.INFO", "$JS.API.STREAM.CREATE." + stream}, user.Permissions.Publish.Allow...),
		},
		Subscribe: user.Permissions.Subscribe,
	}}
	srv := newServer(t, func(o *server.Options) { o.Users = []*server.User{user, maker} })
	as := func(name string) Config {
		cfg := at("")
		cfg.Timeout, cfg.Patience = time.Second, time.Millisecond
		cfg.Dial = func(options ...gonats.Option) (*gonats.Conn, error) {
			return gonats.Connect(srv.ClientURL(), append(options, gonats.UserInfo(name, "secret"))...)
		}
		return cfg
	}
	if _, err := Open(t.Context(), as("bridge"), audit); err == nil || !strings.Contains(err.Error(), "does not permit") ||
		checkpoint.IsPermanent(err) {
		t.Errorf("error %v, want that the bucket may not be made", err)
	}
	mustOpen(t.Context(), t, as("maker"))
	s := mustOpen(t.Context(), t, as("bridge"))
	require.NoError(t, s.Commit(t.Context(), benchRows(0, 100, 1)))
	rebaseNow(s)
	require.NoError(t, s.Commit(t.Context(), benchRows(0, 100, 2)))
	found, err := Inspect(t.Context(), as("bridge"), audit)
	assert.True(t, err == nil && len(found.State.Rows["pods.v1"]) == 100 && s.size.before == 0,
		"found %+v, %v", found, err)
	text := must.Get(os.ReadFile("../../docs/operations.md"))(t)
	for _, subject := range maker.Permissions.Publish.Allow {
		assert.Contains(t, string(text), strings.ReplaceAll(subject, testBucket, "<bucket>"), "docs/operations.md does")
	}
}

func TestOpen_names_the_server_that_is_away(t *testing.T) {
	_, err := Open(t.Context(), at("nats://127.0.0.1:1"), audit)
	if err == nil || checkpoint.IsPermanent(err) || !strings.Contains(err.Error(),
		"127.0.0.1:1: connect: connection refused") {
		t.Errorf("error %v, want one that names the server and may pass", err)
	}
}

func TestServers_that_are_too_old_are_refused(t *testing.T) {
	for version, want := range map[string]bool{
		"2.10.29": true, "1.4.1": true, "2.11.0": false, "2.15.2": false,
		"3.0.0-beta": false, "": false,
	} {
		err := old(testBucket, version)
		assert.Equal(t, want, (err != nil), "%q: %v", version, err)
	}
}

func TestOpen_refuses_names_that_are_none(t *testing.T) {
	for _, change := range []func(*Config){
		func(c *Config) { c.Bucket = "a.b" }, func(c *Config) { c.Bucket = "" }, func(c *Config) { c.Name = "a..b" },
		func(c *Config) { c.Name = "a.>" },
		func(c *Config) { c.Dial = nil },
	} {
		cfg := at("nats://127.0.0.1:1")
		change(&cfg)
		assert.Error(t, must.Err(Open(t.Context(), cfg, audit)), "opened %+v", cfg)
	}
}
