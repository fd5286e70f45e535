// SPDX-License-Identifier: Apache-2.0

package config

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/kube-eventbridge/kube-eventbridge/encode/redact"
)

// Secrets reads the secrets that n names, and checks that the files are readable that the NATS client reads itself. A
// file's trailing line end is not part of a secret.
func (n *NATSAccess) Secrets() (token, password string, err error) {
	token, tokenErr := readSecret("token", n.TokenFile, n.TokenEnv)
	password, passwordErr := readSecret("password", n.PasswordFile, n.PasswordEnv)
	return token, password, errors.Join(tokenErr, passwordErr, checkReadable("nkeyFile", n.NKeyFile),
		checkReadable("credsFile", n.CredsFile))
}

// Secrets reads the secrets that s names, and checks that the file is readable that the Kafka client reads itself. A
// file's trailing line end is not part of a secret.
func (s *SASL) Secrets() (password, clientSecret string, err error) {
	password, passwordErr := readSecret("password", s.PasswordFile, s.PasswordEnv)
	clientSecret, clientErr := readSecret("clientSecret", s.ClientSecretFile, s.ClientSecretEnv)
	return password, clientSecret, errors.Join(passwordErr, checkReadable("tokenFile", s.TokenFile), clientErr)
}

// HashKey reads the key of the hashes of Secrets' values; nil where there are none. A file's trailing line end is not
// part of it.
func (s *Secrets) HashKey() ([]byte, error) {
	h := s.Hashes
	if h == nil {
		return nil, nil
	}
	key, err := readSecret("key", h.KeyFile, h.KeyEnv)
	if err != nil {
		return nil, fmt.Errorf("secrets.hashes: %w", err)
	}
	if len(key) < redact.MinHashKey {
		return nil, fmt.Errorf("secrets.hashes: the key has %d bytes; give it %d random ones or more, such as "+
			"openssl rand -hex 32 prints", len(key), redact.MinHashKey)
	}
	return []byte(key), nil
}

// readSecret reads a file or an environment variable; where neither is named the secret is empty.
func readSecret(what, file, env string) (string, error) {
	switch {
	case file != "":
		data, err := os.ReadFile(file)
		if err != nil {
			return "", fmt.Errorf("read %sFile: %w", what, err)
		}
		text := strings.TrimRight(string(data), "\r\n")
		if text == "" {
			return "", fmt.Errorf("read %sFile: %s is empty", what, file)
		}
		return text, nil
	case env != "":
		text := os.Getenv(env)
		if text == "" {
			return "", fmt.Errorf("read %sEnv: the environment variable %s is not set", what, env)
		}
		return text, nil
	default:
		return "", nil
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
