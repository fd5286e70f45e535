// SPDX-License-Identifier: Apache-2.0

package world

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kube-eventbridge/kube-eventbridge/integration/internal/proxy"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
)

// produceRequest is a request as kafka-go sends it, for one partition of a topic.
func produceRequest(version int16, correlation uint32, topic string) []byte {
	b := binary.BigEndian.AppendUint16(nil, proxy.KafkaProduce)
	b = binary.BigEndian.AppendUint16(b, uint16(version))
	b = binary.BigEndian.AppendUint32(b, correlation)
	b = appendText(b, "client")
	if version >= 3 {
		b = binary.BigEndian.AppendUint16(b, 0xffff) // no transactional id
	}
	b = binary.BigEndian.AppendUint16(b, 0xffff) // acks of all
	b = binary.BigEndian.AppendUint32(b, 1000)
	b = binary.BigEndian.AppendUint32(b, 1)
	b = appendText(b, topic)
	b = binary.BigEndian.AppendUint32(b, 1)
	b = binary.BigEndian.AppendUint32(b, 3) // the partition
	return sized(append(b, "\x00\x00\x00\x02xy"...))
}

// produceAnswer is the answer of one partition.
func produceAnswer(correlation uint32, topic string, code int16) []byte {
	b := binary.BigEndian.AppendUint32(nil, correlation)
	b = binary.BigEndian.AppendUint32(b, 1)
	b = appendText(b, topic)
	b = binary.BigEndian.AppendUint32(b, 1)
	b = binary.BigEndian.AppendUint32(b, 3)
	b = binary.BigEndian.AppendUint16(b, uint16(code)) //nolint:gosec // it is signed on the wire
	return sized(append(b, make([]byte, 24)...))
}

func appendText(b []byte, s string) []byte {
	return append(binary.BigEndian.AppendUint16(b, uint16(len(s))), s...) //nolint:gosec // it is short
}

func sized(b []byte) []byte { return append(binary.BigEndian.AppendUint32(nil, uint32(len(b))), b...) } //nolint:gosec // it is short

func TestProducedTo_is_the_topic_of_what_is_published_and_of_nothing_else(t *testing.T) {
	for version := range int16(11) {
		want := "t"
		if version > lastPlainProduce {
			want = ""
		}
		assert.Equal(t, want, producedTo(produceRequest(version, 7, "t")), "version %d", version)
	}
	fetch := produceRequest(8, 7, "t")
	fetch[5] = 1
	assert.Empty(t, producedTo(fetch), "a request of another kind publishes")
	whole := produceRequest(8, 7, "topic")
	for n := 4; n < len(whole); n++ {
		got := producedTo(whole[:n])
		assert.True(t, got == "" || got == "topic", "of %d bytes: %q", n, got)
		_, _ = producedWith(append(whole[:n:n], make([]byte, 4)...)) // it must not panic
	}
	code, err := producedWith(produceAnswer(7, "topic", 47))
	assert.True(t, code == 47 && err == nil, "the answer has the code %d, %v", code, err)
}

// fakeBroker answers each request that publishes with the code, and counts them.
type fakeBroker struct {
	listener net.Listener
	got      atomic.Int32
	code     atomic.Int32
}

func newFakeBroker(t *testing.T) *fakeBroker {
	t.Helper()
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	b := &fakeBroker{listener: l}
	var work sync.WaitGroup
	work.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			work.Go(func() { b.serve(c) })
		}
	})
	t.Cleanup(func() { _ = l.Close(); work.Wait() })
	return b
}

func (b *fakeBroker) serve(c net.Conn) {
	defer func() { _ = c.Close() }()
	r := bufio.NewReader(c)
	for {
		frame, err := proxy.ReadKafka(r)
		if err != nil {
			return
		}
		b.got.Add(1)
		if _, err := c.Write(produceAnswer(requestCorrelation(frame), producedTo(frame), int16(b.code.Load()))); err != nil { //nolint:gosec // it is small
			return
		}
	}
}

// client is a connection of the bridge.
type client struct {
	net.Conn
	read *bufio.Reader
}

// wired returns a wire before a broker, and a client of it.
func wired(t *testing.T) (*fakeBroker, *wire, client) {
	t.Helper()
	b := newFakeBroker(t)
	w := newWire(kafkaProtocol("log", "state"))
	front := must.Get(w.Before(b.listener.Addr().String()))(t)
	t.Cleanup(func() { require.NoError(t, w.close()) })
	c := must.Get(net.Dial("tcp", front.Address()))(t)
	t.Cleanup(func() { _ = c.Close() })
	return b, w, client{c, bufio.NewReader(c)}
}

