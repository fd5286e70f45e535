// SPDX-License-Identifier: Apache-2.0

package nats_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
	"github.com/kube-eventbridge/kube-eventbridge/sink"
	"github.com/kube-eventbridge/kube-eventbridge/sink/nats"
)

func TestSink_refuses_a_stream_that_would_break_a_promise(t *testing.T) {
	b := newBroker(t)
	js := b.connect(t)
	tests := map[string]struct {
		change func(*jetstream.StreamConfig)
		seal   bool
		reason string
		advice string
	}{
		"work queue": {
			change: func(c *jetstream.StreamConfig) { c.Retention = jetstream.WorkQueuePolicy },
			reason: "retention is not limits", advice: "nats stream rm",
		},
		"interest": {
			change: func(c *jetstream.StreamConfig) { c.Retention = jetstream.InterestPolicy },
			reason: "retention is not limits",
		},
		"no ack": {
			change: func(c *jetstream.StreamConfig) { c.NoAck = true }, reason: "does not acknowledge",
			advice: "--ack",
		},
		"async": {
			change: func(c *jetstream.StreamConfig) { c.PersistMode = jetstream.AsyncPersistMode },
			reason: "persist mode async",
		},
		"memory": {
			change: func(c *jetstream.StreamConfig) { c.Storage = jetstream.MemoryStorage },
			reason: "in the memory of one server", advice: "nats stream rm",
		},
		"no memory": {
			change: func(c *jetstream.StreamConfig) { c.Duplicates = time.Second },
			reason: "remembers ids for less than 10s", advice: "--dupe-window 2m",
		},
		"no memory by age": {
			change: func(c *jetstream.StreamConfig) { c.MaxAge = 5 * time.Second },
			reason: "remembers ids for less than 10s",
		},
		"refuses new": {change: func(c *jetstream.StreamConfig) {
			c.Discard, c.DiscardNewPerSubject, c.MaxMsgsPerSubject = jetstream.DiscardNew, true, 1
		}, reason: "discard new per subject", advice: "--discard old"},
		"renames": {change: func(c *jetstream.StreamConfig) {
			c.SubjectTransform = &jetstream.SubjectTransformConfig{Source: "k8s.>", Destination: "other.>"}
		}, reason: "renames subjects"},
		"counters": {change: func(c *jetstream.StreamConfig) { c.AllowMsgCounter = true }, reason: "stream of counters"},
		"too narrow": {
			change: func(c *jetstream.StreamConfig) { c.Subjects = []string{"k8s.*"} },
			reason: "do not cover k8s.>", advice: "--subjects 'k8s.*,k8s.>'",
		},
		"another": {change: func(c *jetstream.StreamConfig) { c.Subjects = nil }, reason: "do not cover k8s.>"},
		"mirror": {change: func(c *jetstream.StreamConfig) {
			c.Subjects, c.Mirror = nil,
				&jetstream.StreamSource{Name: "ORIGIN"}
		}, reason: "mirror"},
		"sealed":        {change: func(*jetstream.StreamConfig) {}, seal: true, reason: "sealed"},
		"good":          {change: func(*jetstream.StreamConfig) {}},
		"good: broader": {change: func(c *jetstream.StreamConfig) { c.Subjects = []string{"other", "k8s.>"} }},
		"good: compact": {change: func(c *jetstream.StreamConfig) { c.MaxMsgsPerSubject = 1 }},
		"good: stalls":  {change: func(c *jetstream.StreamConfig) { c.Discard = jetstream.DiscardNew }},
		"good: small":   {change: func(c *jetstream.StreamConfig) { c.MaxMsgSize = 1 << 10 }},
	}
	must.Get(js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "ORIGIN", Subjects: []string{"origin"}}))(t)
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			cfg := jetstream.StreamConfig{Name: stream, Subjects: []string{"k8s.>"}}
			tt.change(&cfg)
			st, err := js.CreateStream(t.Context(), cfg)
			require.NoError(t, err)
			t.Cleanup(func() { _ = js.DeleteStream(t.Context(), stream) })
			defer js.DeleteStream(t.Context(), stream) //nolint:errcheck // a test's
			if tt.seal {
				cfg = st.CachedInfo().Config
				cfg.Sealed = true
				must.Get(js.UpdateStream(t.Context(), cfg))(t)
			}
			s := newSink(t, config(b.addr()))
			if tt.reason == "" {
				end := ready(t, s)
				require.NoError(t, end())
				return
			}
			err = s.Run(t.Context())
			var u *sink.UnusableError
			require.True(t, errors.As(err, &u), "Run: %v", err)
			assert.True(t, u.Target == "stream "+stream && strings.Contains(u.Reason, tt.reason) &&
				strings.Contains(u.Advice, tt.advice) && !strings.Contains(u.Advice, "NAME"), "refused: %v", err)
		})
	}
}

