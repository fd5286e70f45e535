// SPDX-License-Identifier: Apache-2.0

package config

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"

	"github.com/kube-eventbridge/kube-eventbridge/encode/redact"
)

const redacted = "[redacted]"

// Secret holds a text that must not be shown: however it is formatted, logged or encoded, it says [redacted].
// The zero Secret is empty.
type Secret struct {
	// Behind a pointer, so that fmt shows an address even where it reaches a Secret through an unexported field.
	text *string
}

// NewSecret returns a Secret that holds text.
func NewSecret(text string) Secret { return Secret{&text} }

// Reveal returns the text.
func (s Secret) Reveal() string {
	if s.text == nil {
		return ""
	}
	return *s.text
}

// String returns [redacted].
func (Secret) String() string { return redacted }

// Format implements fmt.Formatter for every verb.
func (Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, redacted) }

// LogValue implements slog.LogValuer.
func (Secret) LogValue() slog.Value { return slog.StringValue(redacted) }

// MarshalText implements encoding.TextMarshaler, which JSON and YAML encoders use.
func (Secret) MarshalText() ([]byte, error) { return []byte(redacted), nil }

// Credentials are what a NATS server is told of who we are, read from where the configuration says. At most one kind is
// set.
type Credentials struct {
	Token    Secret
	User     string
	Password Secret
	// NKeyFile and CredsFile are files that the NATS client reads itself, at every connect.
	NKeyFile, CredsFile string
}

// Credentials reads the secrets that n names. A file's trailing line end is not part of the secret.
func (n *NATSAccess) Credentials() (Credentials, error) {
	c := Credentials{User: n.User, NKeyFile: n.NKeyFile, CredsFile: n.CredsFile}
	var errs [4]error
	c.Token, errs[0] = readSecret("token", n.TokenFile, n.TokenEnv)
	c.Password, errs[1] = readSecret("password", n.PasswordFile, n.PasswordEnv)
	errs[2] = checkReadable("nkeyFile", n.NKeyFile)
	errs[3] = checkReadable("credsFile", n.CredsFile)
	if err := errors.Join(errs[:]...); err != nil {
		return Credentials{}, err
	}
	return c, nil
}

// KafkaCredentials are what Kafka brokers are told of who we are, read from where the configuration says. They are for
// one mechanism.
type KafkaCredentials struct {
	User     string
	Password Secret
	// TokenFile is a file that the Kafka client reads itself, at every connect.
	TokenFile string
	// TokenURL is where a token is fetched by the others.
	TokenURL, ClientID string
	ClientSecret       Secret
	Scopes             []string
}

// Credentials reads the secrets that k names. A file's trailing line end is not part of the secret. Without sasl they
// are the zero value.
func (k *Kafka) Credentials() (KafkaCredentials, error) {
	s := k.SASL
	if s == nil {
		return KafkaCredentials{}, nil
	}
	c := KafkaCredentials{
		User: s.User, TokenFile: s.TokenFile, TokenURL: s.TokenURL, ClientID: s.ClientID,
		Scopes: slices.Clone(s.Scopes),
	}
	var errs [3]error
	c.Password, errs[0] = readSecret("password", s.PasswordFile, s.PasswordEnv)
	errs[1] = checkReadable("tokenFile", s.TokenFile)
	c.ClientSecret, errs[2] = readSecret("clientSecret", s.ClientSecretFile, s.ClientSecretEnv)
	if err := errors.Join(errs[:]...); err != nil {
		return KafkaCredentials{}, err
	}
	return c, nil
}

// HashKey reads the key of the hashes of Secrets' values; the zero Secret where there are none. A file's trailing line
// end is not part of it.
func (s *Secrets) HashKey() (Secret, error) {
	h := s.Hashes
	if h == nil {
		return Secret{}, nil
	}
	key, err := readSecret("key", h.KeyFile, h.KeyEnv)
	if err != nil {
		return Secret{}, fmt.Errorf("secrets.hashes: %w", err)
	}
	if n := len(key.Reveal()); n < redact.MinHashKey {
		return Secret{},
			fmt.Errorf("secrets.hashes: the key has %d bytes; give it %d random ones or more, such as openssl rand -hex 32 "+
				"prints", n, redact.MinHashKey)
	}
	return key, nil
}

// readSecret reads a file or an environment variable; where neither is named the Secret is the zero one.
func readSecret(what, file, env string) (Secret, error) {
	switch {
	case file != "":
		data, err := os.ReadFile(file)
		if err != nil {
			return Secret{}, fmt.Errorf("read %sFile: %w", what, err)
		}
		text := strings.TrimRight(string(data), "\r\n")
		if text == "" {
			return Secret{}, fmt.Errorf("read %sFile: %s is empty", what, file)
		}
		return NewSecret(text), nil
	case env != "":
		text := os.Getenv(env)
		if text == "" {
			return Secret{}, fmt.Errorf("read %sEnv: the environment variable %s is not set", what, env)
		}
		return NewSecret(text), nil
	default:
		return Secret{}, nil
	}
}

func checkReadable(key, file string) error {
	if file == "" {
		return nil
	}
	f, err := os.Open(file)
	if err != nil {
		return fmt.Errorf("read %s: %w", key, err)
	}
	return f.Close()
}
