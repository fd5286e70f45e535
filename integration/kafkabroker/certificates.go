// SPDX-License-Identifier: Apache-2.0

package kafkabroker

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// authority signs the certificates of one cluster: its brokers' and its users'.
type authority struct {
	dir  string // where it writes what it signs
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// newAuthority makes a CA and the brokers' certificate, in a directory.
func newAuthority(dir string) (*authority, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make certificates: %w", err)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make CA: %w", err)
	}
	t := certificate("kube-eventbridge-test-ca")
	t.IsCA, t.BasicConstraintsValid = true, true
	t.KeyUsage |= x509.KeyUsageCertSign
	t.ExtKeyUsage = nil // a CA's usages limit those of what it signs
	der, err := x509.CreateCertificate(rand.Reader, t, t, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("make CA: %w", err)
	}
	a := &authority{dir: dir, key: key}
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		return nil, fmt.Errorf("make CA: %w", err)
	}
	if err := os.WriteFile(a.caFile(), encodePEM("CERTIFICATE", der), 0o600); err != nil {
		return nil, fmt.Errorf("write CA: %w", err)
	}
	t = certificate("localhost")
	t.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	t.IPAddresses, t.DNSNames = []net.IP{net.IPv4(127, 0, 0, 1)}, []string{"localhost"}
	cert, keyPEM, err := a.issue(t)
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(a.brokerFile(), append(keyPEM, cert...), 0o600); err != nil {
		return nil, fmt.Errorf("write certificate: %w", err)
	}
	return a, nil
}

func (a *authority) caFile() string     { return filepath.Join(a.dir, "ca.crt") }
func (a *authority) brokerFile() string { return filepath.Join(a.dir, "broker.pem") } // key and certificate, as Kafka wants them

// issue returns a certificate and its key in PEM.
func (a *authority) issue(t *x509.Certificate) (certPEM, keyPEM []byte, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("make key: %w", err)
	}
	der, err := x509.CreateCertificate(rand.Reader, t, a.cert, key.Public(), a.key)
	if err != nil {
		return nil, nil, fmt.Errorf("sign certificate: %w", err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key) // the only form that Kafka reads
	if err != nil {
		return nil, nil, fmt.Errorf("encode key: %w", err)
	}
	return encodePEM("CERTIFICATE", der), encodePEM("PRIVATE KEY", keyDER), nil
}

// CAFile is the path of the certificate, in PEM, that signed those of the brokers.
func (c *Cluster) CAFile() string { return c.ca.caFile() }

// Certificate makes a certificate of a user, valid for a week, and returns the paths of it and of its key, in PEM. The user need not be one of
// [Config].Users. A listener that asks for certificates takes the client for this user, unless it has SASL.
func (c *Cluster) Certificate(user string) (certFile, keyFile string, err error) {
	t := certificate(user)
	t.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	cert, key, err := c.ca.issue(t)
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

// TLS returns what a client needs to trust the brokers, and, if user is not empty, to come as that user.
func (c *Cluster) TLS(user string) (*tls.Config, error) {
	cfg := &tls.Config{RootCAs: x509.NewCertPool()}
	cfg.RootCAs.AddCert(c.ca.cert)
	if user == "" {
		return cfg, nil
	}
	certFile, keyFile, err := c.Certificate(user)
	if err != nil {
		return nil, err
	}
	cert, err := tls.LoadX509KeyPair(certFile, keyFile)
	if err != nil {
		return nil, fmt.Errorf("read certificate: %w", err)
	}
	cfg.Certificates = []tls.Certificate{cert}
	return cfg, nil
}

func certificate(name string) *x509.Certificate {
	serial, _ := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120)) // rand.Reader does not fail
	return &x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{CommonName: name},
		NotBefore:    time.Now().Add(-time.Hour),
		NotAfter:     time.Now().Add(7 * 24 * time.Hour),
		KeyUsage:     x509.KeyUsageDigitalSignature,
	}
}

func encodePEM(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}
