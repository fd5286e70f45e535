// SPDX-License-Identifier: Apache-2.0

package kafka

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol/saslauthenticate"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
	"github.com/kube-eventbridge/kube-eventbridge/internal/testcert"
)

func remote(text string) error {
	return fmt.Errorf("kafka.(*Client).Metadata: %w", &net.OpError{Op: "remote error", Err: errors.New(text)})
}

func TestExplain_says_what_to_look_at(t *testing.T) {
	wrong := func(err error) error {
		return fmt.Errorf("kafka.(*Client).Metadata: %w", err)
	}
	for name, c := range map[string]struct {
		err        error
		permission string
		want       string
	}{
		"credentials": {
			err: wrong(fmt.Errorf("%w: %s", kafkago.SASLAuthenticationFailed,
				"Authentication failed: Invalid username\nor password")),
			want: "the broker refuses the credentials: error 58: Authentication failed: Invalid username or password",
		},
		"credentials, and no more": {
			err:  wrong(kafkago.SASLAuthenticationFailed),
			want: "the broker refuses the credentials: error 58",
		},
		"mechanism": {
			err:  wrong(kafkago.UnsupportedSASLMechanism),
			want: "the broker does not offer the SASL mechanism that is configured: error 33",
		},
		"no SASL": {
			err:  wrong(kafkago.IllegalSASLState),
			want: "SASL is configured, and the broker has none on this port: error 34",
		},
		"topic": {
			err:  kafkago.TopicAuthorizationFailed,
			want: "the user's ACLs do not allow an operation on the Topic: error 29",
		},
		"cluster": {
			err:  kafkago.ClusterAuthorizationFailed,
			want: "the user's ACLs do not allow an operation on the Cluster: error 31",
		},
		"group": {
			err:  kafkago.GroupAuthorizationFailed,
			want: "the user's ACLs do not allow an operation on the Group: error 30",
		},
		"transactional id": {
			err:  kafkago.TransactionalIDAuthorizationFailed,
			want: "the user's ACLs do not allow operation Write on the TransactionalId: error 53",
		},
		"a known permission": {
			err: kafkago.TopicAuthorizationFailed, permission: "operation Write on Topic kubernetes",
			want: "the user's ACLs do not allow operation Write on Topic kubernetes: error 29",
		},
		"authority": {
			err: wrong(&tls.CertificateVerificationError{Err: x509.UnknownAuthorityError{}}),
			want: "the broker's certificate is signed by an unknown CA; name that CA: tls: failed to verify certificate: " +
				"x509: certificate signed by unknown authority",
		},
		"name": {
			err: wrong(&tls.CertificateVerificationError{Err: x509.HostnameError{Certificate: &x509.Certificate{DNSNames: []string{"a"}}, Host: "b"}}),
			want: "the broker's certificate is for another name; connect by one that it has, or give that as the server's name: " +
				"tls: failed to verify certificate: x509: certificate is valid for a, not b",
		},
		"expired": {
			err:  wrong(x509.CertificateInvalidError{Reason: x509.Expired, Detail: "yesterday"}),
			want: "the broker's certificate is not valid: x509: certificate has expired or is not yet valid: yesterday",
		},
		"no TLS": {
			err:  wrong(tls.RecordHeaderError{Msg: "first record does not look like a TLS handshake"}),
			want: "TLS is configured, and the broker has none on this port: tls: first record does not look like a TLS handshake",
		},
		"TLS": {
			err: wrong(fmt.Errorf("%w: broker appears to be expecting TLS", io.ErrUnexpectedEOF)),
			want: "the broker expects TLS on this port, and none is configured: unexpected EOF: broker appears to be " +
				"expecting TLS",
		},
		"no certificate": {
			err:  remote("tls: certificate required"),
			want: "the broker asks for a client certificate, and none is configured: remote error: tls: certificate required",
		},
		"another's certificate": {
			err:  remote("tls: unknown certificate authority"),
			want: "the broker refuses the client's certificate: remote error: tls: unknown certificate authority",
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := explain(c.err, c.permission)
			require.Error(t, got)
			assert.Equal(t, c.want, got.Error())
			assert.ErrorIs(t, got, c.err, "the cause is lost")
			again := explain(fmt.Errorf("produce: %w", got), c.permission)
			assert.Equal(t, "produce: "+c.want, again.Error(), "explained again it is %v", again)
			if c.permission == "" && Explain(c.err).Error() != c.want {
				t.Errorf("Explain says %v", Explain(c.err))
			}
		})
	}
}

func TestExplain_returns_what_it_does_not_know_without_the_librarys_words(t *testing.T) {
	for _, err := range []error{
		nil, context.DeadlineExceeded, kafkago.NotLeaderForPartition, errors.New("broker appears to be expecting TLS"),
		&net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}, remote("tls: internal error"),
	} {
		if got := Explain(err); fmt.Sprint(got) != strings.TrimPrefix(fmt.Sprint(err), "kafka.(*Client).Metadata: ") {
			t.Errorf("%v became %v", err, got)
		}
	}
}

