// SPDX-License-Identifier: Apache-2.0

package testcert

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
)

// ForTest is [New] for a test, whose authority has a File.
func ForTest(t *testing.T, name string) *Authority {
	t.Helper()
	a := must.Get(New(name))(t)
	a.File = write(t, "ca.pem", a.PEM)
	return a
}

// Issue returns the files of a certificate for name and 127.0.0.1, for servers and clients, valid until end.
func (a *Authority) Issue(t *testing.T, name string, end time.Time) (certFile, keyFile string) {
	t.Helper()
	c := template(name)
	c.NotAfter, c.DNSNames, c.IPAddresses = end, []string{name}, []net.IP{net.IPv4(127, 0, 0, 1)}
	c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	cert, key, err := a.issue(c)
	require.NoError(t, err)
	return write(t, "cert.pem", cert), write(t, "key.pem", key)
}

// Serve returns a server's configuration with a certificate for broker.test and 127.0.0.1.
func (a *Authority) Serve(t *testing.T, change func(*tls.Config)) *tls.Config {
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
	c.ClientCAs.AddCert(a.certificate)
}

func write(t *testing.T, name string, content []byte) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	require.NoError(t, os.WriteFile(file, content, 0o600))
	return file
}
