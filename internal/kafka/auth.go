// SPDX-License-Identifier: Apache-2.0

package kafka

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"slices"
	"strings"

	"github.com/segmentio/kafka-go/sasl"
	"github.com/segmentio/kafka-go/sasl/plain"
	"github.com/segmentio/kafka-go/sasl/scram"
)

// The mechanisms by which a client proves who it is.
const (
	Plain       = "PLAIN"
	ScramSHA256 = "SCRAM-SHA-256"
	ScramSHA512 = "SCRAM-SHA-512"
	OAuthBearer = "OAUTHBEARER"
)

// Mechanisms returns what [Auth].Mechanism may be.
func Mechanisms() []string { return []string{Plain, ScramSHA256, ScramSHA512, OAuthBearer} }

// Auth is how the client proves who it is. The zero Auth is no user. However it is formatted, logged or encoded, it
// says [redacted], unless fmt reaches it through an unexported field.
type Auth struct {
	// Mechanism is one of [Mechanisms]. PLAIN and OAUTHBEARER show the password or token to whoever reads a connection
	// without TLS.
	Mechanism string
	// User and Password are for PLAIN and both SCRAM mechanisms.
	User, Password string
	// TokenFile holds a token for OAUTHBEARER. It is read again for each connection.
	TokenFile string
	// TokenURL, for OAUTHBEARER without a file, is where a token is fetched for ClientID with ClientSecret, and for
	// Scopes if there are any (OAuth 2.0, client credentials). A token is kept until shortly before it expires; one
	// that does not say when is used for one connection.
	TokenURL, ClientID, ClientSecret string
	Scopes                           []string
}

const redacted = "[redacted]"

// String implements [fmt.Stringer] without telling anything.
func (Auth) String() string { return redacted }

// GoString implements [fmt.GoStringer] without telling anything.
func (Auth) GoString() string { return redacted }

// Format implements [fmt.Formatter] for every verb without telling anything.
func (Auth) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, redacted) }

// LogValue implements [slog.LogValuer] without telling anything.
func (Auth) LogValue() slog.Value { return slog.StringValue(redacted) }

// MarshalText implements [encoding.TextMarshaler], which JSON and YAML encoders use, without telling anything.
func (Auth) MarshalText() ([]byte, error) { return []byte(redacted), nil }

// mechanism returns nil for no user. The error says everything that is wrong with a, and no secret.
func (a Auth) mechanism() (sasl.Mechanism, error) {
	if err := a.validate(); err != nil {
		return nil, err
	}
	switch a.Mechanism {
	case Plain:
		return plain.Mechanism{Username: a.User, Password: a.Password}, nil
	case ScramSHA256:
		return a.scram(scram.SHA256)
	case ScramSHA512:
		return a.scram(scram.SHA512)
	case OAuthBearer:
		if a.TokenFile != "" {
			return bearer{tokenFile(a.TokenFile)}, nil
		}
		return bearer{newTokenFetcher(a)}, nil
	default:
		return nil, nil
	}
}

// scram keeps the library's error to itself, which repeats the password.
func (a Auth) scram(by scram.Algorithm) (sasl.Mechanism, error) {
	m, err := scram.Mechanism(by, a.User, a.Password)
	if err != nil {
		return nil, errors.New("auth: the user or the password has a character that SCRAM does not allow (RFC 4013)")
	}
	return m, nil
}

// validate reports everything that is wrong, as far as that can be known without the broker.
func (a Auth) validate() error {
	var errs []error
	wrong := func(format string, args ...any) { errs = append(errs, fmt.Errorf("auth: "+format, args...)) }
	names, tokens := a.User != "" || a.Password != "", a.TokenFile != "" || a.fetches()
	switch {
	case a.Mechanism == "" && (names || tokens):
		wrong("no mechanism is named; valid are %s", strings.Join(Mechanisms(), ", "))
	case a.Mechanism == "":
	case !slices.Contains(Mechanisms(), a.Mechanism):
		wrong("mechanism %q is not known; valid are %s", a.Mechanism, strings.Join(Mechanisms(), ", "))
	case a.Mechanism == OAuthBearer:
		if names {
			wrong("%s takes a token, not a user and a password", OAuthBearer)
		}
		errs = append(errs, a.validateToken()...)
	default:
		if tokens {
			wrong("%s takes a user and a password, not a token", a.Mechanism)
		}
		if a.User == "" || a.Password == "" {
			wrong("%s takes a user and a password, and one of them is empty", a.Mechanism)
		}
		if strings.Contains(a.User+a.Password, "\x00") {
			wrong("the user or the password holds a zero byte")
		}
	}
	return errors.Join(errs...)
}

// fetches reports whether any field that says how to fetch a token is set.
func (a Auth) fetches() bool {
	return a.TokenURL != "" || a.ClientID != "" || a.ClientSecret != "" || len(a.Scopes) > 0
}

func (a Auth) validateToken() (errs []error) {
	wrong := func(format string, args ...any) { errs = append(errs, fmt.Errorf("auth: "+format, args...)) }
	switch {
	case a.TokenFile != "" && a.fetches():
		wrong("a token comes from a file or from a URL, not from both")
	case a.TokenFile == "" && !a.fetches():
		wrong("%s takes a token file, or a token URL with a client's id and secret", OAuthBearer)
	case a.fetches():
		if a.ClientID == "" || a.ClientSecret == "" {
			wrong("a token URL takes a client's id and secret, and one of them is empty")
		}
		// It is not repeated: it may hold a secret.
		u, err := url.Parse(a.TokenURL)
		if err != nil || u.Hostname() == "" || u.Scheme != "https" && u.Scheme != "http" || u.User != nil ||
			u.Fragment != "" {
			wrong("the token URL is not one; write https://host/path, without a user")
		}
	}
	return errs
}