func TestClient_says_which_mistake_it_is(t *testing.T) {
	a, other := testcert.ForTest(t, "test"), testcert.ForTest(t, "other")
	secure := func(change ...func(*tls.Config)) func(*fake) {
		return func(f *fake) {
			f.tls = a.Serve(t, func(c *tls.Config) {
				for _, change := range change {
					change(c)
				}
			})
		}
	}
	old := func(c *tls.Config) { c.MaxVersion = tls.VersionTLS12 }
	guarded := func(f *fake) { f.mechanisms = []string{ScramSHA512, OAuthBearer} }
	cert, key := other.Issue(t, "stranger", time.Now().Add(time.Hour))
	expiredCert, expiredKey := a.Issue(t, "late", time.Now().Add(-time.Minute))
	file := writeFile(t, "token", "secret")
	as := func(mechanism string) Auth {
		if mechanism == OAuthBearer {
			return Auth{Mechanism: mechanism, TokenFile: file}
		}
		return Auth{Mechanism: mechanism, User: "bridge", Password: "hunter2"}
	}
	trusting := TLS{CAFile: a.File}
	const (
		wantsTLS = "the broker expects TLS on this port, and none is configured: unexpected EOF: broker appears to be " +
			"expecting TLS"
		hangsUp   = closed + ": "
		mechanism = "the broker does not offer the SASL mechanism that is configured: error 33"
		noSASL    = "SASL is configured, and the broker has none on this port: error 34"
		unknownCA = "the broker's certificate is signed by an unknown CA; name that CA: tls: failed to verify " +
			"certificate: x509: certificate signed by unknown authority"
		certWanted = "the broker asks for a client certificate, and none is configured: remote error: tls: certificate " +
			"required"
		refused = "the broker refuses the client's certificate: remote error: tls: "
	)
	for name, c := range map[string]struct {
		broker func(*fake)
		auth   Auth
		tls    TLS
		want   []string // any of these
	}{
		"plaintext to TLS":            {secure(), Auth{}, TLS{}, []string{wantsTLS, hangsUp + "unexpected EOF"}},
		"plaintext to TLS with certs": {secure(a.VerifyClients, old), Auth{}, TLS{}, []string{hangsUp + "unexpected EOF"}},
		"TLS to plaintext":            {nil, Auth{}, trusting, []string{hangsUp + "EOF"}},
		"TLS to plaintext with SASL":  {guarded, as(Plain), trusting, []string{hangsUp + "EOF"}},
		"no SASL":                     {guarded, Auth{}, TLS{}, []string{hangsUp + "unexpected EOF"}},
		"no SASL over TLS": {
			func(f *fake) { secure()(f); guarded(f) },
			Auth{},
			trusting,
			[]string{hangsUp + "unexpected EOF"},
		},
		"mechanism":               {guarded, as(Plain), TLS{}, []string{mechanism}},
		"mechanism over TLS":      {func(f *fake) { secure()(f); guarded(f) }, as(Plain), trusting, []string{mechanism}},
		"SASL to none":            {nil, as(ScramSHA256), TLS{}, []string{noSASL}},
		"SASL to none over TLS":   {secure(), as(OAuthBearer), trusting, []string{noSASL}},
		"authority":               {secure(), Auth{}, TLS{CAFile: other.File}, []string{unknownCA}},
		"authority of the system": {secure(), Auth{}, TLS{Enabled: true}, []string{unknownCA}},
		"name": {secure(), Auth{}, TLS{CAFile: a.File, ServerName: "other.test"}, []string{
			"the broker's certificate is for another name; connect by one that it has, or give that as the server's name: " +
				"tls: failed to verify certificate: x509: certificate is valid for broker.test, not other.test",
		}},
		"no certificate": {secure(a.VerifyClients), Auth{}, trusting, []string{certWanted}},
		"no certificate, TLS 1.2": {
			secure(a.VerifyClients, old),
			Auth{},
			trusting,
			[]string{hangsUp + "remote error: tls: handshake failure"},
		},
		"another's certificate": {
			secure(a.VerifyClients),
			Auth{},
			TLS{CAFile: a.File, CertFile: cert, KeyFile: key},
			[]string{refused + "unknown certificate authority"},
		},
		"another's certificate, 1.2": {
			secure(a.VerifyClients, old),
			Auth{},
			TLS{CAFile: a.File, CertFile: cert, KeyFile: key},
			[]string{refused + "unknown certificate authority"},
		},
		"an expired certificate": {
			secure(a.VerifyClients),
			Auth{},
			TLS{CAFile: a.File, CertFile: expiredCert, KeyFile: expiredKey},
			[]string{refused + "expired certificate"},
		},
		"an expired certificate, 1.2": {
			secure(a.VerifyClients, old),
			Auth{},
			TLS{CAFile: a.File, CertFile: expiredCert, KeyFile: expiredKey},
			[]string{refused + "expired certificate"},
		},
		"password": {
			func(f *fake) {
				f.mechanisms = []string{Plain}
				f.prove = func([]byte) *saslauthenticate.Response {
					return &saslauthenticate.Response{
						ErrorCode:    58,
						ErrorMessage: "Authentication failed: Invalid username or password",
					}
				}
			},
			as(Plain),
			TLS{},
			[]string{"the broker refuses the credentials: error 58: Authentication failed: Invalid username or password"},
		},
		"token": {
			func(f *fake) {
				guarded(f)
				f.prove = func([]byte) *saslauthenticate.Response {
					return &saslauthenticate.Response{AuthBytes: []byte(`{"status":"invalid_token"}`)}
				}
			},
			as(OAuthBearer),
			TLS{},
			[]string{`the broker refuses the token: {"status":"invalid_token"}`},
		},
		"nothing": {secure(), Auth{}, trusting, []string{"nothing"}},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFake(t, c.broker)
			got := "nothing"
			client := must.Get(NewClient(Config{Brokers: []string{f.addr()}, Auth: c.auth, TLS: c.tls}))(t)
			t.Cleanup(client.Close)
			if _, err := client.client.Metadata(t.Context(), &kafkago.MetadataRequest{}); err != nil {
				why := client.explain(err, "")
				got = why.Error()
				assert.False(t, strings.HasPrefix(got, closed) && Explained(why), "a closed connection proves nothing")
			}
			assert.Contains(t, c.want, got)
		})
	}
}
