// SPDX-License-Identifier: Apache-2.0

package config

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// certificate writes a self-signed certificate and its key, and returns their files.
func certificate(t *testing.T) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1)}
	certDER, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalECPrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	cert, key = filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
	for file, block := range map[string]*pem.Block{cert: {Type: "CERTIFICATE", Bytes: certDER}, key: {Type: "EC PRIVATE KEY", Bytes: keyDER}} {
		if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return cert, key
}

func TestTLS_reads_what_it_names(t *testing.T) {
	cert, key := certificate(t)
	c, err := (&TLS{CAFile: cert, CertFile: cert, KeyFile: key, ServerName: "nats"}).Config()
	if err != nil {
		t.Fatal(err)
	}
	if c.RootCAs == nil || len(c.Certificates) != 1 || c.ServerName != "nats" {
		t.Errorf("got %+v", c)
	}
	c, err = (&TLS{}).Config()
	if err != nil || c.RootCAs != nil || c.Certificates != nil {
		t.Errorf("of nothing: %+v, %v", c, err)
	}
	if c, err = (*TLS)(nil).Config(); c != nil || err != nil {
		t.Errorf("of nil: %v, %v", c, err)
	}
}

func TestTLS_says_which_file_is_wrong(t *testing.T) {
	cert, key := certificate(t)
	for _, c := range []struct {
		tls  TLS
		want string
	}{
		{TLS{CAFile: "/none"}, "read caFile: open /none: no such file or directory"},
		{TLS{CAFile: key}, "read caFile: " + key + " holds no PEM certificate"},
		{TLS{CertFile: cert, KeyFile: cert}, "read certFile and keyFile: "},
	} {
		if _, err := c.tls.Config(); err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("got %v, want %s", err, c.want)
		}
	}
}
