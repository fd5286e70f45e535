// SPDX-License-Identifier: Apache-2.0

package nats_test

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
	"github.com/kube-eventbridge/kube-eventbridge/sink"
	"github.com/kube-eventbridge/kube-eventbridge/sink/sinktest"
)

// runs runs s until it ends by itself.
func runs(t *testing.T, s sink.Sink) (ended <-chan error) {
	t.Helper()
	end := make(chan error, 1)
	go func() { end <- s.Run(t.Context()) }()
	must.Succeed(t, "the sink is ready", s.Ready)
	return end
}

func mustRewind(t *testing.T, ended <-chan error, acknowledged, last uint64) {
	t.Helper()
	select {
	case err := <-ended:
		var rewound *sink.RewoundError
		if !errors.As(err, &rewound) || *rewound != (sink.RewoundError{
			Target: "stream " + stream, Acknowledged: acknowledged,
			Last: last,
		}) {
			t.Errorf("Run: %v, want that %d was acknowledged and %d is the last", err, acknowledged, last)
		}
	case <-time.After(time.Minute):
		t.Error("Run has not ended")
	}
}

func mustHaveLost(t *testing.T, err error, acknowledged uint64) {
	t.Helper()
	var rewound *sink.RewoundError
	require.True(t, errors.As(err, &rewound), "Run: %d was not acknowledged", acknowledged)
	assert.Equal(t, acknowledged, rewound.Acknowledged, "Run: %d was not acknowledged", acknowledged)
}

// A log that went back and was published to by somebody else since has as many messages as before, but not the same.
func TestSink_ends_when_another_message_is_where_its_last_was(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	p := sinktest.NewProxy(t, b.addr)
	s := newSink(t, config(p.Addr()))
	ended := runs(t, s)
	publish(t, s, message("k8s.a", "a.1"))
	b.save(t)
	must.Succeed(t, "published", func() error { return publish(t, s, message("k8s.a", "a.2")).err })
	// The sink is kept out until somebody else has published.
	b.stop(t)
	b.opts.StoreDir, b.opts.DontListen = b.copy, true
	b.start(t)
	other := config()
	other.Client.InProcess = b.server()
	o := newSink(t, other)
	end := ready(t, o)
	for n := range 3 {
		require.NoError(t, publish(t, o, message("k8s.b", fmt.Sprint("b.", n))).err)
	}
	require.NoError(t, end())
	b.stop(t)
	b.opts.DontListen = false
	b.start(t)
	mustRewind(t, ended, 2, 4)
}

// What somebody does to the stream between two messages is found out by the second one's place.
func TestSink_ends_when_its_stream_was_made_anew_behind_its_back(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	s := newSink(t, config(b.addr()))
	ended := runs(t, s)
	publish(t, s, message("k8s.a", "a.1"))
	publish(t, s, message("k8s.a", "a.2"))
	b.remake(t, 0)
	publish(t, s, message("k8s.a", "a.3"))
	mustRewind(t, ended, 2, 1)
}

// The next run creates the stream again, when the loss is known.
func TestSink_leaves_a_stream_that_vanished_to_the_next_run(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	s := newSink(t, config(b.addr()))
	ended := runs(t, s)
	publish(t, s, message("k8s.a", "a.1"))
	b.destroy(t)
	publish(t, s, message("k8s.a", "a.2"))
	mustRewind(t, ended, 1, 0)
	js := b.connect(t)
	assert.ErrorIs(t, must.Err(js.Stream(t.Context(), stream)), jetstream.ErrStreamNotFound, "the stream")
	s = newSink(t, config(b.addr()))
	ready(t, s)
	r := publish(t, s, message("k8s.a", "a.1"))
	assert.True(t, r.err == nil && r.rc.Sequence == 1, "published again: %+v", r)
}

