// SPDX-License-Identifier: Apache-2.0

package nats_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	gonats "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
	"github.com/kube-eventbridge/kube-eventbridge/internal/natsclient"
	"github.com/kube-eventbridge/kube-eventbridge/sink"
	"github.com/kube-eventbridge/kube-eventbridge/sink/nats"
)

// ids reads, and returns the messages' ids.
func ids(t *testing.T, s *nats.Sink, q sink.Query) (all []string) {
	t.Helper()
	ctx := must.Within(t, time.Minute)
	require.NoError(t, s.Read(ctx, q, func(st *sink.Stored) error { all = append(all, st.ID); return nil }))
	return all
}

// Other subjects of the stream are not the sink's, however its own are put.
func TestRead_keeps_to_its_own_subjects(t *testing.T) {
	b := newBroker(t)
	js := b.connect(t)
	if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{
		Name: stream, Subjects: []string{"k8s.>"},
		Duplicates: time.Minute,
	}); err != nil {
		t.Fatal(err)
	}
	for i, subject := range []string{"k8s.a.x", "k8s.b.x", "k8s.a.y", "k8s.c.z", "k8s.b.x", "k8s.d.z"} {
		must.Get(js.Publish(t.Context(), subject, nil, jetstream.WithMsgID(fmt.Sprint(i+1))))(t)
	}
	for _, c := range []struct {
		subjects, all, last []string
	}{
		{[]string{"k8s.>"}, []string{"1", "2", "3", "4", "5", "6"}, []string{"1", "3", "4", "5", "6"}},
		{[]string{"k8s.a.>"}, []string{"1", "3"}, []string{"1", "3"}},
		{[]string{"k8s.a.*", "k8s.b.x"}, []string{"1", "2", "3", "5"}, []string{"1", "3", "5"}},
		{[]string{"k8s.b.x", "k8s.b.>"}, []string{"2", "5"}, []string{"5"}},
		{[]string{"k8s.a.*", "k8s.*.x"}, []string{"1", "2", "3", "5"}, []string{"1", "3", "5"}},
		{[]string{"k8s.none"}, nil, nil},
	} {
		cfg := config(b.addr())
		cfg.Subjects = c.subjects
		s := newSink(t, cfg)
		end := ready(t, s)
		assert.Equal(t, c.all, ids(t, s, sink.Query{}), "%v", c.subjects)
		assert.Equal(t, c.last, ids(t, s, sink.Query{LastOfKey: true}), "%v: last of each", c.subjects)
		require.NoError(t, end())
	}
}

// What is asked for is read if it is the sink's.
func TestRead_reads_the_subjects_that_are_asked_for(t *testing.T) {
	b := newBroker(t)
	cfg := config(b.addr())
	cfg.Subjects = []string{"k8s.>"}
	s := readySink(t, cfg)
	js := b.connect(t)
	for i, subject := range []string{"k8s.a.x", "k8s.b.x", "k8s.a.y", "k8s.b.x"} {
		must.Get(js.Publish(t.Context(), subject, []byte(subject), jetstream.WithMsgID(fmt.Sprint(i+1))))(t)
	}
	for want, asked := range map[string][]string{"2 4": {"k8s.b.x"}, "2 3 4": {"k8s.b.x", "k8s.a.y"}, "": {"k8s.none"}} {
		var got []string
		require.NoError(t, s.Read(t.Context(), sink.Query{Subjects: asked, Data: true}, func(st *sink.Stored) error {
			got = append(got, st.ID)
			assert.Equal(t, string(st.Data), st.Subject)
			return nil
		}))
		assert.Equal(t, want, strings.Join(got, " "), "%v", asked)
	}
	assert.Equal(t, []string{"3", "4"}, ids(t, s, sink.Query{Subjects: []string{"k8s.b.x", "k8s.a.y"}, LastOfKey: true}))
}

// More than one pull brings, by number and by size.
func TestRead_reads_on_until_the_end(t *testing.T) {
	b := newBroker(t)
	s := readySink(t, config(b.addr()))
	js := b.connect(t)
	const many, large = 10_000, 40
	for i := range many + large {
		data := []byte("{}")
		if i >= many {
			data = bytes.Repeat([]byte("x"), 900<<10)
		}
		if _, err := js.PublishAsync(fmt.Sprint("k8s.", i), data, jetstream.WithMsgID(fmt.Sprint(i)),
			jetstream.WithStallWait(time.Minute)); err != nil {
			t.Fatal(err)
		}
	}
	<-js.PublishAsyncComplete()
	for _, q := range []sink.Query{{}, {Data: true}, {LastOfKey: true}, {LastOfKey: true, Data: true}} {
		got := ids(t, s, q)
		assert.Len(t, got, many+large, "%+v: %d messages", q, len(got))
	}
}

