// SPDX-License-Identifier: Apache-2.0

package kafka

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
)

const (
	noCertificate = "the broker asks for a client certificate, and none is configured"
	// closed is only a hint: a broker that restarts closes connections too.
	closed = "the broker closed the connection; if it always does, compare tls and auth with what it expects on this port"
)

// Explain says what to look at where the library's error only says that something failed: credentials, certificates,
// permissions, and ports that speak otherwise than configured, as far as the error alone tells. It ends with what the
// broker said. Any other error it returns without the library's words before it.
func Explain(err error) error { return explain(err, "") }

// explained is an error with what to look at.
type explained struct {
	text  string
	cause error
	// hint says that the text is what may be wrong; otherwise it is proved.
	hint bool
}

func (e *explained) Error() string { return e.text + ": " + brief(e.cause) }
func (e *explained) Unwrap() error { return e.cause }

// Explained reports whether err proves that the configuration is wrong for the brokers as they are now. A hint proves
// nothing.
func Explained(err error) bool {
	var e *explained
	return errors.As(err, &e) && !e.hint
}

// explain is [Explain] for a request that takes a permission, such as "operation Write on Topic kubernetes".
func explain(err error, permission string) error {
	var e *explained
	if err == nil || errors.As(err, &e) {
		return err
	}
	text := lookAtCode(err, permission)
	if text == "" {
		text = lookAtTLS(err)
	}
	switch {
	case text != "":
		return &explained{text: text, cause: err}
	// The alert is of TLS 1.2, where a certificate is missed, and in other cases.
	case hungUp(err) || alert(err) == "tls: handshake failure":
		return &explained{text: closed, cause: err, hint: true}
	default:
		return bare(err)
	}
}

// explain is [explain] for this client, which knows whether it has a certificate that a broker may refuse.
func (c *Client) explain(err error, permission string) error {
	if aboutCertificate(err) && !Explained(err) && (c.transport.TLS == nil ||
		c.transport.TLS.GetClientCertificate == nil) {
		return &explained{text: noCertificate, cause: err}
	}
	return explain(err, permission)
}

func lookAtCode(err error, permission string) string {
	var code kafkago.Error
	if !errors.As(err, &code) {
		return ""
	}
	switch code {
	case kafkago.SASLAuthenticationFailed:
		return "the broker refuses the credentials"
	case kafkago.UnsupportedSASLMechanism:
		return "the broker does not offer the SASL mechanism that is configured"
	case kafkago.IllegalSASLState:
		return "SASL is configured, and the broker has none on this port"
	case kafkago.TopicAuthorizationFailed, kafkago.ClusterAuthorizationFailed, kafkago.GroupAuthorizationFailed,
		kafkago.TransactionalIDAuthorizationFailed:
		if permission == "" {
			permission = map[kafkago.Error]string{
				kafkago.TopicAuthorizationFailed:           "an operation on the Topic",
				kafkago.ClusterAuthorizationFailed:         "an operation on the Cluster",
				kafkago.GroupAuthorizationFailed:           "an operation on the Group",
				kafkago.TransactionalIDAuthorizationFailed: "operation Write on the TransactionalId",
			}[code]
		}
		return "the user's ACLs do not allow " + permission
	default:
		return ""
	}
}

func lookAtTLS(err error) string {
	var (
		authority x509.UnknownAuthorityError
		name      x509.HostnameError
		invalid   x509.CertificateInvalidError
		record    tls.RecordHeaderError
	)
	switch {
	case errors.As(err, &authority):
		return "the broker's certificate is signed by an unknown CA; name that CA"
	case errors.As(err, &name):
		return "the broker's certificate is for another name; connect by one that it has, or give that as the server's name"
	case errors.As(err, &invalid):
		return "the broker's certificate is not valid"
	case errors.As(err, &record):
		return "TLS is configured, and the broker has none on this port"
	case errors.Is(err, io.ErrUnexpectedEOF) && strings.HasSuffix(err.Error(), "broker appears to be expecting TLS"):
		return "the broker expects TLS on this port, and none is configured"
	case alert(err) == "tls: certificate required":
		return noCertificate
	case aboutCertificate(err):
		return "the broker refuses the client's certificate"
	default:
		return ""
	}
}

// alert returns what the other side of a TLS connection complains about, empty if it does not.
func alert(err error) string {
	var op *net.OpError
	if errors.As(err, &op) && op.Op == "remote error" {
		return op.Err.Error()
	}
	return ""
}

// aboutCertificate reports whether the other side of a TLS connection complains about this side's certificate, or that
// there is none.
func aboutCertificate(err error) bool {
	switch strings.TrimPrefix(alert(err), "tls: ") {
	case "bad certificate", "unsupported certificate", "revoked certificate", "expired certificate", "unknown certificate",
		"unknown certificate authority",
		"certificate required", "access denied":
		return true
	default:
		return false
	}
}

// hungUp reports whether the other side closed the connection without a word.
func hungUp(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET) ||
		errors.Is(err, syscall.EPIPE)
}

// unrouted reports whether a request was not sent because it is not known to whom: brokers have not told, or have no
// leader.
func unrouted(err error) bool {
	return errors.Is(err, protocol.ErrNoTopic) || errors.Is(err, protocol.ErrNoPartition) ||
		errors.Is(err, protocol.ErrNoLeader) ||
		errors.Is(err, kafkago.BrokerNotAvailable)
}

// bare returns an error without the methods and requests of the library that it came through, one of which is named
// wrongly.
func bare(err error) error {
	for strings.HasPrefix(err.Error(), "kafka.(*Client).") || strings.HasPrefix(err.Error(), "fetch request error: ") {
		inner := errors.Unwrap(err)
		if inner == nil {
			break
		}
		err = inner
	}
	return err
}

// brief returns what the broker or the connection said, without the library's words around it.
func brief(err error) string {
	var code kafkago.Error
	if !errors.As(err, &code) {
		return bare(err).Error()
	}
	text := fmt.Sprintf("error %d", int(code))
	if _, said, found := strings.Cut(err.Error(), code.Error()+": "); found && said != "" {
		text += ": " + readable([]byte(said), "")
	}
	return text
}
