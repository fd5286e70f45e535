// SPDX-License-Identifier: Apache-2.0

package kafkasecurity

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kube-eventbridge/kube-eventbridge/integration/internal/rig"
	"github.com/kube-eventbridge/kube-eventbridge/internal/kafka"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
)

func TestClient_proves_who_it_is(t *testing.T) {
	t.Parallel()
	c := cluster(t)
	trusting := kafka.TLS{CAFile: c.CAFile()}
	for _, mechanism := range kafka.Mechanisms() {
		t.Run(mechanism, func(t *testing.T) {
			works(t, client(t, c, "SASL_PLAINTEXT", kafka.Config{Auth: auth(t, c, mechanism, "alice", "wonderland")}))
		})
		t.Run(mechanism+" over TLS", func(t *testing.T) {
			works(t, client(t, c, "SASL_SSL", kafka.Config{Auth: auth(t, c, mechanism, "alice", "wonderland"), TLS: trusting}))
		})
	}
	t.Run("no user", func(t *testing.T) { works(t, client(t, c, "PLAINTEXT", kafka.Config{})) })
	t.Run("no user over TLS", func(t *testing.T) { works(t, client(t, c, "SSL", kafka.Config{TLS: trusting})) })
	for _, listener := range []string{"MTLS", "MTLS12"} {
		t.Run(listener, func(t *testing.T) {
			cert, key := must.Get2(c.Certificate("alice"))(t)
			works(t, client(t, c, listener, kafka.Config{TLS: kafka.TLS{CAFile: c.CAFile(), CertFile: cert, KeyFile: key}}))
		})
	}
}

func TestClient_fetches_tokens_as_itself(t *testing.T) {
	t.Parallel()
	c := cluster(t)
	var asked atomic.Int64
	issuer := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if user, password, _ := r.BasicAuth(); user != "bridge" || password != "hunter2" {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusUnauthorized)
			_, _ = fmt.Fprint(w, `{"error":"invalid_client"}`)
			return
		}
		asked.Add(1)
		issue(w, c, time.Hour)
	}))
	defer issuer.Close()
	as := func(secret string) kafka.Config {
		return kafka.Config{Auth: kafka.Auth{
			Mechanism: kafka.OAuthBearer, TokenURL: issuer.URL, ClientID: "bridge",
			ClientSecret: secret,
		}}
	}
	works(t, client(t, c, "SASL_PLAINTEXT", as("hunter2")))
	assert.EqualValues(t, 1, asked.Load(), "tokens were fetched")
	_, err := client(t, c, "SASL_PLAINTEXT", as("hunter3")).Topics(t.Context())
	wantError(t, c, "SASL_PLAINTEXT", err,
		"ask for topics: fetch a token: "+issuer.URL+" says 401 Unauthorized: invalid_client")
}

// What was renewed in its file is used for the next connection.
func TestClient_takes_a_renewed_token_and_certificate(t *testing.T) {
	t.Parallel()
	c := cluster(t)
	t.Run("token", func(t *testing.T) {
		f := tokenFile(t, token(t, c, "alice", -time.Minute))
		cl := client(t, c, "SASL_PLAINTEXT", kafka.Config{Auth: kafka.Auth{Mechanism: kafka.OAuthBearer, TokenFile: f}})
		require.Error(t, must.Err(cl.Topics(t.Context())), "an expired token was taken")
		require.NoError(t, os.WriteFile(f, []byte(token(t, c, "alice", time.Hour)), 0o600))
		rig.Try(t, "come in", seesTopic(t, cl))
	})
	t.Run("certificate", func(t *testing.T) {
		_, cert, key := stranger(t, "alice")
		cl := client(t, c, "MTLS", kafka.Config{TLS: kafka.TLS{CAFile: c.CAFile(), CertFile: cert, KeyFile: key}})
		require.Error(t, must.Err(cl.Topics(t.Context())), "a stranger's certificate was taken")
		newCert, newKey := must.Get2(c.Certificate("alice"))(t)
		for to, from := range map[string]string{cert: newCert, key: newKey} {
			content := must.Get(os.ReadFile(from))(t)
			require.NoError(t, os.WriteFile(to, content, 0o600))
		}
		rig.Try(t, "come in", seesTopic(t, cl))
	})
}