func TestSink_creates_a_missing_stream(t *testing.T) {
	b := newBroker(t)
	cfg := config(b.addr())
	cfg.Subjects = []string{"k8s.>", "more"}
	cfg.Limits.MaxBytes, cfg.Limits.MaxAge = 1<<20, time.Minute
	ready(t, newSink(t, cfg))
	js := b.connect(t)
	st := must.Get(js.Stream(t.Context(), stream))(t)
	got := st.CachedInfo().Config
	if got.Storage != jetstream.FileStorage || got.Retention != jetstream.LimitsPolicy ||
		got.Discard != jetstream.DiscardOld || !got.AllowDirect ||
		got.MaxBytes != 1<<20 || got.MaxAge != time.Minute || got.Duplicates != time.Minute || got.Replicas != 1 ||
		len(got.Subjects) != 2 {
		t.Errorf("created: %+v", got)
	}
}

// What the file says of a stream that exists has no effect, and a log line is the only sign.
func TestSink_warns_of_a_stream_that_has_other_limits(t *testing.T) {
	b := newBroker(t)
	js := b.connect(t)
	has := jetstream.StreamConfig{Name: stream, Subjects: []string{"k8s.>"}, MaxAge: 168 * time.Hour, MaxBytes: -1}
	must.Get(js.CreateStream(t.Context(), has))(t)
	for _, c := range []struct {
		limits nats.Limits
		want   string
	}{
		{nats.Limits{}, ""},
		{nats.Limits{MaxAge: 168 * time.Hour}, ""},
		{
			nats.Limits{MaxAge: 24 * time.Hour, MaxBytes: 1 << 20},
			"the stream has maxAge 168h0m0s, the configuration 24h0m0s; the stream has no maxBytes, the configuration 1048576",
		},
	} {
		cfg := config(b.addr())
		cfg.Limits = c.limits
		s, said := newTalkingSink(t, cfg)
		ready(t, s)
		warnings := must.Get(nats.Check(t.Context(), cfg))(t)
		if c.want == "" {
			assert.Empty(t, warnings, "%+v", c.limits)
			assert.NotContains(t, said(), "other limits", "%+v", c.limits)
			continue
		}
		require.Len(t, warnings, 1, "%+v", c.limits)
		assert.Contains(t, warnings[0], c.want)
		assert.Contains(t, warnings[0], "nats stream edit "+stream+" --max-age=24h0m0s --max-bytes=1048576")
		assert.Equal(t, 1, strings.Count(said(), c.want), "the log has\n%s", said())
	}
}

func TestSink_says_why_a_stream_cannot_be_created(t *testing.T) {
	b := newBroker(t)
	cfg := config(b.addr())
	cfg.Limits.Replicas = 3
	var u *sink.UnusableError
	if err := newSink(t, cfg).Run(t.Context()); !errors.As(err, &u) || !strings.Contains(u.Reason, "replicas") {
		t.Errorf("three replicas on one server: %v", err)
	}
	js := b.connect(t)
	warnings, err := nats.Check(t.Context(), config(b.addr()))
	require.NoError(t, err, "it is missing, and can be created")
	require.Empty(t, warnings)
	must.Get(js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "OTHER", Subjects: []string{"k8s.a.>"}}))(t)
	_, err = nats.Check(t.Context(), config(b.addr()))
	require.ErrorAs(t, err, &u)
	assert.Contains(t, u.Reason, "stream OTHER has subjects of it: k8s.>")
	if err := newSink(t, config(b.addr())).Run(t.Context()); !errors.As(err, &u) ||
		!strings.Contains(u.Reason, "stream OTHER has subjects of it") {
		t.Errorf("another stream has the subject: %v", err)
	}
}

