// SPDX-License-Identifier: Apache-2.0

package natsclient

import (
	"errors"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go/jetstream"
)

// ErrNoJetStream says that nothing listens where JetStream should.
var ErrNoJetStream = errors.New("JetStream does not answer (is it enabled on the server and for this account?)")

// What JetStream says by numbers (server/errors.json of nats-server).
const (
	CodeNoPeers         jetstream.ErrorCode = 10005
	CodeMaxConsumers    jetstream.ErrorCode = 10026
	CodeNoMessage       jetstream.ErrorCode = 10037
	CodeInvalidConfig   jetstream.ErrorCode = 10052
	CodeMessageTooLarge jetstream.ErrorCode = 10054
	CodeNoStream        jetstream.ErrorCode = 10059
	CodeStreamMismatch  jetstream.ErrorCode = 10060
	CodeOverlap         jetstream.ErrorCode = 10065
	CodeWrongLast       jetstream.ErrorCode = 10071
	CodeNoReplicas      jetstream.ErrorCode = 10074
	CodeHeaderTooLarge  jetstream.ErrorCode = 10097
	// CodeWrongLastInProcess stands for CodeWrongLast while another message of the subject is being stored.
	CodeWrongLastInProcess jetstream.ErrorCode = 10164
)

// Hopeless reports whether a request that was refused with e will always be. That too few servers of a cluster are
// there may pass.
func Hopeless(e *jetstream.APIError) bool {
	switch e.ErrorCode {
	case CodeNoPeers:
		return false
	case CodeInvalidConfig, CodeNoReplicas:
		return true
	default:
		return e.Code == 400
	}
}

// DeniedSubject returns the subject that a server does not permit to publish to, as its error says; false if that says
// something else.
func DeniedSubject(text string) (string, bool) {
	_, quoted, ok := strings.Cut(text, "ermissions Violation for Publish to ")
	if !ok {
		return "", false
	}
	quoted, err := strconv.QuotedPrefix(quoted)
	if err != nil {
		return "", false
	}
	subject, err := strconv.Unquote(quoted)
	return subject, err == nil
}
