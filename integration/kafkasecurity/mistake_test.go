// SPDX-License-Identifier: Apache-2.0

package kafkasecurity

import (
	"testing"
	"time"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kube-eventbridge/kube-eventbridge/internal/kafka"
	"github.com/kube-eventbridge/kube-eventbridge/internal/kafka/batch"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
)

func TestClient_says_which_mistake_it_is(t *testing.T) {
	t.Parallel()
	c := cluster(t)
	trusting := kafka.TLS{CAFile: c.CAFile()}
	strangerCA, strangerCert, strangerKey := stranger(t, "alice")
	strange := kafka.TLS{CAFile: c.CAFile(), CertFile: strangerCert, KeyFile: strangerKey}
	alice := func(mechanism string) kafka.Auth { return auth(t, c, mechanism, "alice", "wonderland") }
	as := func(mechanism, user, password string) kafka.Auth { return auth(t, c, mechanism, user, password) }
	with := func(token string) kafka.Auth {
		return kafka.Auth{Mechanism: kafka.OAuthBearer, TokenFile: tokenFile(t, token)}
	}
	const (
		unknownCA = "ask for topics: the broker's certificate is signed by an unknown CA; name that CA: tls: failed to " +
			"verify certificate: x509: certificate signed by unknown authority"
		wantsTLS = "ask for topics: the broker expects TLS on this port, and none is configured: unexpected EOF: broker " +
			"appears to be expecting TLS"
		closed = "ask for topics: the broker closed the connection; if it always does, compare tls and auth with what " +
			"it expects on this port: "
		noSASL = "ask for topics: SASL is configured, and the broker has none on this port: error 34"
		noCert = "ask for topics: the broker asks for a client certificate, and none is configured: remote error: tls: " +
			"bad certificate"
		strangers  = "ask for topics: the broker refuses the client's certificate: remote error: tls: unknown certificate"
		wrongPlain = "ask for topics: the broker refuses the credentials: error 58: Authentication failed: Invalid " +
			"username or password"
		wrongSCRAM = "ask for topics: the broker refuses the credentials: error 58: Authentication failed during " +
			"authentication due to invalid credentials with SASL mechanism "
		badToken = `ask for topics: the broker refuses the token: {"status":"invalid_token"}`
	)
	for name, m := range map[string]struct {
		listener string
		cfg      kafka.Config
		want     string
	}{
		"PLAIN wrong password": {
			"SASL_PLAINTEXT",
			kafka.Config{Auth: as(kafka.Plain, "alice", "hunter2")},
			wrongPlain,
		},
		"PLAIN unknown user": {
			"SASL_SSL",
			kafka.Config{Auth: as(kafka.Plain, "mallory", "hunter2"), TLS: trusting},
			wrongPlain,
		},
		"SCRAM-SHA-256 wrong password": {
			"SASL_PLAINTEXT",
			kafka.Config{Auth: as(kafka.ScramSHA256, "alice", "hunter2")},
			wrongSCRAM + kafka.ScramSHA256,
		},
		"SCRAM-SHA-512 wrong password": {"SASL_SSL", kafka.Config{
			Auth: as(kafka.ScramSHA512, "alice", "hunter2"),
			TLS:  trusting,
		}, wrongSCRAM + kafka.ScramSHA512},
		"SCRAM-SHA-512 unknown user": {
			"SASL_PLAINTEXT",
			kafka.Config{Auth: as(kafka.ScramSHA512, "mallory", "hunter2")},
			wrongSCRAM + kafka.ScramSHA512,
		},
		"mechanism": {
			"SCRAMONLY",
			kafka.Config{Auth: alice(kafka.Plain)},
			"ask for topics: the broker does not offer the SASL mechanism that is configured: error 33",
		},
		"expired token": {
			"SASL_PLAINTEXT",
			kafka.Config{Auth: with(token(t, c, "alice", -time.Minute))},
			badToken,
		},
		"no token at all": {"SASL_SSL", kafka.Config{Auth: with("hunter2"), TLS: trusting}, badToken},
		"unknown CA":      {"SSL", kafka.Config{TLS: kafka.TLS{CAFile: strangerCA}}, unknownCA},
		"unknown CA, the system's": {
			"SASL_SSL",
			kafka.Config{TLS: kafka.TLS{Enabled: true}, Auth: alice(kafka.Plain)},
			unknownCA,
		},
		"another name": {
			"SSL",
			kafka.Config{TLS: kafka.TLS{CAFile: c.CAFile(), ServerName: "other.test"}},
			"ask for topics: the broker's certificate is for another name; connect by one that it has, or give that as the " +
				"server's name: tls: failed to verify certificate: x509: certificate is valid for localhost, not other.test",
		},
		"no certificate":          {"MTLS", kafka.Config{TLS: trusting}, noCert},
		"no certificate, TLS 1.2": {"MTLS12", kafka.Config{TLS: trusting}, noCert},
		"a stranger's":            {"MTLS", kafka.Config{TLS: strange}, strangers},
		"a stranger's, TLS 1.2":   {"MTLS12", kafka.Config{TLS: strange}, strangers},
		"plaintext to TLS":        {"SSL", kafka.Config{}, wantsTLS},
		"plaintext to SASL_SSL":   {"SASL_SSL", kafka.Config{Auth: alice(kafka.Plain)}, wantsTLS},
		"plaintext to mTLS":       {"MTLS", kafka.Config{}, wantsTLS},
		"TLS to plaintext":        {"PLAINTEXT", kafka.Config{TLS: trusting}, closed + "EOF"},
		"TLS to SASL_PLAINTEXT": {
			"SASL_PLAINTEXT",
			kafka.Config{TLS: trusting, Auth: alice(kafka.Plain)},
			closed + "EOF",
		},
		"no SASL":           {"SASL_PLAINTEXT", kafka.Config{}, closed + "unexpected EOF"},
		"no SASL over TLS":  {"SASL_SSL", kafka.Config{TLS: trusting}, closed + "unexpected EOF"},
		"SASL to plaintext": {"PLAINTEXT", kafka.Config{Auth: alice(kafka.Plain)}, noSASL},
		"SASL to TLS":       {"SSL", kafka.Config{Auth: alice(kafka.ScramSHA256), TLS: trusting}, noSASL},
	} {
		t.Run(name, func(t *testing.T) {
			cl := client(t, c, m.listener, m.cfg)
			for range 2 { // it is the same the next time
				_, err := cl.Topics(t.Context())
				wantError(t, c, m.listener, err, m.want)
			}
		})
	}
}

