// SPDX-License-Identifier: Apache-2.0

package kafka

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"time"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/apiversions"
	"github.com/segmentio/kafka-go/protocol/saslhandshake"
)

// examine returns what is wrong with one broker or with the configuration, to follow the broker's name; empty for nothing, and for what its answers do not prove.
func (d *doctor) examine(ctx context.Context, address string) string {
	if d.tls == nil {
		return d.examinePlaintext(ctx, address)
	}
	return d.examineTLS(ctx, address)
}

func (d *doctor) examinePlaintext(ctx context.Context, address string) string {
	c, err := d.open(ctx, address)
	if err != nil {
		return ""
	}
	defer c.Close() //nolint:errcheck // all was said
	if d.isBroker(c) {
		return d.examineSASL(c)
	}
	again, err := d.open(ctx, address)
	if err != nil {
		return ""
	}
	defer again.Close() //nolint:errcheck // all was said
	if _, err := d.handshake(ctx, again, address); err == nil || alert(err) != "" {
		return "expects TLS on this port, and none is configured"
	}
	return ""
}

func (d *doctor) examineTLS(ctx context.Context, address string) string {
	c, err := d.open(ctx, address)
	if err != nil {
		return ""
	}
	defer c.Close() //nolint:errcheck // all was said
	secured, err := d.handshake(ctx, c, address)
	switch {
	case err == nil:
		if d.isBroker(secured) {
			return d.examineSASL(secured)
		}
		return ""
	case errors.Is(err, errUncertified), aboutCertificate(err) && !d.certified():
		return "asks for a client certificate, and none is configured"
	case aboutCertificate(err):
		return "refuses the client's certificate (" + alert(err) + ")"
	}
	again, err := d.open(ctx, address)
	if err != nil {
		return ""
	}
	defer again.Close() //nolint:errcheck // all was said
	if d.isBroker(again) {
		return "has no TLS on this port, and TLS is configured"
	}
	return ""
}

// examineSASL goes as far as the name of the mechanism.
func (d *doctor) examineSASL(c net.Conn) string {
	m, err := d.request(c, 1, &saslhandshake.Request{Mechanism: d.mechanism})
	if err != nil {
		return ""
	}
	answer := m.(*saslhandshake.Response)
	slices.Sort(answer.Mechanisms)
	offers := strings.Join(answer.Mechanisms, ", ")
	switch code := kafkago.Error(answer.ErrorCode); {
	case code == kafkago.IllegalSASLState && d.mechanism != "":
		return "has no SASL on this port, and SASL is configured"
	case code != kafkago.UnsupportedSASLMechanism:
		return ""
	case d.mechanism == "":
		return "expects SASL on this port, and none is configured; it offers " + offers
	default:
		return "does not offer the SASL mechanism " + d.mechanism + "; it offers " + offers
	}
}

func (d *doctor) open(ctx context.Context, address string) (net.Conn, error) {
	c, err := d.dial(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	if end, limited := ctx.Deadline(); limited {
		err = c.SetDeadline(end)
	}
	if err != nil {
		_ = c.Close()
		return nil, err
	}
	return c, nil
}

// complaintTime is how long a broker may take to refuse a client's certificate: in TLS 1.3 it does so after the handshake.
const complaintTime = 500 * time.Millisecond

// handshakeFailure is what a broker says in TLS 1.2 where it misses a certificate, and in other cases.
const handshakeFailure = "tls: handshake failure"

// errUncertified says that a broker asked for a certificate and ended the handshake when it got none.
var errUncertified = errors.New("no certificate")

// handshake makes c speak TLS, whatever the broker's certificate: nothing secret will be said. The error has the broker's complaint about this side's certificate.
func (d *doctor) handshake(ctx context.Context, c net.Conn, address string) (*tls.Conn, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if d.tls != nil {
		config = d.tls.Clone()
	}
	config.InsecureSkipVerify = true //nolint:gosec // see above
	if config.ServerName == "" {
		config.ServerName, _, _ = net.SplitHostPort(address)
	}
	asked := false
	get := config.GetClientCertificate
	config.GetClientCertificate = func(info *tls.CertificateRequestInfo) (*tls.Certificate, error) {
		asked = true
		if get == nil {
			return &tls.Certificate{}, nil
		}
		return get(info)
	}
	secured := tls.Client(c, config)
	if err := secured.HandshakeContext(ctx); err != nil {
		if asked && alert(err) == handshakeFailure && !d.certified() {
			return nil, fmt.Errorf("%w: %w", errUncertified, err)
		}
		return nil, err
	}
	if asked {
		// What is written now could make the complaint unreadable: the connection would be reset.
		if err := complaint(ctx, secured); aboutCertificate(err) {
			return nil, err
		}
	}
	return secured, nil
}

// complaint reads until the broker has had time to complain.
func complaint(ctx context.Context, c net.Conn) error {
	end, limited := ctx.Deadline()
	soon := time.Now().Add(complaintTime)
	if limited && end.Before(soon) {
		soon = end
	}
	_ = c.SetReadDeadline(soon)
	_, err := c.Read(make([]byte, 1))
	_ = c.SetReadDeadline(end)
	return err
}

// isBroker reports whether a broker answers on c.
func (d *doctor) isBroker(c net.Conn) bool {
	_, err := d.request(c, 0, &apiversions.Request{})
	return err == nil
}

// request asks something. It does not trust what answers to be a broker: the library would make room for whatever it announces.
func (d *doctor) request(c net.Conn, version int16, r protocol.Message) (protocol.Message, error) {
	const (
		id      = 0x6b656231
		maxSize = 1 << 20
	)
	if err := protocol.WriteRequest(c, version, id, d.clientID, r); err != nil {
		return nil, err
	}
	head := make([]byte, 8)
	if _, err := io.ReadFull(c, head); err != nil {
		return nil, err
	}
	size := binary.BigEndian.Uint32(head)
	if size < 4 || size > maxSize || binary.BigEndian.Uint32(head[4:]) != id {
		return nil, errors.New("this is no broker")
	}
	body := make([]byte, size-4)
	if _, err := io.ReadFull(c, body); err != nil {
		return nil, err
	}
	_, m, err := protocol.ReadResponse(bytes.NewReader(append(head, body...)), r.ApiKey(), version)
	return m, err
}
