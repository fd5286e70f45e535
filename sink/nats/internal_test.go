// SPDX-License-Identifier: Apache-2.0

package nats

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	gonats "github.com/nats-io/nats.go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
	"github.com/kube-eventbridge/kube-eventbridge/internal/natsclient"
	"github.com/kube-eventbridge/kube-eventbridge/internal/testtier"
	"github.com/kube-eventbridge/kube-eventbridge/sink"
)

func TestParseAnswer(t *testing.T) {
	usual := usualAnswer("KUBERNETES")
	tests := map[string]struct {
		want   answer
		fast   bool
		failed bool
	}{
		`{"stream":"KUBERNETES","seq":1}`:                   {want: answer{Sequence: 1}, fast: true},
		`{"stream":"KUBERNETES","seq":1844674407370955161}`: {want: answer{Sequence: 1844674407370955161}, fast: true},
		`{"stream":"KUBERNETES","domain":"hub","seq":42}`:   {want: answer{Sequence: 42}, fast: true},
		`{"stream":"KUBERNETES","seq":7,"duplicate": true}`: {want: answer{
			Stream: "KUBERNETES", Sequence: 7,
			Duplicate: true,
		}},
		`{"seq":7,"stream":"KUBERNETES"}`:                     {want: answer{Stream: "KUBERNETES", Sequence: 7}},
		`{"stream":"OTHER","seq":7}`:                          {want: answer{Stream: "OTHER", Sequence: 7}},
		`{"stream":"KUBERNETES","seq":0}`:                     {failed: true},
		`{"stream":"KUBERNETES"}`:                             {failed: true},
		`{"stream":"KUBERNETES","seq":1x}`:                    {failed: true},
		`{"stream":"KUBERNETES","seq":-1}`:                    {failed: true},
		`{"stream":"KUBERNETES","seq":184467440737095516150}`: {failed: true},
		`{"stream":"KUBERNETES","seq":}`:                      {failed: true},
		`{"stream":"KUBERNETES","seq":1`:                      {failed: true},
		`+OK`:                                                 {failed: true},
		``:                                                    {failed: true},
	}
	for data, tt := range tests {
		got, err := parseAnswer([]byte(data), usual)
		assert.True(t, (err != nil) == tt.failed && (tt.failed || got == tt.want), "%s: %+v, %v", data, got, err)
		assert.Equal(t, tt.fast, must.OK(parseUsual([]byte(data), usual)), "%s: read byte by byte", data)
	}
	a, err := parseAnswer([]byte(`{"error":{"code":400,"err_code":10071,"description":"wrong last sequence: 3"},`+
		`"stream":"KUBERNETES","seq":0}`), usual)
	assert.True(t, err == nil && a.Error != nil && a.Error.ErrorCode == natsclient.CodeWrongLast, "an error: %+v, %v", a,
		err)
}

// An answer counts for the message it belongs to and no other, however late and however often it comes.
func TestSink_does_not_count_a_late_answer_for_another_message(t *testing.T) {
	s := must.Get(New(Config{
		Client: natsclient.Config{Servers: []string{"x"}}, Stream: "S", Subjects: []string{"k8s.>"},
		Window: 1,
	}, nil))(t)
	p := s.publisher
	type fate struct {
		seq uint64
		err error
	}
	replies, inbox := map[string]bool{}, strings.TrimSuffix(p.window.Answers(), "*")
	var before string
	for n := range uint64(48) {
		i := must.Get(p.window.Acquire(t.Context()))(t)
		var got []fate
		m := &sink.Message{Subject: "k8s.a", ID: fmt.Sprint(n)}
		gen, reply := p.window.Put(i, m, func(rc sink.Receipt, err error) { got = append(got, fate{rc.Sequence, err}) }, 0)
		_, _ = p.window.Sent(i)
		require.False(t, replies[reply], "%s is used again", reply)
		replies[reply] = true
		ack := func(subject string) {
			p.answered(&gonats.Msg{Subject: subject, Data: fmt.Appendf(nil, `{"stream":"S","seq":%d}`, n+1)})
		}
		for _, stray := range []string{
			before, "", reply + "0", inbox + "ffff" + reply[len(reply)-12:], inbox + "zzzz000000000001",
		} {
			if stray != reply {
				ack(stray)
			}
		}
		require.Empty(t, got, "message %d: a stray answer counted", n)
		if n%2 == 0 {
			p.fail(i, gen, errDisconnected)
			ack(reply)
		} else {
			ack(reply)
			ack(reply)
			p.fail(i, gen, errDisconnected)
		}
		require.Len(t, got, 1, "message %d was told", n)
		require.Equal(t, (got[0].err != nil), (n%2 == 0), "message %d was told", n)
		require.Equal(t, 0, p.window.Used(), "slots are in use")
		before = reply
	}
}

// Until it has been sent, a message is read: whoever published it must not be told its fate, and use it again, before.
func TestSink_keeps_a_message_until_it_has_been_sent(t *testing.T) {
	s := must.Get(New(Config{
		Client: natsclient.Config{Servers: []string{"x"}}, Stream: "S", Subjects: []string{"k8s.>"},
		Window: 1,
	}, nil))(t)
	p, told := s.publisher, 0
	gen, reply := p.window.Put(must.Get(p.window.Acquire(t.Context()))(t), &sink.Message{Subject: "k8s.a"}, func(sink.Receipt, error) { told++ }, 0)
	p.fail(0, gen, errDisconnected)
	ack := &gonats.Msg{Subject: reply, Data: []byte(`{"stream":"S","seq":1}`)}
	p.answered(ack)
	assert.Equal(t, 0, told, "told while it was being sent")
	answer, failure := p.window.Sent(0)
	assert.Same(t, ack, answer, "kept")
	assert.Error(t, failure, "kept")
	p.answered(answer)
	p.fail(0, gen, failure)
	assert.Equal(t, 1, told, "told %d times", told)
}

