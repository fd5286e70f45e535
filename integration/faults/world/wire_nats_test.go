// SPDX-License-Identifier: Apache-2.0

package world

import (
	"bufio"
	"bytes"
	"io"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/kube-eventbridge/kube-eventbridge/integration/internal/rig"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
)

func TestReadNATSFrame_takes_a_stream_of_operations_apart_as_it_came(t *testing.T) {
	frame := rapid.Custom(func(t *rapid.T) string {
		payload := rapid.StringOf(rapid.RuneFrom([]rune("a\r\n{"))).Draw(t, "payload")
		switch rapid.IntRange(0, 3).Draw(t, "kind") {
		case 0:
			return "PING\r\n"
		case 1:
			return `INFO {"max_payload":1}` + "\r\n"
		case 2:
			return "MSG a 1 " + strconv.Itoa(len(payload)) + "\r\n" + payload + "\r\n"
		default:
			return "HPUB a b 4 " + strconv.Itoa(len(payload)) + "\r\n" + payload + "\r\n"
		}
	})
	rapid.Check(t, func(t *rapid.T) {
		want := rapid.SliceOf(frame).Draw(t, "frames")
		r := bufio.NewReaderSize(strings.NewReader(strings.Join(want, "")), 16)
		for _, w := range want {
			got := must.Get(readNATSFrame(r))(t)
			require.Equal(t, w, string(got), "read %q", got)
		}
		require.ErrorIs(t, must.Err(readNATSFrame(r)), io.EOF, "read on")
	})
}

func TestIsAnswer_is_true_of_acknowledgements_and_refusals_only(t *testing.T) {
	for frame, want := range map[string]bool{
		"MSG _INBOX.a 1 30\r\n{\"stream\":\"KUBERNETES\",\"seq\":1}\r\n":                            true,
		"MSG _INBOX.a 1 30\r\n{\"error\":{\"code\":400},\"stream\":\"KUBERNETES\",\"seq\":0}\r\n":   true,
		"MSG _INBOX.a 1 30\r\n{\"type\":\"io.nats.jetstream.api.v1.stream_info_response\"}\r\n":     false,
		"MSG _INBOX.a 1 30\r\n{\"type\":\"io.nats.jetstream.api.v1\",\"error\":{\"code\":404}}\r\n": false,
		"PONG\r\n": false,
		"HMSG a 1 16 16\r\nNATS/1.0 503\r\n\r\n\r\n": false,
	} {
		assert.Equal(t, want, isAnswer([]byte(frame)), "%q", frame)
	}
}

// proxied returns a proxy in front of a broker with an empty log, and a publisher behind it.
func proxied(t *testing.T) (*rig.NATS, *wire, jetstream.JetStream) {
	t.Helper()
	b := rig.NATSForTest(t, nil)
	p := newWire(natsProtocol)
	front := must.Get(p.Before(b.Address()))(t)
	t.Cleanup(func() { require.NoError(t, p.close()) })
	conn, err := nats.Connect("nats://"+front.Address(), nats.ReconnectWait(10*time.Millisecond), nats.MaxReconnects(-1))
	require.NoError(t, err)
	t.Cleanup(conn.Close)
	js := must.Get(jetstream.New(conn))(t)
	must.Get(js.CreateStream(t.Context(), jetstream.StreamConfig{Name: Stream, Subjects: []string{"k8s.>"}}))(t)
	return b, p, js
}

// publish publishes one message and says whether it was acknowledged in time.
func publish(t *testing.T, js jetstream.JetStream, id string, within time.Duration) bool {
	t.Helper()
	ctx := must.Within(t, within)
	_, err := js.Publish(ctx, "k8s.a", bytes.Repeat([]byte("x\r\n"), 100), jetstream.WithMsgID(id))
	return err == nil
}

func TestWire_of_NATS_keeps_answers_back_and_nothing_else(t *testing.T) {
	b, p, js := proxied(t)
	require.True(t, publish(t, js, "1", time.Minute), "the proxy passes nothing on")
	p.set(hold)
	assert.False(t, publish(t, js, "2", 300*time.Millisecond), "an answer that is held came")
	require.NoError(t, poll(t.Context(), patience, "the answer", func() bool { _, held := p.now(); return held == 1 }))
	assert.EqualValues(t, 2, must.Get(b.End(Stream))(t), "the log ends, want 2")
	assert.NoError(t, must.Err(js.Stream(t.Context(), Stream)), "a question of the API has no answer")
	stats, held := p.now()
	assert.True(t, held == 1 && stats.Published == 2 && stats.Answered == 1, "%d answers are held, %+v", held, stats)
	assert.Equal(t, 1, p.forget(), "answers were lost, want 1")
	p.set(drop)
	assert.False(t, publish(t, js, "3", 300*time.Millisecond), "an answer that is dropped came")
	require.NoError(t, poll(t.Context(), patience, "a loss", func() bool {
		stats, _ := p.now()
		return stats.Lost == 2
	}))
	p.set(pass)
	assert.True(t, publish(t, js, "4", time.Minute), "the proxy does not recover")
	stats, _ = p.now()
	assert.True(t, stats.Lost == 2 && stats.Answered == 2, "%+v", stats)
}

func TestWire_of_NATS_releases_what_has_been_held_for_long_enough(t *testing.T) {
	_, p, js := proxied(t)
	p.set(hold)
	answered := make(chan bool, 1)
	go func() { answered <- publish(t, js, "1", time.Minute) }()
	require.NoError(t, poll(t.Context(), patience, "an answer", func() bool { _, held := p.now(); return held == 1 }))
	assert.Equal(t, 0, p.release(time.Hour), "answers are an hour old")
	n := p.release(0)
	assert.True(t, n == 1 && <-answered, "%d answers were released", n)
}

func TestWire_of_NATS_cuts_connections_that_come_back(t *testing.T) {
	_, p, js := proxied(t)
	assert.Equal(t, 1, p.cut(), "connections were cut, want 1")
	require.NoError(t, poll(t.Context(), patience, "the publisher to connect again",
		func() bool { return publish(t, js, "1", time.Second) }))
	stats, _ := p.now()
	assert.True(t, stats.Connected == 2 && stats.Cut == 1, "%+v", stats)
}