func request(t *testing.T, c client, correlation uint32, topic string) {
	t.Helper()
	must.Get(c.Write(produceRequest(8, correlation, topic)))(t)
}

// answered reports whether the answer to a request comes within a time; that it comes, and in which order, is waited
// for long.
func answered(t *testing.T, c client, correlation uint32, within time.Duration) bool {
	t.Helper()
	require.NoError(t, c.SetReadDeadline(time.Now().Add(within)))
	frame, err := proxy.ReadKafka(c.read)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return false
	}
	require.NoError(t, err)
	got := answerCorrelation(frame)
	require.Equal(t, correlation, got, "the answer to %d", got)
	return true
}

const surely = 60 * time.Second

func TestWire_of_Kafka_holds_answers_and_what_is_behind_them(t *testing.T) {
	b, w, c := wired(t)
	request(t, c, 1, "log")
	require.True(t, answered(t, c, 1, surely), "nothing is passed on")
	w.set(hold)
	request(t, c, 2, "state")
	require.True(t, answered(t, c, 2, surely), "the answer to what is not of the log is held")
	assert.False(t, w.lastCommit().IsZero(), "the answer to what is not of the log is held")
	request(t, c, 3, "log")
	require.NoError(t, poll(t.Context(), surely, "an answer", func() bool { _, held := w.now(); return held == 1 }))
	request(t, c, 4, "state")
	require.NoError(t, poll(t.Context(), surely, "the broker to be asked", func() bool { return b.got.Load() == 4 }))
	assert.False(t, answered(t, c, 3, 200*time.Millisecond), "an answer that is held came")
	assert.Equal(t, 0, w.release(time.Hour), "answers are an hour old")
	w.heal()
	require.True(t, answered(t, c, 3, surely), "what was held does not come")
	assert.True(t, answered(t, c, 4, surely), "what was held does not come")
	if stats, held := w.now(); stats.Published != 2 || stats.Answered != 2 || stats.Lost != 0 || held != 0 {
		t.Errorf("%+v, %d held", stats, held)
	}
}

func TestWire_of_Kafka_loses_an_answer_with_its_connection(t *testing.T) {
	for name, m := range map[string]mode{"held and forgotten": hold, "dropped": drop} {
		t.Run(name, func(t *testing.T) {
			b, w, c := wired(t)
			w.set(m)
			request(t, c, 1, "log")
			if m == hold {
				require.NoError(t, poll(t.Context(), surely, "an answer", func() bool { _, held := w.now(); return held == 1 }))
				assert.Equal(t, 1, w.forget(), "lost")
			}
			require.NoError(t, c.SetReadDeadline(time.Now().Add(surely)))
			_, err := proxy.ReadKafka(c.read)
			assert.True(t, err != nil && !errors.Is(err, os.ErrDeadlineExceeded), "the connection goes on: %v", err)
			if stats, _ := w.now(); stats.Lost != 1 || stats.Answered != 0 || b.got.Load() != 1 {
				t.Errorf("%+v, and the broker has %d", stats, b.got.Load())
			}
		})
	}
}

// What a dead process has sent may arrive at any time.
func TestWire_of_Kafka_hands_over_what_was_kept_when_the_client_is_gone(t *testing.T) {
	b, w, c := wired(t)
	w.keep(true)
	request(t, c, 1, "log")
	require.NoError(t, poll(t.Context(), surely, "a request", func() bool { return w.keptNow() == 1 }))
	require.NoError(t, c.Close())
	w.keep(false)
	require.EqualValues(t, 0, b.got.Load(), "it was not kept")
	b.code.Store(47)
	codes, err := w.deliver(t.Context())
	assert.True(t, err == nil && fmt.Sprint(codes) == "[47]" && b.got.Load() == 1,
		"answered with %v, %v; the broker has %d", codes, err, b.got.Load())
	w.heal()
}

func TestWire_of_Kafka_a_silent_broker_keeps_its_connections(t *testing.T) {
	b, w, c := wired(t)
	w.Silence()
	request(t, c, 1, "state")
	assert.False(t, answered(t, c, 1, 200*time.Millisecond), "it is not silent")
	assert.EqualValues(t, 0, b.got.Load(), "it is not silent")
	w.heal()
	assert.True(t, answered(t, c, 1, surely), "it stays silent")
	assert.Equal(t, 1, w.cut(), "connections were cut")
}