// What is removed while it is read is not waited for.
func TestRead_ends_where_the_last_messages_were_removed(t *testing.T) {
	b := newBroker(t)
	cfg := config(b.addr())
	cfg.AckTimeout = 500 * time.Millisecond
	s := readySink(t, cfg)
	js := b.connect(t)
	st := must.Get(js.Stream(t.Context(), stream))(t)
	const many, batch = 9000, 4096 // what is asked for at a time is on its way when the first message comes
	for name, c := range map[string]struct {
		remove   func() error
		min, max int
	}{
		"the last": {func() error { return st.DeleteMsg(t.Context(), lastOf(t, js)) }, many - 1, many - 1},
		"all":      {func() error { return st.Purge(t.Context()) }, 1, batch},
	} {
		for _, lastOfKey := range []bool{false, true} {
			for i := range many {
				must.Get(js.PublishAsync(fmt.Sprint("k8s.", i), nil, jetstream.WithStallWait(time.Minute)))(t)
			}
			<-js.PublishAsyncComplete()
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			n := 0
			if err := s.Read(ctx, sink.Query{LastOfKey: lastOfKey}, func(*sink.Stored) error {
				if n++; n == 1 {
					return c.remove()
				}
				return nil
			}); err != nil || n < c.min || n > c.max {
				t.Errorf("%s: %d messages (%v)", name, n, err)
			}
			cancel()
			require.NoError(t, st.Purge(t.Context()))
		}
	}
}

func lastOf(t *testing.T, js jetstream.JetStream) uint64 {
	t.Helper()
	st := must.Get(js.Stream(t.Context(), stream))(t)
	return st.CachedInfo().State.LastSeq
}

func TestRead_leaves_no_consumer_behind(t *testing.T) {
	b := newBroker(t)
	s := readySink(t, config(b.addr()))
	publish(t, s, message("k8s.a", "a.1"))
	ids(t, s, sink.Query{})
	ctx, cancel := context.WithCancel(t.Context())
	_ = s.Read(ctx, sink.Query{}, func(*sink.Stored) error { cancel(); return errors.New("enough") })
	js := b.connect(t)
	must.Succeed(t, "no consumer is left", func() error {
		st, err := js.Stream(t.Context(), stream)
		if err != nil {
			return err
		}
		if n := st.CachedInfo().State.Consumers; n != 0 {
			return fmt.Errorf("%d are", n)
		}
		return nil
	})
}

func TestRead_does_not_outlast_Run(t *testing.T) {
	b := newBroker(t)
	s := newSink(t, config(noServer))
	end := run(t, s)
	failed := make(chan error, 2)
	nothing := func(*sink.Stored) error { return nil }
	go func() { failed <- s.Read(t.Context(), sink.Query{}, nothing) }()
	go func() { _, err := s.Bounds(t.Context(), nil); failed <- err }()
	require.NoError(t, end())
	for range 2 {
		assert.ErrorIs(t, <-failed, sink.ErrNotRunning)
	}
	s = newSink(t, config(b.addr()))
	end = ready(t, s)
	publish(t, s, message("k8s.a", "a.1"))
	err := s.Read(t.Context(), sink.Query{}, func(*sink.Stored) error { return end() })
	assert.True(t, err == nil || errors.Is(err, sink.ErrNotRunning), "Run ended meanwhile: %v", err)
}

func TestRead_waits_for_permission_and_says_so(t *testing.T) {
	b := newBroker(t, func(o *server.Options) {
		o.Users = []*server.User{{Username: "bridge", Password: "pw", Permissions: &server.Permissions{
			Publish: &server.SubjectPermission{Allow: []string{"k8s.>", "$JS.API.STREAM.>"}},
		}}}
	})
	cfg := config(b.addr())
	cfg.Client.Auth.User, cfg.Client.Auth.Password = "bridge", "pw"
	cfg.AckTimeout = 200 * time.Millisecond
	s, said := newTalkingSink(t, cfg)
	ready(t, s)
	publish(t, s, message("k8s.a", "a.1"))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Read(ctx, sink.Query{}, func(*sink.Stored) error { return nil }) }()
	must.Succeed(t, "the permission is named", func() error {
		if text := said(); !strings.Contains(text, "$JS.API.CONSUMER.CREATE.KUBERNETES") {
			return errors.New(text)
		}
		return nil
	})
	cancel()
	assert.ErrorIs(t, <-ended, context.Canceled)
}

func BenchmarkRead(b *testing.B) {
	url := otherProcess(b)
	const many = 100_000
	s := must.Get(nats.New(nats.Config{
		Client: natsclient.Config{Servers: []string{url}}, Stream: stream,
		Subjects: []string{"k8s.>"},
	}, nil))(b)
	ended := make(chan struct{})
	go func() { _ = s.Run(b.Context()); close(ended) }()
	b.Cleanup(func() { <-ended })
	must.Happen(b, "ready", func() bool { return s.Ready() == nil })
	fillStream(b, url, many)
	for name, q := range map[string]sink.Query{
		"headers": {}, "last of key, headers": {LastOfKey: true},
		"data": {Data: true},
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				n := 0
				err := s.Read(b.Context(), q, func(*sink.Stored) error { n++; return nil })
				require.True(b, err == nil && n == many, "%d messages (%v)", n, err)
			}
			b.ReportMetric(float64(b.N)*many/b.Elapsed().Seconds(), "msg/s")
		})
	}
}

// fillStream publishes n events, each of another object.
func fillStream(b *testing.B, url string, n int) {
	b.Helper()
	nc := must.Get(gonats.Connect(url))(b)
	defer nc.Close()
	js := must.Get(jetstream.New(nc))(b)
	e := event(0)
	msg := gonats.NewMsg("")
	for _, a := range e.Attributes {
		msg.Header["ce-"+a.Name] = []string{a.Value}
	}
	for i := range n {
		one := &gonats.Msg{Subject: fmt.Sprintf("k8s.prod.core.pods.default.web-%d", i), Header: msg.Header, Data: e.Data}
		must.Get(js.PublishMsgAsync(one, jetstream.WithStallWait(time.Minute)))(b)
	}
	<-js.PublishAsyncComplete()
}
