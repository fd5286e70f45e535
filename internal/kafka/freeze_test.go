// SPDX-License-Identifier: Apache-2.0

package kafka

import (
	"context"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
	"github.com/kube-eventbridge/kube-eventbridge/internal/testcert"
	"github.com/stretchr/testify/assert"
)

// prompt is what a busy machine may take for what is done at once. Without a limit of ours kafka-go waits for 10 s and more.
const prompt = 5 * time.Second

// eventually polls until what is said holds.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	deadline := time.NewTimer(15 * time.Second)
	defer deadline.Stop()
	poll := time.NewTicker(5 * time.Millisecond)
	defer poll.Stop()
	for !holds() {
		select {
		case <-poll.C:
		case <-deadline.C:
			t.Fatal(what)
		}
	}
}

func TestClient_survives_a_broker_that_freezes_without_closing(t *testing.T) {
	t.Parallel()
	a := testcert.New(t)
	for name, at := range map[string]stage{"TLS handshake": handshaking, "versions": versions, "SASL handshake": naming, "SASL exchange": proving, "request": asking} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFake(t, func(f *fake) {
				f.tls, f.mechanisms = a.Server(t, nil), []string{ScramSHA256, Plain}
				f.frozen.Store(int32(at))
			})
			const timeout = 2 * time.Second
			c := must.Get(NewClient(Config{
				Brokers: []string{f.addr()}, Timeout: timeout, TLS: TLS{CAFile: a.File}, Auth: Auth{Mechanism: Plain, User: "bridge", Password: "secret"},
			}))(t)
			defer c.Close()
			for range 2 {
				begin := time.Now()
				if _, err := c.Topics(t.Context()); !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, os.ErrDeadlineExceeded) {
					t.Errorf("it fails with %v", err)
				}
				if took := time.Since(begin); took < timeout/2 || took > timeout+prompt {
					t.Errorf("it fails after %v", took)
				}
			}
			f.frozen.Store(int32(never))
			begin := time.Now()
			if _, err := c.Topics(t.Context()); err != nil {
				t.Errorf("back again: %v", err)
			}
			assert.LessOrEqual(t, time.Since(begin), timeout+prompt, "back again, it takes")
			c.Close()
			eventually(t, "a frozen connection is held for ever", func() bool { return f.open.Load() == 0 })
		})
	}
}
