// SPDX-License-Identifier: Apache-2.0

package nats_test

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	gonats "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
	"github.com/kube-eventbridge/kube-eventbridge/internal/natsclient"
	"github.com/kube-eventbridge/kube-eventbridge/sink"
	"github.com/kube-eventbridge/kube-eventbridge/sink/nats"
)

// otherProcess starts a server in a process of its own, whose time is not ours.
func otherProcess(b *testing.B) (url string) {
	b.Helper()
	c := exec.Command(os.Args[0])
	c.Env = append(os.Environ(), serverDir+"="+b.TempDir())
	c.Stderr = os.Stderr
	in := must.Get(c.StdinPipe())(b)
	out := must.Get(c.StdoutPipe())(b)
	require.NoError(b, c.Start())
	b.Cleanup(func() { _ = in.Close(); _ = c.Wait() })
	line := must.Get(bufio.NewReader(out).ReadString('\n'))(b)
	return strings.TrimSpace(line)
}

// event returns the n-th message: 4 KB and 20 attributes.
func event(n int) *sink.Message {
	id := fmt.Sprintf("0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0.%d", 1_000_000+n)
	return &sink.Message{
		Subject: fmt.Sprintf("k8s.prod.core.pods.default.web-%d", n%1000), ID: "0123456789abcdef." + id,
		ContentType: "application/json",
		Data:        bytes.Repeat([]byte("x"), 4096),
		Attributes: []sink.Attribute{
			{Name: "specversion", Value: "1.0"},
			{Name: "id", Value: id},
			{Name: "source", Value: "/clusters/prod/api/v1/pods"},
			{Name: "type", Value: "io.kube-eventbridge.resource.updated.v1"},
			{Name: "subject", Value: "default/web-17"},
			{Name: "time", Value: "2026-01-02T03:04:05Z"},
			{Name: "datacontenttype", Value: "application/json"},
			{Name: "payload", Value: "object"},
			{Name: "pipeline", Value: "audit"},
			{Name: "apiversion", Value: "v1"},
			{Name: "kind", Value: "Pod"},
			{Name: "namespace", Value: "default"},
			{Name: "name", Value: "web-17"},
			{Name: "objectuid", Value: "0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0"},
			{Name: "resourceversion", Value: "1000017"},
			{Name: "clustername", Value: "prod"},
			{Name: "partitionkey", Value: "prod/core/pods/default/web-17"},
			{Name: "sequence", Value: "00000000000001000017"},
			{Name: "recordedtime", Value: "2026-01-02T03:04:05.678901Z"},
			{Name: "reason", Value: "watch"},
		},
	}
}

// measure reports the processor time of this process for each message.
func measure(b *testing.B, f func()) {
	b.Helper()
	b.ReportAllocs()
	b.SetBytes(4096)
	var before, after syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &before)
	b.ResetTimer()
	f()
	b.StopTimer()
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &after)
	spent := time.Duration(after.Utime.Nano() + after.Stime.Nano() - before.Utime.Nano() - before.Stime.Nano())
	b.ReportMetric(float64(spent.Microseconds())/float64(b.N), "cpu-µs/op")
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "msg/s")
}

func BenchmarkPublish(b *testing.B) {
	url := otherProcess(b)
	const window = 512
	batch := 0
	events := func(b *testing.B) []*sink.Message {
		// What the messages share keeps the garbage collector out of the measurement.
		kinds := make([]*sink.Message, 1000)
		for i := range kinds {
			kinds[i] = event(i)
		}
		memory := make([]sink.Message, b.N)
		all := make([]*sink.Message, b.N)
		for i := range all {
			memory[i] = *kinds[i%len(kinds)]
			all[i] = &memory[i]
			all[i].ID = fmt.Sprintf("0123456789abcdef.%d.%d", batch, i)
		}
		batch++
		b.Cleanup(func() { clear(memory) })
		return all
	}
	b.Run("sink", func(b *testing.B) {
		s, err := nats.New(nats.Config{
			Client: natsclient.Config{Servers: []string{url}}, Stream: stream,
			Subjects: []string{"k8s.>"}, Window: window,
		}, nil)
		require.NoError(b, err)
		publishAll(b, s, s, events(b))
	})
	b.Run("sink with retry", func(b *testing.B) {
		s, err := nats.New(nats.Config{
			Client: natsclient.Config{Servers: []string{url}}, Stream: stream,
			Subjects: []string{"k8s.>"}, Window: window,
		}, nil)
		require.NoError(b, err)
		r := sink.Retry(s, sink.Policy{})
		ended := make(chan struct{})
		go func() { _ = r.Run(b.Context()); close(ended) }()
		b.Cleanup(func() { <-ended })
		publishAll(b, s, r, events(b))
	})
	b.Run("PublishMsgAsync", func(b *testing.B) {
		nc := must.Get(gonats.Connect(url))(b)
		defer nc.Close()
		js := must.Get(jetstream.New(nc, jetstream.WithPublishAsyncMaxPending(window)))(b)
		if _, err := js.CreateOrUpdateStream(b.Context(),
			jetstream.StreamConfig{Name: stream, Subjects: []string{"k8s.>"}, AllowDirect: true}); err != nil {
			b.Fatal(err)
		}
		all := events(b)
		measure(b, func() {
			for _, m := range all {
				msg := gonats.NewMsg(m.Subject)
				msg.Data = m.Data
				msg.Header["Nats-Msg-Id"] = []string{m.ID}
				msg.Header["Nats-Expected-Stream"] = []string{stream}
				for _, a := range m.Attributes {
					msg.Header["ce-"+a.Name] = []string{a.Value}
				}
				must.Get(js.PublishMsgAsync(msg, jetstream.WithStallWait(time.Minute)))(b)
			}
			<-js.PublishAsyncComplete()
		})
	})
}

func publishAll(b *testing.B, s *nats.Sink, p sink.Publisher, all []*sink.Message) {
	b.Helper()
	ended := make(chan struct{})
	go func() { _ = s.Run(b.Context()); close(ended) }()
	b.Cleanup(func() { <-ended })
	must.Happen(b, "ready", func() bool { return s.Ready() == nil })
	var pending sync.WaitGroup
	done := func(_ sink.Receipt, err error) {
		assert.NoError(b, err)
		pending.Done()
	}
	measure(b, func() {
		pending.Add(len(all))
		for _, m := range all {
			p.Publish(b.Context(), m, done)
		}
		pending.Wait()
	})
}
