// SPDX-License-Identifier: Apache-2.0

package kafkasecurity

import (
	"context"
	"fmt"
	"maps"
	"regexp"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kube-eventbridge/kube-eventbridge/integration/internal/pause"
	"github.com/kube-eventbridge/kube-eventbridge/integration/internal/rig"
	"github.com/kube-eventbridge/kube-eventbridge/integration/kafkabroker"
	"github.com/kube-eventbridge/kube-eventbridge/internal/kafka"
)

// What a broker does to its clients while it goes and comes must not look like somebody's mistake.
func TestClient_takes_no_restart_for_a_mistake(t *testing.T) {
	t.Parallel()
	c := kafkabroker.ForTest(t, kafkabroker.Config{
		Listeners: append(kafkabroker.EveryListener(), kafkabroker.Listener{
			Name: "SASLMTLS", Protocol: kafkabroker.SASLTLS,
			ClientCertificate: true,
		}),
		Users: map[string]string{"alice": "wonderland"},
	})
	require.NoError(t, c.CreateTopic(t.Context(), topic, 1, 0, nil))
	cert, key, err := c.Certificate("alice")
	require.NoError(t, err)
	as := kafka.Auth{Mechanism: kafka.ScramSHA512, User: "alice", Password: "wonderland"}
	trusting := kafka.TLS{CAFile: c.CAFile()}
	certified := kafka.TLS{CAFile: c.CAFile(), CertFile: cert, KeyFile: key}
	ctx, stop := context.WithCancel(t.Context())
	var all sync.WaitGroup
	said := &sayings{texts: map[string]int{}, last: map[string]string{}, times: map[outcome]int{}}
	clients := map[string]kafka.Config{
		"PLAINTEXT": {}, "SSL": {TLS: trusting}, "MTLS": {TLS: certified}, "SASL_PLAINTEXT": {Auth: as},
		"SASL_SSL": {Auth: as, TLS: trusting},
		"SASLMTLS": {Auth: as, TLS: certified},
	}
	for listener := range clients {
		said.last[listener] = "nothing was sent"
	}
	for listener, cfg := range clients {
		cfg.Timeout = 2 * time.Second
		p := newProducer(t, client(t, c, listener, cfg))
		p.fill("v")
		all.Go(func() { said.listen(ctx, listener, p) })
	}
	for _, end := range []func() error{
		func() error { return c.Kill(0) },
		func() error { return c.Stop(t.Context(), 0) },
		func() error { return c.Pause(0) },
	} {
		said.await(t, true)
		require.NoError(t, end())
		said.await(t, false)
		if c.PID(0) == 0 {
			require.NoError(t, c.Restart(t.Context(), 0))
		} else {
			require.NoError(t, c.Resume(0))
		}
		for listener, cfg := range map[string]kafka.Config{"PLAINTEXT": {}, "SASLMTLS": {Auth: as, TLS: certified}} {
			rig.Try(t, "come back to "+listener, seesTopic(t, client(t, c, listener, cfg)))
		}
	}
	said.await(t, true) // a broker that was paused may lose its leadership once more behind that
	stop()
	all.Wait()
	said.judge(t)
}

// sayings are the errors of clients, and how often they were heard.
type sayings struct {
	mu    sync.Mutex
	texts map[string]int
	last  map[string]string
	times map[outcome]int
}

// outcome is whether a listener's client has sent a record.
type outcome struct {
	listener string
	sent     bool
}

// await waits until each listener's client has sent another record, or has failed to once more.
func (s *sayings) await(t *testing.T, sent bool) {
	t.Helper()
	s.mu.Lock()
	before := maps.Clone(s.times)
	s.mu.Unlock()
	rig.Poll(t, fmt.Sprintf("each listener, with sent %v", sent), func() (bool, string) {
		s.mu.Lock()
		defer s.mu.Unlock()
		for listener := range s.last {
			if at := (outcome{listener, sent}); s.times[at] == before[at] {
				return false, listener + " says " + s.last[listener]
			}
		}
		return true, ""
	})
}

var port = regexp.MustCompile(`127\.0\.0\.1:\d+`)

// listen sends one record after the other until ctx ends.
func (s *sayings) listen(ctx context.Context, listener string, p *producer) {
	for {
		_, err := p.send(ctx)
		if ctx.Err() != nil {
			return
		}
		s.hear(listener, err)
		if err == nil {
			p.fill("v")
		}
		_ = pause.For(ctx, 20*time.Millisecond) // its end ends the loop
	}
}

func (s *sayings) hear(listener string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last[listener] = ""
	s.times[outcome{listener, err == nil}]++
	if err != nil {
		text := port.ReplaceAllString(err.Error(), "ADDR")
		s.texts[text]++
		s.last[listener] = text
	}
}

func (s *sayings) judge(t *testing.T) {
	t.Helper()
	assert.NotEmpty(t, s.texts, "nothing failed: nothing was tried")
	for text, n := range s.texts {
		t.Logf("%5d  %s", n, text)
		for _, mistake := range []string{"configured", "offer", "credentials", "certificate", "ACL", "refuses the"} {
			assert.NotContains(t, text, mistake, "a restart is taken for a mistake")
		}
	}
}