// What was found of the stream before something happened to the connection says nothing about afterwards.
func TestSink_is_not_up_by_what_it_knew_before_it_went_down(t *testing.T) {
	s := must.Get(New(Config{Client: natsclient.Config{Servers: []string{"x"}}, Stream: "S", Subjects: []string{"k8s.>"}},
		nil))(t)
	before := s.state.currentEpoch()
	s.state.setDown(errDisconnected)
	if s.state.setUp(before); s.Ready() == nil || len(s.state.wake) != 1 {
		t.Errorf("ready: %v, asked to look again: %d times", s.Ready(), len(s.state.wake))
	}
	if s.state.setUp(s.state.currentEpoch()); s.Ready() != nil {
		t.Error(s.Ready())
	}
}

// What a connection held back would be sent when it is made again, and overtake what had to be repeated meanwhile.
func TestSink_has_nothing_held_back_while_the_connection_is_lost(t *testing.T) {
	testtier.Servers(t)
	srv, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, NoSigs: true, NoLog: true})
	require.NoError(t, err)
	srv.Start()
	defer srv.WaitForShutdown()
	defer srv.Shutdown()
	require.True(t, srv.ReadyForConnections(time.Minute), "the server does not start")
	s := must.Get(New(Config{
		Client: natsclient.Config{Servers: []string{srv.ClientURL()}}, Stream: "S",
		Subjects: []string{"k8s.>"},
	}, nil))(t)
	closed := make(chan struct{})
	nc := must.Get(s.connect(t.Context(), func() { close(closed) }))(t)
	defer func() { nc.Close(); <-closed }()
	lost := nc.StatusChanged(gonats.RECONNECTING)
	s.broker.conn.Store(nc)
	m := &sink.Message{Subject: "k8s.a", ID: "a.1"}
	require.NoError(t, s.publisher.send(m, "r"))
	srv.Shutdown()
	<-lost
	assert.ErrorIs(t, s.publisher.send(m, "r"), errDisconnected, "sent without a connection")
}

// One message that is late is one timeout, however long the connection takes to swallow it.
func TestSink_counts_a_timeout_once(t *testing.T) {
	s := must.Get(New(Config{
		Client: natsclient.Config{Servers: []string{"x"}}, Stream: "S", Subjects: []string{"k8s.>"},
		Window: 1,
	}, nil))(t)
	p := s.publisher
	p.window.Put(must.Get(p.window.Acquire(t.Context()))(t), &sink.Message{Subject: "k8s.a"}, func(sink.Receipt, error) {}, 0)
	late := func(*sink.Message, uint32) error { return errDisconnected }
	first, second := p.failWhere(late), p.failWhere(late)
	assert.True(t, first == 1 && second == 0, "counted %d times, then %d times", first, second)
}

// What is still being sent when a connection is lost must not get onto the next one, whose stream was not checked.
func TestSink_makes_no_connection_while_something_is_sent(t *testing.T) {
	s := must.Get(New(Config{Client: natsclient.Config{Servers: []string{"a"}}, Stream: "S", Subjects: []string{"k8s.>"}},
		nil))(t)
	s.state.setUp(s.state.currentEpoch())
	s.publisher.publishing.RLock()
	epoch := s.state.currentEpoch()
	d := natsclient.NewDialer(t.Context(), connectTimeout, s.reconnecting)
	assert.ErrorIs(t, must.Err(d.Dial("tcp", "127.0.0.1:1")), errBusy, "while something is sent")
	assert.ErrorIs(t, must.Err(d.InProcess(nil).InProcessConn()), errBusy, "in process")
	s.publisher.publishing.RUnlock()
	assert.ErrorIs(t, s.Ready(), errDisconnected, "more can be sent")
	s.state.setUp(epoch)
	assert.Error(t, s.Ready(), "ready by a look at the last connection")
	_, err := d.Dial("tcp", "127.0.0.1:1")
	assert.True(t, err != nil && !errors.Is(err, errBusy), "when nothing is sent: %v", err)
}

func TestFilters_have_nothing_in_common_and_all_that_was_asked_for(t *testing.T) {
	token := rapid.SampledFrom([]string{"a", "b", "*"})
	rapid.Check(t, func(t *rapid.T) {
		var subjects []string
		for range rapid.IntRange(1, 4).Draw(t, "subjects") {
			s := strings.Join(rapid.SliceOfN(token, 1, 3).Draw(t, "tokens"), ".")
			if rapid.Bool().Draw(t, "open") {
				s += ".>"
			}
			subjects = append(subjects, s)
		}
		got := filters(subjects)
		for i, a := range got {
			for _, b := range got[i+1:] {
				for _, subject := range possible {
					require.True(t, !natsclient.Covers(a, subject) || !natsclient.Covers(b, subject),
						"of %v: %q and %q have %s in common", subjects, a, b, subject)
				}
			}
		}
		for _, subject := range possible {
			asked := natsclient.CoveredByAny(subjects, subject)
			require.True(t, !asked || natsclient.CoveredByAny(got, subject), "of %v: %v does not have %s", subjects, got,
				subject)
		}
	})
}

var possible = func() (all []string) {
	for _, x := range []string{"a", "b", "c"} {
		all = append(all, x)
		for _, y := range []string{"a", "b", "c"} {
			all = append(all, x+"."+y)
			for _, z := range []string{"a", "b", "c"} {
				all = append(all, x+"."+y+"."+z, x+"."+y+"."+z+".d")
			}
		}
	}
	return all
}()
