// SPDX-License-Identifier: Apache-2.0

package natslog_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kube-eventbridge/kube-eventbridge/internal/event"
	"github.com/kube-eventbridge/kube-eventbridge/internal/event/natslog"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
)

// away is how long a broker is asked that is not there.
const away = 50 * time.Millisecond

// log returns a log that is closed with the test.
func (b *broker) log() *natslog.Log {
	b.t.Helper()
	l := must.Get(natslog.Connect(natslog.Config{
		Servers: []string{b.url()}, Stream: "KUBERNETES", Durable: "replica", Subjects: b.subjects,
	}))(b.t)
	b.t.Cleanup(l.Close)
	return l
}

// fill stores events of n objects.
func (b *broker) fill(n int) {
	b.t.Helper()
	b.use(func(js jetstream.JetStream) error {
		for i := range n {
			if _, err := js.PublishMsgAsync(asMessage(fmt.Sprint("k8s.east.apps.deployments.shop.o", i%100), event.Added,
				`{}`, nil), jetstream.WithStallWait(time.Minute)); err != nil {
				return err
			}
		}
		<-js.PublishAsyncComplete()
		return nil
	})
}

func TestAt_reads_a_message_again_until_the_stream_has_it_no_more(t *testing.T) {
	for _, direct := range []bool{true, false} {
		b := newBroker(t).start().stream(func(c *jetstream.StreamConfig) { c.AllowDirect = direct })
		b.store("k8s.east.apps.deployments.shop.web", event.Updated, `{"a":1}`, map[string]string{"name": "k%20%C3%A9"})
		b.publish(event.Updated, "web", 2, 2)
		r := b.replica(beginning)
		r.waitFor("web@2")
		given := r.message("web@7")
		m, err := r.log.At(t.Context(), given.Position)
		require.NoError(t, err)
		assert.Equal(t, given.Stored.Data, m.Stored.Data)
		assert.ElementsMatch(t, given.Attributes, m.Attributes, "direct %v", direct)
		assert.True(t, given.Time.Equal(m.Time))
		assert.Equal(t, given.Subject, m.Subject)
		assert.Equal(t, given.Position, m.Position)
		b.use(func(js jetstream.JetStream) error {
			stream, err := js.Stream(t.Context(), "KUBERNETES")
			if err != nil {
				return err
			}
			return stream.Purge(t.Context(), jetstream.WithPurgeKeep(1))
		})
		m, err = r.log.At(t.Context(), given.Position)
		assert.True(t, m == nil && err == nil, "got %v, %v", m, err)
		b.stop()
		require.Error(t, must.Err(r.log.At(must.Within(t, away), given.Position)))
		b.start()
		must.Succeed(t, "an answer", func() error { return must.Err(r.log.At(t.Context(), 2)) })
	}
}

func TestAt_may_be_called_by_many(t *testing.T) {
	b := newBroker(t).start().stream()
	b.fill(500)
	r := b.replica(beginning)
	r.waitFor("caught-up")
	var work sync.WaitGroup
	for p := range uint64(500) {
		work.Go(func() {
			m, err := r.log.At(t.Context(), p+1)
			assert.True(t, err == nil && m != nil && m.Position == p+1, "got %v, %v", m, err)
		})
	}
	work.Wait()
}

// acknowledge is for a consumer that is made again: the server may fail while it still removes the old one.
func acknowledge(t *testing.T, l *natslog.Log, to uint64) {
	t.Helper()
	must.Succeed(t, "acknowledged", func() error { return l.Acknowledge(t.Context(), event.Marks{0: to}) })
}

// durable returns what the server says of the durable consumer.
func (b *broker) durable() (info *jetstream.ConsumerInfo) {
	b.t.Helper()
	b.use(func(js jetstream.JetStream) error {
		c, err := js.Consumer(b.t.Context(), "KUBERNETES", "replica")
		if err == nil {
			info = c.CachedInfo()
		}
		return err
	})
	return info
}

// expectLag waits for what users of the broker see.
func (b *broker) expectLag(want uint64) {
	b.t.Helper()
	got := uint64(0)
	defer func() {
		if b.t.Failed() {
			b.t.Logf("the lag is %d", got)
		}
	}()
	must.Happen(b.t, fmt.Sprintf("a lag of %d", want), func() bool {
		info := b.durable()
		got = info.NumPending + uint64(info.NumAckPending) //nolint:gosec // a count
		return got == want
	})
}