func TestClient_says_which_permission_is_missing(t *testing.T) {
	t.Parallel()
	c := cluster(t)
	require.NoError(t, c.CreateTopic(t.Context(), "hidden", 1, 0, nil))
	cl := client(t, c, "SASL_PLAINTEXT", kafka.Config{Auth: auth(t, c, kafka.ScramSHA256, "bob", "builder")})
	var b batch.Builder
	b.Append(&batch.Record{Key: "k", Value: []byte("v")}, batch.DefaultLimit)
	b.Seal(1, 0, 0)
	addressed := b.Addressed(0)
	for name, m := range map[string]struct {
		try  func() error
		want string
	}{
		"produce": {
			func() error { _, err := cl.Produce(t.Context(), topic, 0, addressed); return err },
			"produce to secured/0: the user's ACLs do not allow operation Write on Topic secured: error 29",
		},
		"fetch": {func() error {
			_, _, err := cl.Fetch(t.Context(), topic, 0, 0, func(*kafka.Record) error { return nil })
			return err
		}, "fetch from secured/0: the user's ACLs do not allow operation Read on Topic secured: error 29"},
		"settings": {
			func() error { _, err := cl.Settings(t.Context(), topic, "cleanup.policy"); return err },
			"read the settings of secured: the user's ACLs do not allow operation DescribeConfigs on Topic secured: error 29: " +
				"Topic authorization failed.",
		},
		"create": {
			func() error { return cl.CreateTopic(t.Context(), kafka.TopicSpec{Name: "other"}) },
			"create topic other: the user's ACLs do not allow operation Create on Topic other, or on the Cluster: error 29: " +
				"Authorization failed.",
		},
		"producer": {
			func() error { _, err := cl.InitProducer(t.Context(), "", nil); return err },
			"ask for a producer id: the user's ACLs do not allow operation IdempotentWrite on the Cluster, or Write on a " +
				"Topic: error 31",
		},
		"transactional id": {
			func() error { _, err := cl.InitProducer(t.Context(), "bridge", nil); return err },
			"ask for a producer id: the user's ACLs do not allow operation Write on TransactionalId bridge: error 53",
		},
		"see": {
			func() error { _, err := cl.Partitions(t.Context(), "hidden"); return err },
			"ask for topic hidden: there is no such topic, or it may not be seen",
		},
		"produce unseen": {
			func() error { _, err := cl.Produce(t.Context(), "hidden", 0, addressed); return err },
			"produce to hidden/0: topic not found (topic=\"hidden\")",
		},
		"bounds unseen": {
			func() error { _, err := cl.Bounds(t.Context(), "hidden", 1); return err },
			"read the bounds of hidden: the user's ACLs do not allow operation Describe on Topic hidden: error 29",
		},
	} {
		t.Run(name, func(t *testing.T) { wantError(t, c, "SASL_PLAINTEXT", m.try(), m.want) })
	}
	assert.NoError(t, must.Err(cl.Bounds(t.Context(), topic, 1)), "what is allowed")
	require.NoError(t, c.Allow(t.Context(), "bob", kafkago.ResourceTypeTransactionalID, "bridge",
		kafkago.ACLOperationTypeWrite))
	assert.NoError(t, must.Err(cl.InitProducer(t.Context(), "bridge", nil)),
		"Write on the TransactionalId is not enough")
}
