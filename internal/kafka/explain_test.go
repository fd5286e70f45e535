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

	kafkago "github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
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
			err:  wrong(fmt.Errorf("%w: %s", kafkago.SASLAuthenticationFailed, "Authentication failed: Invalid username\nor password")),
			want: "the broker refuses the credentials: error 58: Authentication failed: Invalid username or password",
		},
		"credentials, and no more": {err: wrong(kafkago.SASLAuthenticationFailed), want: "the broker refuses the credentials: error 58"},
		"mechanism":                {err: wrong(kafkago.UnsupportedSASLMechanism), want: "the broker does not offer the SASL mechanism that is configured: error 33"},
		"no SASL":                  {err: wrong(kafkago.IllegalSASLState), want: "SASL is configured, and the broker has none on this port: error 34"},
		"topic":                    {err: kafkago.TopicAuthorizationFailed, want: "the user's ACLs do not allow an operation on the Topic: error 29"},
		"cluster":                  {err: kafkago.ClusterAuthorizationFailed, want: "the user's ACLs do not allow an operation on the Cluster: error 31"},
		"transactional id":         {err: kafkago.TransactionalIDAuthorizationFailed, want: "the user's ACLs do not allow operation Write on the TransactionalId: error 53"},
		"a known permission": {
			err: kafkago.TopicAuthorizationFailed, permission: "operation Write on Topic kubernetes",
			want: "the user's ACLs do not allow operation Write on Topic kubernetes: error 29",
		},
		"authority": {
			err:  wrong(&tls.CertificateVerificationError{Err: x509.UnknownAuthorityError{}}),
			want: "the broker's certificate is signed by nobody known here; name its CA: tls: failed to verify certificate: x509: certificate signed by unknown authority",
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
			err:  wrong(fmt.Errorf("%w: broker appears to be expecting TLS", io.ErrUnexpectedEOF)),
			want: "the broker expects TLS on this port, and none is configured: unexpected EOF: broker appears to be expecting TLS",
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
			if again := explain(fmt.Errorf("produce: %w", got), c.permission); again.Error() != "produce: "+c.want {
				t.Errorf("explained again it is %v", again)
			}
			if c.permission == "" && Explain(c.err).Error() != c.want {
				t.Errorf("Explain says %v", Explain(c.err))
			}
		})
	}
}

func TestExplain_returns_what_it_does_not_know_without_the_librarys_words(t *testing.T) {
	for _, err := range []error{
		nil, io.EOF, io.ErrUnexpectedEOF, context.DeadlineExceeded, kafkago.NotLeaderForPartition, errors.New("broker appears to be expecting TLS"),
		&net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}, remote("tls: internal error"),
		kafkago.WriteErrors{io.EOF},
	} {
		if got := Explain(err); fmt.Sprint(got) != strings.TrimPrefix(fmt.Sprint(err), "kafka.(*Client).Metadata: ") {
			t.Errorf("%v became %v", err, got)
		}
	}
}