func TestAcknowledge_shows_the_lag_in_a_durable_consumer(t *testing.T) {
	b := newBroker(t).start().stream()
	b.fill(1300)
	l := b.log()
	require.NoError(t, l.Acknowledge(t.Context(), event.Marks{}))
	for _, to := range []uint64{10, 10, 11, 400, 1299, 1300} {
		require.NoError(t, l.Acknowledge(t.Context(), event.Marks{0: to}))
		b.expectLag(1300 - to)
	}
	require.NoError(t, l.Acknowledge(t.Context(), event.Marks{0: 7}))
	b.expectLag(0)
	b.fill(3)
	b.expectLag(3)
	n, err := l.Behind(t.Context(), event.Marks{0: 1300})
	require.NoError(t, err)
	assert.Equal(t, uint64(3), n)
	info := b.durable()
	assert.True(t, info.Config.HeadersOnly && info.Config.AckPolicy == jetstream.AckAllPolicy, "%+v", info.Config)
	// Another process goes on with it.
	created := info.Created
	require.NoError(t, b.log().Acknowledge(t.Context(), event.Marks{0: 1302}))
	b.expectLag(1)
	assert.Equal(t, created, b.durable().Created)
}

func TestAcknowledge_counts_only_what_the_reader_wants(t *testing.T) {
	b := newBroker(t).start().stream()
	b.fill(1000) // ten of each subject
	l := b.only("k8s.east.apps.deployments.shop.o3").log()
	for position, lag := range map[uint64]uint64{4: 9, 500: 5, 1000: 0} {
		_ = b.deleteDurable()
		acknowledge(t, l, 1)
		b.expectLag(10)
		require.NoError(t, l.Acknowledge(t.Context(), event.Marks{0: position}))
		b.expectLag(lag)
	}
	// Another selection is another consumer.
	acknowledge(t, b.log(), 1000)
	b.fill(7)
	b.expectLag(7)
}

func (b *broker) deleteDurable() (err error) {
	b.use(func(js jetstream.JetStream) error {
		err = js.DeleteConsumer(b.t.Context(), "KUBERNETES", "replica")
		return nil
	})
	return err
}

func TestAcknowledge_makes_a_consumer_again_that_is_far_behind(t *testing.T) {
	b := newBroker(t).start().stream()
	b.fill(200)
	l := b.log()
	l.SetFarBehind(100)
	require.NoError(t, l.Acknowledge(t.Context(), event.Marks{0: 1}))
	created := b.durable().Created
	require.NoError(t, l.Acknowledge(t.Context(), event.Marks{0: 101}))
	b.expectLag(99)
	assert.Equal(t, created, b.durable().Created)
	b.fill(200)
	acknowledge(t, l, 390)
	b.expectLag(10)
	assert.NotEqual(t, created, b.durable().Created)
}

func TestAcknowledge_leaves_alone_what_others_have_made(t *testing.T) {
	b := newBroker(t).start().stream()
	b.fill(10)
	b.use(func(js jetstream.JetStream) error {
		_, err := js.CreateConsumer(t.Context(), "KUBERNETES", jetstream.ConsumerConfig{Durable: "replica"})
		return err
	})
	before := b.durable()
	err := b.log().Acknowledge(t.Context(), event.Marks{0: 5})
	require.ErrorContains(t, err, "move consumer replica of stream KUBERNETES at "+b.url()+
		": another program has made it")
	after := b.durable()
	assert.Equal(t, before.Created, after.Created)
	assert.Equal(t, uint64(10), after.NumPending)
}

func TestAcknowledge_refuses_a_stream_that_removes_what_is_acknowledged_or_was_replaced(t *testing.T) {
	b := newBroker(t).start().stream(func(c *jetstream.StreamConfig) { c.Retention = jetstream.InterestPolicy })
	err := b.log().Acknowledge(t.Context(), event.Marks{0: 5})
	require.ErrorContains(t, err, "would remove what is acknowledged")
	b.use(func(js jetstream.JetStream) error {
		return errors.Join(js.DeleteStream(t.Context(), "KUBERNETES"), createStream(t.Context(), js))
	})
	require.ErrorContains(t, b.log().Acknowledge(t.Context(), event.Marks{0: 5}), "it was replaced")
}

func TestAcknowledge_goes_on_after_the_broker_was_away(t *testing.T) {
	b := newBroker(t).start().stream()
	b.fill(100)
	l := b.log()
	require.NoError(t, l.Acknowledge(t.Context(), event.Marks{0: 50}))
	b.stop()
	require.Error(t, l.Acknowledge(must.Within(t, away), event.Marks{0: 70}))
	b.start()
	must.Succeed(t, "acknowledged", func() error { return l.Acknowledge(t.Context(), event.Marks{0: 70}) })
	b.expectLag(30)
}
