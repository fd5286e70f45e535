// SPDX-License-Identifier: Apache-2.0

package kafka

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"net"
	"os"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/apiversions"
	"github.com/segmentio/kafka-go/protocol/listoffsets"
	"github.com/segmentio/kafka-go/protocol/metadata"
	"github.com/segmentio/kafka-go/protocol/saslauthenticate"
	"github.com/segmentio/kafka-go/protocol/saslhandshake"
	"github.com/stretchr/testify/assert"
	"go.uber.org/goleak"

	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
	"github.com/kube-eventbridge/kube-eventbridge/internal/testcert"
)

// stage is how far a connection comes.
type stage int32

const (
	never stage = iota
	handshaking
	versions
	naming
	proving
	asking
)

// fake is a broker that knows one topic at most, in which there is nothing, and guards its door as real ones do.
type fake struct {
	t *testing.T
	l net.Listener

	// tls is nil for none, mechanisms are nil for none.
	tls        *tls.Config
	mechanisms []string
	// prove judges what a client says in a mechanism; nil takes everything.
	prove func(said []byte) *saslauthenticate.Response

	// leader leads the only partition of the topic t in the epoch, where that is not 0. The fake is broker 1.
	leader, epoch atomic.Int32

	// frozen is the stage at which it says nothing any more; it reads on, to see when the client gives up.
	frozen atomic.Int32
	// shut says that it closes connections at once.
	shut atomic.Bool
	// accepted and open count connections.
	accepted, open atomic.Int64

	mu    sync.Mutex
	conns map[net.Conn]bool
	all   sync.WaitGroup
}

// newFake starts a broker that ends with the test.
func newFake(t *testing.T, change func(*fake)) *fake {
	t.Helper()
	f := &fake{t: t, conns: map[net.Conn]bool{}}
	var lc net.ListenConfig
	f.l = must.Get(lc.Listen(t.Context(), "tcp", "127.0.0.1:0"))(t)
	if change != nil {
		change(f)
	}
	f.all.Go(f.accept)
	t.Cleanup(func() {
		_ = f.l.Close()
		f.cut()
		f.all.Wait()
	})
	return f
}

func (f *fake) addr() string { return f.l.Addr().String() }

// cut closes all connections.
func (f *fake) cut() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for c := range f.conns {
		_ = c.Close()
	}
}

func (f *fake) accept() {
	for {
		c, err := f.l.Accept()
		if err != nil {
			return
		}
		f.mu.Lock()
		f.conns[c] = true
		f.mu.Unlock()
		f.accepted.Add(1)
		f.open.Add(1)
		f.all.Go(func() {
			f.serve(c)
			f.open.Add(-1)
			_ = c.Close()
			f.mu.Lock()
			defer f.mu.Unlock()
			delete(f.conns, c)
		})
	}
}

// freezes reports whether it says nothing at a stage, once the client has given up.
func (f *fake) freezes(at stage, c net.Conn) bool {
	if stage(f.frozen.Load()) != at {
		return false
	}
	for b := make([]byte, 1024); ; {
		if _, err := c.Read(b); err != nil {
			return true
		}
	}
}

func (f *fake) serve(raw net.Conn) {
	c := raw
	if f.shut.Load() || f.freezes(handshaking, raw) {
		return
	}
	if f.tls != nil {
		c = tls.Server(raw, f.tls)
		if err := c.(*tls.Conn).HandshakeContext(f.t.Context()); err != nil {
			return
		}
	}
	r := bufio.NewReader(c)
	known := f.mechanisms == nil
	for {
		// As large as a broker takes; what speaks TLS announces more.
		if head, err := r.Peek(4); err != nil || binary.BigEndian.Uint32(head) > 100<<20 {
			return
		}
		version, id, _, request, err := protocol.ReadRequest(r)
		if err != nil {
			return
		}
		at, answer := f.answer(request, &known)
		if f.freezes(at, raw) || answer == nil {
			return
		}
		if err := protocol.WriteResponse(c, version, id, answer); err != nil {
			return
		}
		if refuses(answer) {
			return
		}
	}
}

// refuses reports whether a broker closes the connection after an answer.
func refuses(m protocol.Message) bool {
	switch m := m.(type) {
	case *saslhandshake.Response:
		return m.ErrorCode == int16(kafkago.UnsupportedSASLMechanism)
	case *saslauthenticate.Response:
		return m.ErrorCode != 0
	default:
		return false
	}
}

