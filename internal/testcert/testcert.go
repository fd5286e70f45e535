// SPDX-License-Identifier: Apache-2.0

// Package testcert issues certificates for tests.
package testcert

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
)

// Authority issues certificates. File has its own.
type Authority struct {
	File string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// New returns an authority with a name of its own.
func New(t *testing.T) *Authority {
	t.Helper()
	return Named(t, rand.Text())
}

// Named returns an authority with a name that others may have too: clients cannot tell then whose certificates a
// server accepts, and send theirs.
func Named(t *testing.T, name string) *Authority {
	t.Helper()
	a := &Authority{key: must.Get(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)}
	a.cert = &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der := must.Get(x509.CreateCertificate(rand.Reader, a.cert, a.cert, &a.key.PublicKey, a.key))(t)
	a.cert = must.Get(x509.ParseCertificate(der))(t)
	a.File = write(t, "ca.pem", "CERTIFICATE", der)
	return a
}

// Issue returns the files of a certificate for name and 127.0.0.1, valid until end.
func (a *Authority) Issue(t *testing.T, name string, end time.Time) (certFile, keyFile string) {
	t.Helper()
	key := must.Get(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	cert := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: end,
		DNSNames: []string{name}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der := must.Get(x509.CreateCertificate(rand.Reader, cert, a.cert, &key.PublicKey, a.key))(t)
	keyDER := must.Get(x509.MarshalPKCS8PrivateKey(key))(t)
	return write(t, "cert.pem", "CERTIFICATE", der), write(t, "key.pem", "PRIVATE KEY", keyDER)
}

// Server returns a server's configuration with a certificate for broker.test and 127.0.0.1.
func (a *Authority) Server(t *testing.T, change func(*tls.Config)) *tls.Config {
	t.Helper()
	pair := must.Get(tls.LoadX509KeyPair(a.Issue(t, "broker.test", time.Now().Add(time.Hour))))(t)
	c := &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair}}
	if change != nil {
		change(c)
	}
	return c
}

// VerifyClients makes a server ask for a certificate of the authority.
func (a *Authority) VerifyClients(c *tls.Config) {
	c.ClientAuth, c.ClientCAs = tls.RequireAndVerifyClientCert, x509.NewCertPool()
	c.ClientCAs.AddCert(a.cert)
}

func write(t *testing.T, name, kind string, der []byte) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	require.NoError(t, os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600))
	return file
}
