// SPDX-License-Identifier: Apache-2.0

package kafkabroker

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/sasl"
	"github.com/segmentio/kafka-go/sasl/plain"
	"github.com/segmentio/kafka-go/sasl/scram"
)

// bearer is OAUTHBEARER, which kafka-go does not have.
type bearer struct{ token string }

func (bearer) Name() string { return OAuthBearer }

func (b bearer) Start(context.Context) (sasl.StateMachine, []byte, error) {
	return b, []byte("n,,\x01auth=Bearer " + b.token + "\x01\x01"), nil
}

func (bearer) Next(_ context.Context, challenge []byte) (bool, []byte, error) {
	if len(challenge) > 0 {
		return false, nil, errors.New(string(challenge))
	}
	return true, nil, nil
}

// refused is the error of a connection that was not let in.
type refused struct{ error }

func isRefused(err error) bool {
	_, ok := errors.AsType[refused](err)
	return ok
}

// come sends a record to a listener, with a connection of its own.
func come(t *testing.T, c *Cluster, listener string, mechanism sasl.Mechanism, certificateOf string) error {
	t.Helper()
	transport := &kafka.Transport{SASL: mechanism}
	defer transport.CloseIdleConnections()
	if listener == string(SASLTLS) || listener == string(TLS) || listener == "MTLS" {
		var err error
		transport.TLS, err = c.TLS(certificateOf)
		must(t, err)
	}
	cl := &kafka.Client{Addr: kafka.TCP(c.AddressesOf(listener)...), Transport: transport}
	if _, err := cl.Metadata(within(t, 20*time.Second), &kafka.MetadataRequest{}); err != nil { // Produce would hide it
		return refused{err}
	}
	return produce(within(t, 20*time.Second), cl, "secured", "x")
}

func TestCluster_lets_in_who_is_known_and_allowed(t *testing.T) {
	c := shared.ForTest(t)
	must(t, c.CreateTopic(t.Context(), "secured", 1, 0, nil))
	must(t, c.Allow(t.Context(), "alice", kafka.ResourceTypeTopic, "secured", kafka.ACLOperationTypeWrite))
	must(t, c.Allow(t.Context(), "bob", kafka.ResourceTypeTopic, "secured", kafka.ACLOperationTypeDescribe))

	mechanism := func(name, user, password string) sasl.Mechanism {
		switch name {
		case Plain:
			return plain.Mechanism{Username: user, Password: password}
		case SCRAM256, SCRAM512:
			m, err := scram.Mechanism(map[string]scram.Algorithm{SCRAM256: scram.SHA256, SCRAM512: scram.SHA512}[name], user, password)
			must(t, err)
			return m
		default:
			life := time.Hour
			if password == "wrong" {
				life = -time.Hour
			}
			token, err := c.Token(user, life)
			must(t, err)
			return bearer{token}
		}
	}
	for _, listener := range []string{string(SASLPlaintext), string(SASLTLS)} {
		for _, name := range []string{Plain, SCRAM256, SCRAM512, OAuthBearer} {
			t.Run(listener+" "+name, func(t *testing.T) {
				must(t, come(t, c, listener, mechanism(name, "alice", "wonderland"), ""))
				if err := come(t, c, listener, mechanism(name, "alice", "wrong"), ""); !isRefused(err) {
					t.Errorf("a wrong password, or an expired token: %v", err)
				}
				if err := come(t, c, listener, mechanism(name, "bob", "builder"), ""); !errors.Is(err, kafka.TopicAuthorizationFailed) {
					t.Errorf("a user without permission: %v", err)
				}
			})
		}
	}
	t.Run("MTLS", func(t *testing.T) {
		must(t, come(t, c, "MTLS", nil, "alice"))
		if err := come(t, c, "MTLS", nil, ""); !isRefused(err) {
			t.Errorf("a client without a certificate: %v", err)
		}
		if err := come(t, c, "MTLS", nil, "bob"); !errors.Is(err, kafka.TopicAuthorizationFailed) {
			t.Errorf("a user without permission: %v", err)
		}
	})
	t.Run("without a name", func(t *testing.T) {
		must(t, come(t, c, string(TLS), nil, ""))
		must(t, come(t, c, string(Plaintext), nil, ""))
		if err := come(t, c, string(SASLPlaintext), nil, ""); !isRefused(err) {
			t.Errorf("a client without SASL: %v", err)
		}
	})
}
