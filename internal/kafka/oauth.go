// SPDX-License-Identifier: Apache-2.0

package kafka

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"unicode"

	"github.com/segmentio/kafka-go/sasl"
)

// tokens is where tokens come from. It may be asked concurrently.
type tokens interface {
	// token returns a token for a connection that is being made. The error holds no secret.
	token(ctx context.Context) (string, error)
	// refused says that a broker refused a token.
	refused(ctx context.Context, token string)
}

// bearer is the mechanism OAUTHBEARER of RFC 7628.
type bearer struct{ from tokens }

// Name implements [sasl.Mechanism].
func (bearer) Name() string { return OAuthBearer }

// Start implements [sasl.Mechanism].
func (b bearer) Start(ctx context.Context) (sasl.StateMachine, []byte, error) {
	token, err := b.from.token(ctx)
	if err != nil {
		return nil, nil, err
	}
	return exchange{bearer: b, token: token}, []byte("n,,\x01auth=Bearer " + token + "\x01\x01"), nil
}

// exchange is what follows the token on one connection.
type exchange struct {
	bearer
	token string
}

// Next implements [sasl.StateMachine]. A broker that takes the token says nothing; a challenge is a refusal.
func (e exchange) Next(ctx context.Context, challenge []byte) (done bool, response []byte, err error) {
	if len(challenge) == 0 {
		return true, nil, nil
	}
	e.from.refused(ctx, e.token)
	return false, nil, fmt.Errorf("%w: %s", errToken, readable(challenge, e.token))
}

var errToken = errors.New("the broker refuses the token")

// maxReason is how much of what a broker says is repeated, in bytes.
const maxReason = 512

// readable makes one printable line out of what a stranger says, without the secret, if there is one, in case he
// repeats it.
func readable(b []byte, secret string) string {
	s := strings.ToValidUTF8(string(b), "\uFFFD")
	if secret != "" {
		s = strings.ReplaceAll(s, secret, redacted)
	}
	s = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, s)
	if len(s) > maxReason {
		s = strings.ToValidUTF8(s[:maxReason], "") + "..."
	}
	return strings.TrimSpace(s)
}

// tokenFile is the name of a file that holds a token.
type tokenFile string

// maxToken is how long a token may be: brokers take requests of that size at most before they know who asks.
const maxToken = 512 << 10

func (f tokenFile) token(context.Context) (string, error) {
	content, err := os.ReadFile(string(f))
	if err != nil {
		return "", fmt.Errorf("read the token: %w", err)
	}
	token := strings.TrimSpace(string(content))
	if err := checkToken(token); err != nil {
		return "", fmt.Errorf("read the token: %s: %w", string(f), err)
	}
	return token, nil
}

func (tokenFile) refused(context.Context, string) {}

// checkToken reports whether something cannot be a token (RFC 6750).
func checkToken(s string) error {
	switch {
	case s == "":
		return errors.New("it is empty")
	case len(s) > maxToken:
		return errors.New("it is too long for a token")
	case strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' }):
		return errors.New("it holds a character that no token has")
	}
	return nil
}
