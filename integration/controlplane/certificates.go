// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
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

// authority signs the certificates of one control plane: its server's and its users'.
type authority struct {
	cert    *x509.Certificate
	key     crypto.Signer
	certPEM []byte
}

// files are the certificates and keys that kube-apiserver reads. They are written once and outlive its restarts.
type files struct {
	ca, cert, key, serviceAccount string
}

func newAuthority() (*authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make CA: %w", err)
	}
	t := template("kube-eventbridge-test-ca", nil)
	t.IsCA, t.BasicConstraintsValid = true, true
	t.KeyUsage |= x509.KeyUsageCertSign
	t.ExtKeyUsage = nil // a CA's usages limit those of what it signs
	der, err := x509.CreateCertificate(rand.Reader, t, t, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("make CA: %w", err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("make CA: %w", err)
	}
	return &authority{cert: cert, key: key, certPEM: encodePEM("CERTIFICATE", der)}, nil
}

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
	keyDER, err := x509.MarshalECPrivateKey(key) // kube-apiserver reads no PKCS #8 for service accounts
	if err != nil {
		return nil, nil, fmt.Errorf("encode key: %w", err)
	}
	return encodePEM("CERTIFICATE", der), encodePEM("EC PRIVATE KEY", keyDER), nil
}

// write puts what kube-apiserver needs into dir. Its certificate is for 127.0.0.1 and the addresses.
func (a *authority) write(dir string, addresses []net.IP) (files, error) {
	f := files{
		ca: filepath.Join(dir, "ca.crt"), cert: filepath.Join(dir, "server.crt"),
		key: filepath.Join(dir, "server.key"), serviceAccount: filepath.Join(dir, "service-account.key"),
	}
	t := template("kube-apiserver", nil)
	t.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	t.IPAddresses, t.DNSNames = append([]net.IP{net.IPv4(127, 0, 0, 1)}, addresses...), []string{"localhost"}
	cert, key, err := a.issue(t)
	if err != nil {
		return f, err
	}
	_, saKey, err := a.issue(template("service-account", nil))
	if err != nil {
		return f, err
	}
	for path, data := range map[string][]byte{f.ca: a.certPEM, f.cert: cert, f.key: key, f.serviceAccount: saKey} {
		if err := os.WriteFile(path, data, 0o600); err != nil {
			return f, fmt.Errorf("write certificates: %w", err)
		}
	}
	return f, nil
}

func template(name string, groups []string) *x509.Certificate {
	serial, _ := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120)) // rand.Reader does not fail
	return &x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{CommonName: name, Organization: groups},
		// Clocks that are off by days are tested too.
		NotBefore:   time.Now().Add(-7 * 24 * time.Hour),
		NotAfter:    time.Now().Add(7 * 24 * time.Hour),
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
}

func encodePEM(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}
