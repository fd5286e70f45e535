// SPDX-License-Identifier: Apache-2.0

// Package testcert issues certificates for tests.
package testcert

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"time"
)

// Authority is a certificate authority.
type Authority struct {
	// PEM is its certificate.
	PEM []byte
	// File is a file with PEM; empty unless [ForTest] has made the authority.
	File        string
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

// New makes an authority. Two authorities that a test must tell apart need different names. Clients cannot tell whose
// certificates a server accepts where two have one name, and send theirs.
func New(name string) (*Authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make CA: %w", err)
	}
	t := template(name)
	t.IsCA, t.BasicConstraintsValid = true, true
	t.KeyUsage |= x509.KeyUsageCertSign
	der, err := x509.CreateCertificate(rand.Reader, t, t, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("make CA: %w", err)
	}
	a := &Authority{key: key, PEM: encode("CERTIFICATE", der)}
	if a.certificate, err = x509.ParseCertificate(der); err != nil {
		return nil, fmt.Errorf("make CA: %w", err)
	}
	return a, nil
}

// User returns a certificate of a user in groups, and its key in PKCS #8, which Kafka wants; both in PEM.
func (a *Authority) User(name string, groups ...string) (certPEM, keyPEM []byte, err error) {
	return a.UserUntil(template(name).NotAfter, name, groups...)
}

// UserUntil is User for a certificate that expires at a time.
func (a *Authority) UserUntil(end time.Time, name string, groups ...string) (certPEM, keyPEM []byte, err error) {
	t := template(name)
	t.NotAfter = end
	t.Subject.Organization = groups
	t.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	return a.issue(t)
}

// Server returns a certificate of a server at localhost, 127.0.0.1 and further addresses, and its key, as User does.
func (a *Authority) Server(addresses ...net.IP) (certPEM, keyPEM []byte, err error) {
	t := template("localhost")
	t.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	t.IPAddresses, t.DNSNames = append([]net.IP{net.IPv4(127, 0, 0, 1)}, addresses...), []string{"localhost"}
	return a.issue(t)
}

func (a *Authority) issue(t *x509.Certificate) (certPEM, keyPEM []byte, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("make key: %w", err)
	}
	cert, err := x509.CreateCertificate(rand.Reader, t, a.certificate, key.Public(), a.key)
	if err != nil {
		return nil, nil, fmt.Errorf("sign certificate: %w", err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, nil, fmt.Errorf("encode key: %w", err)
	}
	return encode("CERTIFICATE", cert), encode("PRIVATE KEY", der), nil
}

// SigningKey returns a key in the older form that kube-apiserver wants for service accounts, in PEM.
func SigningKey() ([]byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make key: %w", err)
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("encode key: %w", err)
	}
	return encode("EC PRIVATE KEY", der), nil
}

func template(name string) *x509.Certificate {
	serial, _ := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120)) // rand.Reader does not fail
	return &x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{CommonName: name},
		// Some tests set clocks that are off by days.
		NotBefore: time.Now().Add(-7 * 24 * time.Hour),
		NotAfter:  time.Now().Add(7 * 24 * time.Hour),
		KeyUsage:  x509.KeyUsageDigitalSignature,
	}
}

func encode(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}
