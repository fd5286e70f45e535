// SPDX-License-Identifier: Apache-2.0

package kafkasecurity

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/kube-eventbridge/kube-eventbridge/integration/internal/rig"
	"github.com/kube-eventbridge/kube-eventbridge/integration/kafkabroker"
	"github.com/kube-eventbridge/kube-eventbridge/internal/kafka"
	"github.com/kube-eventbridge/kube-eventbridge/internal/kafka/batch"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
	"github.com/kube-eventbridge/kube-eventbridge/internal/testcert"
)

const topic = "secured"

// shared has every kind of door, one for each mistake.
var shared = kafkabroker.NewShared(kafkabroker.Config{
	Listeners: append(
		kafkabroker.EveryListener(),
		kafkabroker.Listener{
			Name: "SCRAMONLY", Protocol: kafkabroker.SASLPlaintext,
			Mechanisms: []string{kafkabroker.SCRAM256, kafkabroker.SCRAM512},
		},
		kafkabroker.Listener{Name: "MTLS12", Protocol: kafkabroker.TLS, ClientCertificate: true},
		kafkabroker.Listener{Name: "SHORT", Protocol: kafkabroker.SASLPlaintext},
		kafkabroker.Listener{Name: "SHORTTLS", Protocol: kafkabroker.SASLTLS},
	),
	Authorizer: true,
	Users:      map[string]string{"alice": "wonderland", "bob": "builder", "carol": "reader"},
	Properties: map[string]string{
		"listener.name.mtls12.ssl.enabled.protocols": "TLSv1.2",
		// A busy machine must not look like a broker that is away.
		"broker.session.timeout.ms": "60000",
		// By default a token is taken for half a minute after its end, and then the connection is closed at the next
		// request.
		"sasl.oauthbearer.clock.skew.seconds": "0",
		// OAUTHBEARER's sessions end with the token.
		"listener.name.short.plain.connections.max.reauth.ms":            "3000",
		"listener.name.shorttls.scram-sha-256.connections.max.reauth.ms": "3000",
	},
})

func TestMain(m *testing.M) { goleak.VerifyTestMain(shared.Around(m)) }

// cluster returns the shared one with what the users may do: alice everything with the topic, bob nothing but to see
// it.
func cluster(t *testing.T) *kafkabroker.Cluster {
	t.Helper()
	c := shared.ForTest(t)
	err := c.CreateTopic(t.Context(), topic, 1, 0, nil)
	require.True(t, err == nil || errors.Is(err, kafkago.TopicAlreadyExists), "%v", err)
	require.NoError(t, c.Allow(t.Context(), "alice", kafkago.ResourceTypeTopic, topic,
		kafkago.ACLOperationTypeWrite, kafkago.ACLOperationTypeRead))
	require.NoError(t, c.Allow(t.Context(), "bob", kafkago.ResourceTypeTopic, topic, kafkago.ACLOperationTypeDescribe))
	return c
}

func tokenFile(t *testing.T, content string) string {
	t.Helper()
	p := filepath.Join(t.TempDir(), "token")
	require.NoError(t, os.WriteFile(p, []byte(content), 0o600))
	return p
}

func token(t *testing.T, c *kafkabroker.Cluster, user string, life time.Duration) string {
	t.Helper()
	return must.Get(c.Token(user, life))(t)
}

// issue answers a request for a token of alice. It may be called on any goroutine.
func issue(w http.ResponseWriter, c *kafkabroker.Cluster, life time.Duration) {
	s, err := c.Token("alice", life)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = fmt.Fprintf(w, `{"access_token":%q,"token_type":"Bearer","expires_in":%.0f}`, s, life.Seconds())
}

// stranger returns the files of a CA that no broker knows, and of a user's certificate and key that it has signed.
func stranger(t *testing.T, user string) (caFile, certFile, keyFile string) {
	t.Helper()
	a := testcert.ForTest(t, "stranger")
	certFile, keyFile = a.Issue(t, user, time.Now().Add(time.Hour))
	return a.File, certFile, keyFile
}

// auth returns how alice or bob, by their passwords, prove who they are.
func auth(t *testing.T, c *kafkabroker.Cluster, mechanism, user, password string) kafka.Auth {
	t.Helper()
	if mechanism != kafka.OAuthBearer {
		return kafka.Auth{Mechanism: mechanism, User: user, Password: password}
	}
	return kafka.Auth{Mechanism: mechanism, TokenFile: tokenFile(t, token(t, c, user, time.Hour))}
}

// client returns one for a listener of c. Only what cfg says about security counts.
func client(t *testing.T, c *kafkabroker.Cluster, listener string, cfg kafka.Config) *kafka.Client {
	t.Helper()
	cfg.Brokers = c.AddressesOf(listener)
	cl := must.Get(kafka.NewClient(cfg))(t)
	t.Cleanup(cl.Close)
	return cl
}

// producer sends one record after the other to the topic.
type producer struct {
	client *kafka.Client
	id     kafka.Producer
	next   int32
	b      batch.Builder
}

func newProducer(t *testing.T, cl *kafka.Client) *producer {
	t.Helper()
	p := &producer{client: cl}
	rig.Try(t, "ask for a producer id", func() (err error) {
		p.id, err = cl.InitProducer(t.Context(), "", nil)
		return err
	})
	return p
}

// seesTopic asks for the topic.
func seesTopic(t *testing.T, cl *kafka.Client) func() error {
	return func() error {
		_, err := cl.Partitions(t.Context(), topic)
		return err
	}
}

// fill makes the next record.
func (p *producer) fill(value string) {
	p.b.Reset(0)
	p.b.Append(&batch.Record{Key: "k", Value: []byte(value), Timestamp: time.Now().UnixMilli()}, batch.DefaultLimit)
	p.b.Seal(p.id.ID, p.id.Epoch, p.next)
	p.next++
}

// send sends the record that fill made, again if it was sent before.
func (p *producer) send(ctx context.Context) (offset int64, err error) {
	return p.client.Produce(ctx, topic, 0, p.b.Addressed(0))
}

// works reports whether a client can do what a sink does.
func works(t *testing.T, cl *kafka.Client) {
	t.Helper()
	p := newProducer(t, cl)
	p.fill(t.Name())
	offset, err := p.send(t.Context())
	require.NoError(t, err)
	found := ""
	_, _, err = cl.Fetch(t.Context(), topic, 0, offset, func(r *kafka.Record) error {
		if r.Offset == offset {
			found = string(r.Value)
		}
		return nil
	})
	require.NoError(t, err)
	assert.Equal(t, t.Name(), found, "read back")
}

// wantError compares all of an error's text but ADDR, which is the address of a listener.
func wantError(t *testing.T, c *kafkabroker.Cluster, listener string, err error, want string) {
	t.Helper()
	require.Error(t, err, "no error")
	want = strings.ReplaceAll(want, "ADDR", c.AddressesOf(listener)[0])
	assert.Equal(t, want, err.Error(), "got  %v", err)
}