// A message that was found published already is acknowledged as well.
func TestSink_ends_when_the_log_lost_what_it_was_found_to_have(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	first := newSink(t, config(b.addr()))
	end := ready(t, first)
	publish(t, first, message("k8s.a", "a.1"))
	b.save(t)
	_ = end()
	between := newSink(t, config(b.addr()))
	end = ready(t, between)
	publish(t, between, message("k8s.a", "a.2"))
	_ = end()

	cfg := config(sinktest.NewProxy(t, b.addr).Addr())
	s := newSink(t, cfg)
	ended := runs(t, s)
	js := b.connect(t)
	st := must.Get(js.Stream(t.Context(), stream))(t)
	changed := st.CachedInfo().Config
	changed.Duplicates = 100 * time.Millisecond
	must.Get(js.UpdateStream(t.Context(), changed))(t)
	// The check of the subject's last message finds it, not the memory for ids.
	forgotten(t, js)
	again := message("k8s.a", "a.2")
	again.Verify = true
	r := publish(t, s, again)
	require.True(t, r.err == nil && r.rc.Duplicate, "published again: %+v", r)
	b.restore(t)
	mustRewind(t, ended, 2, 1)
}

// forgotten waits until the stream does not remember the ids of what was published before.
func forgotten(t *testing.T, js jetstream.JetStream) {
	t.Helper()
	must.Succeed(t, "an id is forgotten", func() error {
		ack, err := js.Publish(t.Context(), "k8s.a", nil, jetstream.WithMsgID("a.2"), jetstream.WithExpectLastSequence(1<<40))
		if err == nil && ack.Duplicate {
			return errors.New("remembered")
		}
		return nil
	})
}

// replicated is a stream of three replicas that ends at last. It acknowledges everything at 7.
func replicated(last func() int) func(subject string) answer {
	return func(subject string) answer {
		switch {
		case strings.HasPrefix(subject, infoSubject):
			return answer{reply: fmt.Sprintf(`{"type":"io.nats.jetstream.api.v1.stream_info_response",`+
				`"config":{"name":"KUBERNETES","subjects":["k8s.>"],"retention":"limits","storage":"file","discard":"old","num_replicas":3,"duplicate_window":120000000000},"state":{"last_seq":%d}}`, last())}
		case strings.HasPrefix(subject, lastSubject):
			return refuse(404, 10037, "no message found")
		case strings.HasPrefix(subject, "k8s.cut"):
			return answer{cut: true}
		default:
			return answer{reply: `{"stream":"KUBERNETES","seq":7}`}
		}
	}
}

// After a partition of the network a replica may answer that does not know yet that it leads no longer.
func TestSink_does_not_believe_a_replica_that_was_left_behind(t *testing.T) {
	t.Parallel()
	var asked atomic.Int32
	s := newSink(t, config(newFake(t, replicated(func() int {
		if n := asked.Add(1); n > 1 && n < 5 {
			return 3
		}
		return 7
	}))))
	s.SetPatience(time.Hour)
	end := ready(t, s)
	publish(t, s, message("k8s.a", "a.1"))
	publish(t, s, message("k8s.cut", "a.2"))
	sayEventually(t, s, "a replica that was left behind")
	must.Succeed(t, "ready", s.Ready)
	n := asked.Load()
	assert.True(t, n >= 5, "ready after %d looks", n)
	assert.NoError(t, end(), "Run")
}

func TestSink_ends_when_every_replica_went_back(t *testing.T) {
	t.Parallel()
	var asked atomic.Int32
	s := newSink(t, config(newFake(t, replicated(func() int {
		if asked.Add(1) == 1 {
			return 7
		}
		return 3
	}))))
	s.SetPatience(100 * time.Millisecond)
	ended := runs(t, s)
	publish(t, s, message("k8s.a", "a.1"))
	publish(t, s, message("k8s.cut", "a.2"))
	mustRewind(t, ended, 7, 3)
	n := asked.Load()
	assert.True(t, n >= 3, "believed after %d looks", n)
}
