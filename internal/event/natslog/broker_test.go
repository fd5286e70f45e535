// SPDX-License-Identifier: Apache-2.0

package natslog_test

import (
	"context"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	gonats "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/kube-eventbridge/kube-eventbridge/internal/event"
	"github.com/kube-eventbridge/kube-eventbridge/internal/event/natslog"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
	"github.com/kube-eventbridge/kube-eventbridge/internal/port"
	"github.com/kube-eventbridge/kube-eventbridge/internal/tail"
	"github.com/kube-eventbridge/kube-eventbridge/internal/tail/tailtest"
	"github.com/kube-eventbridge/kube-eventbridge/internal/testtier"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// broker is a NATS server that can be stopped and started again at the same place.
type broker struct {
	t    *testing.T
	port int
	dir  string
	auth string
	// users are the only ones that there are, if there are any.
	users []*server.User
	// login is what clients put before the address.
	login string
	// bare is a server without JetStream.
	bare bool
	// subjects are the only ones that are read, if there are any.
	subjects []string
	s        *server.Server
}

// beginning is the oldest event.
var beginning = event.Start{Beginning: true}

func newBroker(t *testing.T) *broker {
	t.Helper()
	testtier.Servers(t)
	b := &broker{t: t, dir: t.TempDir(), port: must.Get(port.Free())(t)}
	t.Cleanup(b.stop)
	return b
}

func (b *broker) start() *broker {
	b.t.Helper()
	s := must.Get(server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: b.port, JetStream: !b.bare, StoreDir: b.dir, NoSigs: true, NoLog: true,
		Authorization: b.auth, Users: b.users,
	}))(b.t)
	s.Start()
	b.s = s
	require.True(b.t, s.ReadyForConnections(time.Minute), "the broker does not start")
	return b
}

func (b *broker) stop() {
	if b.s != nil {
		b.s.Shutdown()
		b.s.WaitForShutdown()
		b.s = nil
	}
}

func (b *broker) url() string { return "nats://" + b.login + "127.0.0.1:" + strconv.Itoa(b.port) }

// stream creates the stream KUBERNETES.
func (b *broker) stream(change ...func(*jetstream.StreamConfig)) *broker {
	b.t.Helper()
	b.use(func(js jetstream.JetStream) error { return createStream(b.t.Context(), js, change...) })
	return b
}

func createStream(ctx context.Context, js jetstream.JetStream, change ...func(*jetstream.StreamConfig)) error {
	cfg := jetstream.StreamConfig{Name: "KUBERNETES", Subjects: []string{"k8s.>"}, AllowDirect: true}
	for _, c := range change {
		c(&cfg)
	}
	_, err := js.CreateStream(ctx, cfg)
	return err
}

// use calls f with a connection of its own until it succeeds: after a start the server takes a moment.
func (b *broker) use(f func(jetstream.JetStream) error) {
	b.t.Helper()
	nc, err := gonats.Connect(b.url())
	require.NoError(b.t, err)
	defer nc.Close()
	js := must.Get(jetstream.New(nc, jetstream.WithDefaultTimeout(30*time.Second)))(b.t)
	must.Happen(b.t, "the broker serves", func() bool { err = f(js); return err == nil })
}

// publish stores an event of deployment shop/<name> at version with the given number of replicas.
func (b *broker) publish(op event.Op, name string, version, replicas int) {
	b.t.Helper()
	b.store("k8s.east.apps.deployments.shop."+name, op, fmt.Sprintf(`{"spec":{"replicas":%d}}`, replicas),
		map[string]string{
			"id": fmt.Sprintf("u-%s.%d", name, version), "name": name, "subject": "shop/" + name, "objectuid": "u-" + name,
			"resourceversion": strconv.Itoa(version),
		})
}

func (b *broker) store(subject string, op event.Op, data string, with map[string]string) {
	b.t.Helper()
	b.use(func(js jetstream.JetStream) error {
		_, err := js.PublishMsg(b.t.Context(), asMessage(subject, op, data, with))
		return err
	})
}

func asMessage(subject string, op event.Op, data string, with map[string]string) *gonats.Msg {
	return &gonats.Msg{Subject: subject, Header: header(op, with), Data: []byte(data)}
}

// header returns the headers of an event of an object of namespace shop; with replaces attributes, and removes them
// where empty.
func header(op event.Op, with map[string]string) gonats.Header {
	as := map[string]string{
		"specversion": "1.0", "id": "u1.1795212000.7.0", "type": "io.kube-eventbridge.resource." + string(op) + ".v1",
		"source": "/clusters/east/apis/apps/v1/deployments", "subject": "shop/web", "namespace": "shop", "name": "web",
		"objectuid": "u1",
		"pipeline":  "audit", "resourceversion": "7", "reason": "watch", "payload": "object", "fieldmanager": "kubectl",
		"time": "2026-11-20T14:30:04Z", "recordedtime": "2026-11-20T14:30:05.250Z", "datacontenttype": "application/json",
	}
	maps.Copy(as, with)
	h := make(gonats.Header)
	for name, value := range as {
		if value != "" {
			h["ce-"+name] = []string{value}
		}
	}
	return h
}

// tail runs until the test or stop ends it.
func (b *broker) tail(cfg tail.Config) (s *tailtest.Screen, stop func()) {
	b.t.Helper()
	return b.tailAfter(cfg, func(*natslog.Log) {})
}

// tailAfter is tail with a log that prepare has had.
func (b *broker) tailAfter(cfg tail.Config, prepare func(*natslog.Log)) (s *tailtest.Screen, stop func()) {
	b.t.Helper()
	s = new(tailtest.Screen)
	log := must.Get(natslog.Connect(natslog.Config{
		Servers: []string{b.url()}, Stream: "KUBERNETES", Subjects: b.subjects, Wait: cfg.Follow,
		Pause: 10 * time.Millisecond, Notice: s.Notice,
	}))(b.t)
	prepare(log)
	return s, s.Tail(b.t, log, cfg, log.Close)
}

// only returns b, of which only these subjects are read.
func (b *broker) only(subjects ...string) *broker {
	c := *b
	c.subjects = subjects
	return &c
}

func (b *broker) expect(s *tailtest.Screen, want ...string) {
	b.t.Helper()
	text := strings.Join(want, "\n")
	defer func() {
		if b.t.Failed() {
			b.t.Logf("got\n%s\nnotices\n%s", s.Text(), s.Said())
		}
	}()
	must.Happen(b.t, "lines\n"+text, func() bool { return s.Text() == text })
}

// read shows what the log has without following it.
func (b *broker) read(cfg tail.Config, want ...string) *tailtest.Screen {
	b.t.Helper()
	s, _ := b.tail(cfg)
	must.Happen(b.t, "the end of the log", func() bool { ended, _ := s.End(); return ended })
	require.NoError(b.t, must.Err(s.End()))
	if got, want := s.Text(), strings.Join(want, "\n"); got != want {
		b.t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	return s
}
