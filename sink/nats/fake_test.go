// SPDX-License-Identifier: Apache-2.0

package nats_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
	"github.com/kube-eventbridge/kube-eventbridge/sink"
)

// answer is what a fake broker does about a publish: cut the connection, say nothing, send a reply, or messages of the
// stream.
type answer struct {
	cut      bool
	reply    string
	messages []delivered
}

// delivered is a message of the stream: its place there, and its number among those that the consumer has sent.
type delivered struct{ sequence, number int }

func (d delivered) write(w io.Writer, sid string) {
	_, _ = fmt.Fprintf(w, "MSG k8s.a %s $JS.ACK.KUBERNETES.C.1.%d.%d.%d.0 0\r\n\r\n", sid, d.sequence, d.number,
		time.Now().UnixNano())
}

const (
	infoSubject   = "$JS.API.STREAM.INFO."
	createSubject = "$JS.API.STREAM.CREATE."
	lastSubject   = "$JS.API.STREAM.MSG.GET."
	makeSubject   = "$JS.API.CONSUMER.CREATE."
	nextSubject   = "$JS.API.CONSUMER.MSG.NEXT."
)

// haveStream has the stream, and never acknowledges.
func haveStream(subject string) answer {
	if !strings.HasPrefix(subject, infoSubject) {
		return answer{}
	}
	return answer{reply: `{"type":"io.nats.jetstream.api.v1.stream_info_response","config":{"name":"KUBERNETES",` +
		`"subjects":["k8s.>"],"retention":"limits","storage":"file","discard":"old","duplicate_window":120000000000},"state":{}}`}
}

// refuse is an answer with an error of JetStream.
func refuse(code, errCode int, description string) answer {
	return answer{reply: fmt.Sprintf(`{"error":{"code":%d,"err_code":%d,"description":%q}}`, code, errCode, description)}
}

// newFake returns the address of a broker that does what no real one can be brought to do. script is called from
// several goroutines.
func newFake(t *testing.T, script func(subject string) answer) string {
	t.Helper()
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go serveFake(c, script)
		}
	}()
	return l.Addr().String()
}

func serveFake(c net.Conn, script func(subject string) answer) {
	defer c.Close()
	_, _ = fmt.Fprint(c, `INFO {"server_id":"M","version":"2.15.2","headers":true,"max_payload":1048576,"proto":1}`+"\r\n")
	lines := bufio.NewReader(c)
	sid := map[string]string{}
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			return
		}
		f := strings.Fields(line)
		switch {
		case len(f) == 0:
		case f[0] == "PING":
			_, _ = fmt.Fprint(c, "PONG\r\n")
		case f[0] == "SUB":
			sid[strings.TrimSuffix(f[1], "*")] = f[len(f)-1]
		case f[0] == "PUB" || f[0] == "HPUB":
			a := script(f[1])
			if a.cut {
				return
			}
			for inbox, id := range sid {
				if !strings.HasPrefix(f[2], inbox) {
					continue
				}
				for _, d := range a.messages {
					d.write(c, id)
				}
				if a.reply != "" {
					_, _ = fmt.Fprintf(c, "MSG %s %s %d\r\n%s\r\n", f[2], id, len(a.reply), a.reply)
				}
			}
		}
	}
}

// The answer to a request will not come when the connection it was made on is gone.
func TestSink_does_not_wait_for_a_check_of_the_stream_that_was_cut_off(t *testing.T) {
	t.Parallel()
	var checks atomic.Int32
	cfg := config(newFake(t, func(subject string) answer {
		if checks.Add(1) == 1 {
			return answer{cut: true}
		}
		return haveStream(subject)
	}))
	cfg.AckTimeout = time.Hour
	ready(t, newSink(t, cfg))
}