// answer returns nil where a broker closes the connection.
func (f *fake) answer(request protocol.Message, known *bool) (stage, protocol.Message) {
	switch request := request.(type) {
	case *apiversions.Request:
		keys := []apiversions.ApiKeyResponse{}
		for key, newest := range map[protocol.ApiKey]int16{
			protocol.ApiVersions: 2, protocol.SaslHandshake: 1, protocol.SaslAuthenticate: 1, protocol.Metadata: 8,
			protocol.Produce: 8, protocol.ListOffsets: 5,
		} {
			keys = append(keys, apiversions.ApiKeyResponse{ApiKey: int16(key), MaxVersion: newest})
		}
		return versions, &apiversions.Response{ApiKeys: keys}
	case *saslhandshake.Request:
		answer := &saslhandshake.Response{Mechanisms: f.mechanisms}
		switch {
		case f.mechanisms == nil:
			answer.ErrorCode = int16(kafkago.IllegalSASLState)
		case !slices.Contains(f.mechanisms, request.Mechanism):
			answer.ErrorCode = int16(kafkago.UnsupportedSASLMechanism)
		}
		return naming, answer
	case *saslauthenticate.Request:
		answer := &saslauthenticate.Response{}
		if f.prove != nil {
			answer = f.prove(request.AuthBytes)
		}
		*known = answer.ErrorCode == 0 && len(answer.AuthBytes) == 0
		return proving, answer
	case *metadata.Request:
		if !*known {
			return asking, nil
		}
		return asking, f.metadata()
	case *listoffsets.Request:
		p := listoffsets.ResponsePartition{Timestamp: -1}
		if f.leader.Load() != 1 {
			p.ErrorCode = int16(kafkago.NotLeaderForPartition)
		}
		return asking, &listoffsets.Response{
			Topics: []listoffsets.ResponseTopic{{Topic: "t", Partitions: []listoffsets.ResponsePartition{p}}},
		}
	default:
		f.t.Errorf("asked for %T", request)
		return asking, nil
	}
}

func (f *fake) metadata() *metadata.Response {
	host, port, _ := net.SplitHostPort(f.addr())
	number, _ := strconv.Atoi(port)
	m := &metadata.Response{
		Brokers:      []metadata.ResponseBroker{{NodeID: 1, Host: host, Port: int32(number)}}, //nolint:gosec // it is a port
		ControllerID: 1,
	}
	if epoch := f.epoch.Load(); epoch != 0 {
		p := metadata.ResponsePartition{LeaderID: f.leader.Load(), LeaderEpoch: epoch}
		m.Topics = []metadata.ResponseTopic{{Name: "t", Partitions: []metadata.ResponsePartition{p}}}
	}
	return m
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// prompt is what a busy machine may take for what is done at once. Without a limit of ours kafka-go waits for 10 s and
// more.
const prompt = 5 * time.Second

func TestClient_survives_a_broker_that_freezes_without_closing(t *testing.T) {
	t.Parallel()
	a := testcert.ForTest(t, "test")
	for name, at := range map[string]stage{
		"TLS handshake": handshaking, "versions": versions, "SASL handshake": naming,
		"SASL exchange": proving, "request": asking,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFake(t, func(f *fake) {
				f.tls, f.mechanisms = a.Serve(t, nil), []string{ScramSHA256, Plain}
				f.frozen.Store(int32(at))
			})
			const timeout = 2 * time.Second
			c := must.Get(NewClient(Config{
				Brokers: []string{f.addr()}, Timeout: timeout, TLS: TLS{CAFile: a.File},
				Auth: Auth{Mechanism: Plain, User: "bridge", Password: "secret"},
			}))(t)
			defer c.Close()
			for range 2 {
				must.Prompt(t, "failing", timeout+prompt, func() time.Duration {
					begin := time.Now()
					if _, err := c.Topics(t.Context()); !errors.Is(err, context.DeadlineExceeded) &&
						!errors.Is(err, os.ErrDeadlineExceeded) {
						t.Errorf("it fails with %v", err)
					}
					took := time.Since(begin)
					assert.GreaterOrEqual(t, took, timeout/2, "failing")
					return took
				})
			}
			f.frozen.Store(int32(never))
			must.Happen(t, "it does not come back", func() bool {
				_, err := c.Topics(t.Context())
				return err == nil
			})
			c.Close()
			must.Happen(t, "the frozen connections to be closed", func() bool { return f.open.Load() == 0 })
		})
	}
}
