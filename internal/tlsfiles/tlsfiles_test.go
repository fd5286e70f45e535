// SPDX-License-Identifier: Apache-2.0

package tlsfiles

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
)

// write writes a certificate that signs itself, and its key.
func write(t *testing.T, name, certFile, keyFile string) {
	t.Helper()
	key := must.Get(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	cert := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name},
		NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
	}
	der := must.Get(x509.CreateCertificate(rand.Reader, cert, cert, &key.PublicKey, key))(t)
	keyDER := must.Get(x509.MarshalPKCS8PrivateKey(key))(t)
	for file, block := range map[string]*pem.Block{
		certFile: {Type: "CERTIFICATE", Bytes: der},
		keyFile:  {Type: "PRIVATE KEY", Bytes: keyDER},
	} {
		require.NoError(t, os.WriteFile(file, pem.EncodeToMemory(block), 0o600))
	}
}

func TestConfig_reads_the_certificate_again_whenever_it_is_asked_for(t *testing.T) {
	cert, key := filepath.Join(t.TempDir(), "cert"), filepath.Join(t.TempDir(), "key")
	write(t, "before", cert, key)
	c := must.Get(Files{CA: cert, Cert: cert, Key: key}.Config())(t)
	assert.True(t, c.MinVersion == tls.VersionTLS12 && c.RootCAs != nil && len(c.Certificates) == 0,
		"MinVersion %x, roots %v, %d certificates", c.MinVersion, c.RootCAs, len(c.Certificates))
	for _, name := range []string{"before", "after"} {
		write(t, name, cert, key)
		pair := must.Get(c.GetClientCertificate(nil))(t)
		assert.Equal(t, name, pair.Leaf.Subject.CommonName, "it shows")
	}
	require.NoError(t, os.Remove(key))
	if _, err := c.GetClientCertificate(nil); err == nil ||
		err.Error() != "tls: certificate "+cert+" with key "+key+": open "+key+": no such file or directory" {
		t.Errorf("without its key: %v", err)
	}
}

func TestConfig_of_no_files_trusts_whom_the_system_trusts_and_shows_nothing(t *testing.T) {
	c, err := Files{}.Config()
	assert.True(t, err == nil && c.RootCAs == nil && c.GetClientCertificate == nil && c.Certificates == nil &&
		c.MinVersion == tls.VersionTLS12, "%+v, %v", c, err)
}

func TestConfig_says_everything_that_is_wrong(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "empty")
	require.NoError(t, os.WriteFile(empty, nil, 0o600))
	for _, c := range []struct {
		files Files
		want  string
	}{
		{Files{CA: "/nowhere"}, "tls: CA: open /nowhere: no such file or directory"},
		{Files{CA: empty}, "tls: CA " + empty + ": no certificate in it"},
		{Files{Cert: empty}, "tls: a certificate and its key go together"},
		{Files{Key: empty}, "tls: a certificate and its key go together"},
		{Files{CA: empty, Cert: empty, Key: empty}, "tls: CA " + empty + ": no certificate in it\ntls: certificate " + empty +
			" with key " + empty + ": tls: failed to find any PEM data in certificate input"},
	} {
		_, err := c.files.Config()
		assert.True(t, err != nil && err.Error() == c.want, "%+v: got\n%v\nwant\n%s", c.files, err, c.want)
	}
}
