// SPDX-License-Identifier: Apache-2.0

package kafkabroker

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/kube-eventbridge/kube-eventbridge/internal/testcert"
)

// authority signs the certificates of one cluster: its brokers' and its users'.
type authority struct {
	*testcert.Authority
	dir string // where it writes what it signs
}

// newAuthority makes a CA and the brokers' certificate, in a directory.
func newAuthority(dir string) (*authority, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make certificates: %w", err)
	}
	signs, err := testcert.New("kube-eventbridge-test-ca")
	if err != nil {
		return nil, err
	}
	a := &authority{signs, dir}
	cert, key, err := a.Server()
	if err != nil {
		return nil, err
	}
	for path, data := range map[string][]byte{a.caFile(): a.PEM, a.brokerFile(): append(key, cert...)} {
		if err := os.WriteFile(path, data, 0o600); err != nil {
			return nil, fmt.Errorf("write certificates: %w", err)
		}
	}
	return a, nil
}

func (a *authority) caFile() string { return filepath.Join(a.dir, "ca.crt") }

// Key and certificate, as Kafka wants them.
func (a *authority) brokerFile() string { return filepath.Join(a.dir, "broker.pem") }

// CAFile is the path of the certificate, in PEM, that signed those of the brokers.
func (c *Cluster) CAFile() string { return c.ca.caFile() }

// Certificate makes a certificate of a user, valid for a week, and returns the paths of it and of its key, in PEM. The
// user need not be one of [Config].Users. A listener that asks for certificates takes the client for this user, unless
// it has SASL.
func (c *Cluster) Certificate(user string) (certFile, keyFile string, err error) {
	cert, key, err := c.ca.User(user)
	if err != nil {
		return "", "", err
	}
	dir, err := os.MkdirTemp(c.ca.dir, "client-")
	if err != nil {
		return "", "", fmt.Errorf("write certificate: %w", err)
	}
	certFile, keyFile = filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
	for path, data := range map[string][]byte{certFile: cert, keyFile: key} {
		if err := os.WriteFile(path, data, 0o600); err != nil {
			return "", "", fmt.Errorf("write certificate: %w", err)
		}
	}
	return certFile, keyFile, nil
}