func TestSink_does_not_wait_for_a_last_message_that_was_cut_off(t *testing.T) {
	t.Parallel()
	cfg := config(newFake(t, func(subject string) answer {
		switch {
		case strings.HasPrefix(subject, lastSubject):
			return answer{cut: true}
		case strings.HasPrefix(subject, "k8s."):
			return refuse(400, 10071, "wrong last sequence: 3")
		default:
			return haveStream(subject)
		}
	}))
	cfg.AckTimeout = time.Hour
	s := readySink(t, cfg)
	m := message("k8s.a", "a.1")
	m.Verify = true
	r := publish(t, s, m)
	var conflict *sink.ConflictError
	assert.True(t, r.err != nil && !sink.IsPermanent(r.err) && !errors.As(r.err, &conflict) &&
		strings.Contains(r.err.Error(), "not connected"), "published: %v", r.err)
	assert.Equal(t, 0, s.Stats().InFlight, "slots are in use")
}

// Whether a repetition is the last of its subject is not known without an answer.
func TestSink_publishes_a_repetition_again_while_the_last_message_is_not_known(t *testing.T) {
	t.Parallel()
	var looked atomic.Int32
	s := readySink(t, config(newFake(t, func(subject string) answer {
		switch {
		case strings.HasPrefix(subject, lastSubject) && looked.Add(1) == 1:
			return refuse(503, 10008, "JetStream system temporarily unavailable")
		case strings.HasPrefix(subject, lastSubject):
			return answer{reply: `{"message":{"subject":"k8s.a","seq":3}}`}
		case strings.HasPrefix(subject, "k8s."):
			return answer{reply: `{"stream":"KUBERNETES","seq":3,"duplicate":true}`}
		default:
			return haveStream(subject)
		}
	})))
	r := publish(t, s, message("k8s.a", "a.1"))
	var conflict *sink.ConflictError
	assert.True(t, r.err != nil && !sink.IsPermanent(r.err) && !errors.As(r.err, &conflict) &&
		strings.Contains(r.err.Error(), "temporarily unavailable"), "without an answer: %+v", r)
	r = publish(t, s, message("k8s.a", "a.1"))
	assert.True(t, r.err == nil && r.rc == sink.Receipt{Sequence: 3, Duplicate: true}, "with one: %+v", r)
	assert.Equal(t, 0, s.Stats().InFlight, "slots are in use")
}

func TestSink_does_not_wait_for_an_acknowledgement_that_was_cut_off(t *testing.T) {
	t.Parallel()
	cfg := config(newFake(t, func(subject string) answer {
		if strings.HasPrefix(subject, "k8s.") {
			return answer{cut: true}
		}
		return haveStream(subject)
	}))
	cfg.AckTimeout = time.Hour
	s := readySink(t, cfg)
	if r := publish(t, s, message("k8s.a", "a.1")); r.err == nil || sink.IsPermanent(r.err) ||
		!strings.Contains(r.err.Error(), "not connected") {
		t.Errorf("published: %v", r.err)
	}
}

// In a replicated stream a message is also refused while another one of its subject is under way, which may come to
// nothing.
func TestSink_takes_a_refusal_without_another_message_for_a_reason_to_try_again(t *testing.T) {
	t.Parallel()
	s := newSink(t, config(newFake(t, func(subject string) answer {
		switch {
		case strings.HasPrefix(subject, lastSubject):
			return refuse(404, 10037, "no message found")
		case strings.HasPrefix(subject, "k8s."):
			return refuse(400, 10164, "wrong last sequence")
		default:
			return haveStream(subject)
		}
	})))
	ready(t, s)
	for previous, conflicts := range map[uint64]bool{0: false, 7: true} {
		m := message("k8s.a", "a.1")
		m.Verify, m.Previous = true, previous
		r := publish(t, s, m)
		var conflict *sink.ConflictError
		assert.True(t, r.err != nil && !sink.IsPermanent(r.err) && errors.As(r.err, &conflict) == conflicts,
			"after %d: %v", previous, r.err)
	}
}

// A cluster that misses a server now may have it later.
func TestSink_waits_for_the_servers_that_a_new_stream_needs(t *testing.T) {
	t.Parallel()
	var refused atomic.Bool
	s := newSink(t, config(newFake(t, func(subject string) answer {
		switch {
		case refused.Load():
			return haveStream(subject)
		case strings.HasPrefix(subject, createSubject):
			defer refused.Store(true)
			return refuse(400, 10005, "no suitable peers for placement")
		default:
			return refuse(404, 10059, "stream not found")
		}
	})))
	ready(t, s)
	assert.True(t, refused.Load(), "the stream was never created")
}
