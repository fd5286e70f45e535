// SPDX-License-Identifier: Apache-2.0

package kafkasecurity

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kube-eventbridge/kube-eventbridge/integration/internal/pause"
	"github.com/kube-eventbridge/kube-eventbridge/integration/internal/rig"
	"github.com/kube-eventbridge/kube-eventbridge/internal/kafka"
)

// sessions is how many sessions of a client have to end before a test believes that it goes on.
const sessions = 2

// A session that is over ends with the connection, and without a word. Whoever repeats the request once has a new one.
func TestClient_goes_on_when_its_session_is_over(t *testing.T) {
	t.Parallel()
	c := cluster(t)
	issuer := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		issue(w, c, 4*time.Second)
	}))
	t.Cleanup(issuer.Close)
	trusting := kafka.TLS{CAFile: c.CAFile()}
	for name, v := range map[string]struct {
		listener string
		cfg      kafka.Config
	}{
		"PLAIN": {"SHORT", kafka.Config{Auth: auth(t, c, kafka.Plain, "alice", "wonderland")}},
		"SCRAM-SHA-256 over TLS": {"SHORTTLS", kafka.Config{
			Auth: auth(t, c, kafka.ScramSHA256, "alice", "wonderland"), TLS: trusting,
		}},
		"OAUTHBEARER over TLS": {"SASL_SSL", kafka.Config{TLS: trusting, Auth: kafka.Auth{
			Mechanism: kafka.OAuthBearer, TokenURL: issuer.URL, ClientID: "bridge", ClientSecret: "s",
		}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cl := client(t, c, v.listener, v.cfg)
			p := newProducer(t, cl)
			first, ended, began := int64(-1), 0, time.Now()
			var sent []string
			for ; ended < sessions; _ = pause.For(t.Context(), 20*time.Millisecond) {
				require.LessOrEqual(t, time.Since(began), time.Minute,
					"%d sessions have ended, want %d", ended, sessions)
				value := fmt.Sprintf("%s %d", t.Name(), len(sent))
				p.fill(value)
				sent = append(sent, value)
				offset, again := p.sendThroughEnd(t)
				if again {
					ended++
				}
				if first < 0 {
					first = offset
				}
			}
			got := readBack(t, cl, first, t.Name())
			assert.Equal(t, sent, got, "sent %d records, read %d back, or in another order", len(sent), len(got))
		})
	}
}

// sendThroughEnd sends a record, again if the session was over. On a machine that is so slow that the attempt with the
// new session outlasts that, it sends it once more.
func (p *producer) sendThroughEnd(t *testing.T) (offset int64, again bool) {
	t.Helper()
	for {
		began := time.Now()
		offset, err := p.send(t.Context())
		switch {
		case err == nil:
			return offset, again
		case !isHangUp(err.Error()):
			t.Fatalf("more is said than that the connection was closed: %v", err)
		case again && time.Since(began) < time.Second:
			t.Fatalf("with a new session it fails again: %v", err)
		}
		again = true
	}
}

// The library keeps the reason to itself while it knows no broker: a request ends as if there were no topic.
func TestClient_says_that_its_token_has_expired_until_it_is_renewed(t *testing.T) {
	t.Parallel()
	c := cluster(t)
	f := tokenFile(t, token(t, c, "alice", time.Hour))
	began := time.Now()
	cfg := kafka.Config{Auth: kafka.Auth{Mechanism: kafka.OAuthBearer, TokenFile: f}}
	works(t, client(t, c, "SASL_PLAINTEXT", cfg))
	// A token must outlive the time that a busy machine takes for its first use.
	lifetime := 3*time.Second + 10*time.Since(began)
	require.NoError(t, os.WriteFile(f, []byte(token(t, c, "alice", lifetime)), 0o600))
	p := newProducer(t, client(t, c, "SASL_PLAINTEXT", cfg))
	p.fill("expiring")
	send := func() string {
		_ = pause.For(t.Context(), 20*time.Millisecond)
		if _, err := p.send(t.Context()); err != nil {
			return err.Error()
		}
		p.fill("expiring")
		return ""
	}
	const want = `produce to secured/0: the broker refuses the token: {"status":"invalid_token"}`
	began = time.Now()
	for text := send(); text != want; text = send() {
		require.True(t, text == "" || isHangUp(text), "before the refusal it says %s", text)
		require.LessOrEqual(t, time.Since(began), lifetime+time.Minute, "the token does not expire")
	}
	for range 20 {
		require.Equal(t, want, send(), "after the refusal")
	}
	require.NoError(t, os.WriteFile(f, []byte(token(t, c, "alice", time.Hour)), 0o600))
	rig.Try(t, "send with the renewed token", func() error {
		if text := send(); text != "" {
			return errors.New(text)
		}
		return nil
	})
}

// isHangUp reports whether an error says only that the connection was closed.
func isHangUp(text string) bool {
	return strings.HasPrefix(text, "produce to "+topic+"/0: the broker closed the connection; ")
}

// readBack returns the values that begin with prefix, from an offset to the end.
func readBack(t *testing.T, cl *kafka.Client, offset int64, prefix string) (values []string) {
	t.Helper()
	failed := false
	for end := offset + 1; offset < end; {
		var err error
		offset, end, err = cl.Fetch(t.Context(), topic, 0, offset, func(r *kafka.Record) error {
			if strings.HasPrefix(string(r.Value), prefix+" ") {
				values = append(values, string(r.Value))
			}
			return nil
		})
		if err != nil {
			require.True(t, strings.HasSuffix(err.Error(), "EOF"), "%v", err)
			require.False(t, failed, "%v", err)
			end = offset + 1
		}
		failed = err != nil
	}
	return values
}
