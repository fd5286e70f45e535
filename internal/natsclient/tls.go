// SPDX-License-Identifier: Apache-2.0

package natsclient

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"

	gonats "github.com/nats-io/nats.go"
)

// TLS is how the connection is protected. Any field that is set asks for TLS, as a server URL tls:// or wss:// does.
type TLS struct {
	// CAFile holds what the server's certificate is checked against (default: the system's).
	CAFile string
	// CertFile and KeyFile are the client's certificate. They are read again for each connection.
	CertFile, KeyFile string
	// ServerName is the name in the server's certificate (default: the host connected to).
	ServerName string
}

func (t TLS) validate() error {
	if (t.CertFile == "") != (t.KeyFile == "") {
		return errors.New("tls: a certificate and its key go together")
	}
	if t.CertFile != "" {
		if _, err := tls.LoadX509KeyPair(t.CertFile, t.KeyFile); err != nil {
			return fmt.Errorf("tls: certificate %s with key %s: %w", t.CertFile, t.KeyFile, err)
		}
	}
	if t.CAFile != "" {
		pem, err := os.ReadFile(t.CAFile)
		if err != nil {
			return fmt.Errorf("tls: CA: %w", err)
		}
		if !x509.NewCertPool().AppendCertsFromPEM(pem) {
			return fmt.Errorf("tls: CA %s: no certificate in it", t.CAFile)
		}
	}
	return nil
}

func (t TLS) options() []gonats.Option {
	if t == (TLS{}) {
		return nil
	}
	opts := []gonats.Option{gonats.Secure(&tls.Config{MinVersion: tls.VersionTLS12, ServerName: t.ServerName})}
	if t.CAFile != "" {
		opts = append(opts, gonats.RootCAs(t.CAFile))
	}
	if t.CertFile != "" {
		opts = append(opts, gonats.ClientCert(t.CertFile, t.KeyFile))
	}
	return opts
}