// What somebody does to the stream while it is published to is found out, though nothing says so.
func TestSink_ends_when_its_stream_becomes_unusable(t *testing.T) {
	t.Parallel()
	for reason, change := range map[string]func(*jetstream.StreamConfig){
		"it is sealed":            func(c *jetstream.StreamConfig) { c.Sealed = true },
		"it does not acknowledge": func(c *jetstream.StreamConfig) { c.NoAck = true },
		"do not cover k8s.>":      func(c *jetstream.StreamConfig) { c.Subjects = []string{"other.>"} },
	} {
		t.Run(reason, func(t *testing.T) {
			b := newBroker(t)
			cfg := config(b.addr())
			cfg.AckTimeout = 200 * time.Millisecond
			s := newSink(t, cfg)
			ctx := must.Within(t, time.Minute)
			ended := make(chan error, 1)
			go func() { ended <- s.Run(ctx) }()
			must.Succeed(t, "the sink is ready", s.Ready)
			js := b.connect(t)
			st := must.Get(js.Stream(t.Context(), stream))(t)
			changed := st.CachedInfo().Config
			change(&changed)
			must.Get(js.UpdateStream(t.Context(), changed))(t)
			r := publish(t, s, message("k8s.a", "a.1"))
			assert.True(t, r.err != nil && !sink.IsPermanent(r.err), "published: %+v", r)
			var u *sink.UnusableError
			err := <-ended
			assert.True(t, errors.As(err, &u) && strings.Contains(u.Reason, reason), "Run: %v", err)
		})
	}
}

// A server does not answer a request that it denies.
func TestSink_says_that_it_may_not_look_up_last_messages(t *testing.T) {
	t.Parallel()
	b := newBroker(t, func(o *server.Options) {
		o.Users = []*server.User{{Username: "bridge", Password: "pw", Permissions: &server.Permissions{
			Publish: &server.SubjectPermission{Allow: []string{"k8s.>", "$JS.API.STREAM.INFO.>", "$JS.API.STREAM.CREATE.>"}},
		}}}
	})
	cfg := config(b.addr())
	cfg.Client.Auth.User, cfg.Client.Auth.Password = "bridge", "pw"
	cfg.AckTimeout = 200 * time.Millisecond
	s := readySink(t, cfg)
	m := message("k8s.a", "a.1")
	m.Verify, m.Previous = true, 7
	const denied = `Permissions Violation for Publish to "$JS.API.STREAM.MSG.GET.KUBERNETES"`
	must.Succeed(t, "an attempt that says why", func() error {
		r := publish(t, s, m)
		require.True(t, r.err != nil && !sink.IsPermanent(r.err), "published: %v", r.err)
		if strings.Contains(r.err.Error(), denied) {
			return nil
		}
		return r.err // the server's word came later than the end of the time
	})
}

// The reason is said where it is a permission, or JetStream itself, that is missing.
func TestSink_says_why_it_cannot_look_at_the_stream(t *testing.T) {
	t.Parallel()
	denied := newBroker(t, func(o *server.Options) {
		o.Users = []*server.User{{Username: "bridge", Password: "pw", Permissions: &server.Permissions{
			Publish: &server.SubjectPermission{Allow: []string{"k8s.>"}},
		}}}
	})
	without := newBroker(t, func(o *server.Options) { o.JetStream = false })
	for want, b := range map[string]*broker{`Permissions Violation for Publish to "$JS.API.STREAM.INFO.KUBERNETES"`: denied, "JetStream does not answer": without} {
		cfg := config(b.addr())
		if b == denied {
			cfg.Client.Auth.User, cfg.Client.Auth.Password = "bridge", "pw"
		}
		cfg.AckTimeout = 200 * time.Millisecond
		s := newSink(t, cfg)
		run(t, s)
		sayEventually(t, s, want)
	}
}
