// SPDX-License-Identifier: Apache-2.0

// Package tlsfiles makes a client's TLS configuration out of the files that a person names.
package tlsfiles

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
)

// Files are PEM files; an empty name is no file.
type Files struct {
	// CA holds the certificates that a server's is checked against; without it they are the system's.
	CA string
	// Cert and Key are the client's certificate, with what it is signed by, and its key.
	Cert, Key string
}

// Config returns a configuration for TLS 1.2 and newer. The CA is read once; the client's certificate is read again
// whenever a server asks for it, so that a connection made after its renewal has the new one. The error says everything
// that is wrong with the files as they are now.
func (f Files) Config() (*tls.Config, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	var errs [2]error
	c.RootCAs, errs[0] = f.roots()
	switch {
	case (f.Cert == "") != (f.Key == ""):
		errs[1] = errors.New("tls: a certificate and its key go together")
	case f.Cert != "":
		_, errs[1] = f.pair()
		c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return f.pair() }
	}
	if err := errors.Join(errs[:]...); err != nil {
		return nil, err
	}
	return c, nil
}

func (f Files) roots() (*x509.CertPool, error) {
	if f.CA == "" {
		return nil, nil
	}
	pem, err := os.ReadFile(f.CA)
	if err != nil {
		return nil, fmt.Errorf("tls: CA: %w", err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("tls: CA %s: no certificate in it", f.CA)
	}
	return roots, nil
}

func (f Files) pair() (*tls.Certificate, error) {
	pair, err := tls.LoadX509KeyPair(f.Cert, f.Key)
	if err != nil {
		return nil, fmt.Errorf("tls: certificate %s with key %s: %w", f.Cert, f.Key, err)
	}
	return &pair, nil
}
