// SPDX-License-Identifier: Apache-2.0

package kafka

import (
	"crypto/tls"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
	"github.com/kube-eventbridge/kube-eventbridge/internal/testcert"
)

func TestTLS_names_everything_that_is_wrong(t *testing.T) {
	a := testcert.ForTest(t, "test")
	cert, key := a.Issue(t, "bridge", time.Now().Add(time.Hour))
	_, other := a.Issue(t, "bridge", time.Now().Add(time.Hour))
	empty := writeFile(t, "empty", "no PEM")
	for name, c := range map[string]struct {
		tls  TLS
		want string
	}{
		"everything":         {TLS{Enabled: true, CAFile: a.File, CertFile: cert, KeyFile: key, ServerName: "b"}, ""},
		"a CA that is away":  {TLS{CAFile: "/nowhere/ca"}, "tls: CA: open /nowhere/ca: no such file or directory"},
		"a CA without any":   {TLS{CAFile: empty}, "tls: CA " + empty + ": no certificate in it"},
		"half a certificate": {TLS{CertFile: cert}, "tls: a certificate and its key go together"},
		"another's key": {
			TLS{CertFile: cert, KeyFile: other},
			"tls: certificate " + cert + " with key " + other + ": tls: private key does not match public key",
		},
		"both": {
			TLS{CAFile: empty, CertFile: "/nowhere/cert", KeyFile: key},
			"tls: CA " + empty + ": no certificate in it\ntls: certificate /nowhere/cert with key " + key +
				": open /nowhere/cert: no such file or directory",
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := c.tls.config()
			assert.Equal(t, c.want, strings.TrimSpace(errorText(err)))
		})
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func TestTLS_is_asked_for_by_any_field(t *testing.T) {
	a := testcert.ForTest(t, "test")
	cert, key := a.Issue(t, "bridge", time.Now().Add(time.Hour))
	c, err := (TLS{}).config()
	assert.True(t, c == nil && err == nil, "nothing asked for: %v, %v", c, err)
	for _, with := range []TLS{{Enabled: true}, {CAFile: a.File}, {CertFile: cert, KeyFile: key}, {ServerName: "b"}} {
		c := must.Get(with.config())(t)
		require.NotNil(t, c, "%+v", with)
		assert.EqualValues(t, tls.VersionTLS12, c.MinVersion, "%+v", with)
		assert.Equal(t, with.ServerName, c.ServerName, "%+v", with)
		assert.Equal(t, with.CAFile != "", c.RootCAs != nil, "%+v", with)
		assert.False(t, c.InsecureSkipVerify, "%+v", with)
	}
}

// seen returns the name in the certificate that a client shows.
func seen(t *testing.T, server, client *tls.Config) (string, error) {
	t.Helper()
	a, b := net.Pipe()
	defer a.Close()
	defer b.Close()
	s := tls.Server(b, server)
	failed := make(chan error, 1)
	go func() {
		err := s.HandshakeContext(t.Context())
		if err != nil {
			_ = b.Close()
		}
		failed <- err
	}()
	c := tls.Client(a, client)
	err := c.HandshakeContext(t.Context())
	if err != nil {
		_ = a.Close()
	}
	if failure := <-failed; err != nil || failure != nil {
		if err == nil {
			err = failure
		}
		return "", err
	}
	return s.ConnectionState().PeerCertificates[0].Subject.CommonName, nil
}

func TestTLS_shows_a_renewed_certificate_on_the_next_connection(t *testing.T) {
	a := testcert.ForTest(t, "test")
	server := a.Serve(t, a.VerifyClients)
	server.SessionTicketsDisabled = true
	cert, key := a.Issue(t, "before", time.Now().Add(time.Hour))
	newCert, newKey := a.Issue(t, "after", time.Now().Add(time.Hour))
	client := must.Get(TLS{CAFile: a.File, CertFile: cert, KeyFile: key, ServerName: "broker.test"}.config())(t)
	name, err := seen(t, server, client)
	assert.True(t, name == "before" && err == nil, "first %q, %v", name, err)
	copyFile(t, newCert, cert)
	const mismatch = "tls: private key does not match public key"
	if name, err := seen(t, server, client); err == nil ||
		err.Error() != "tls: certificate "+cert+" with key "+key+": "+mismatch {
		t.Errorf("half renewed: %q, %v", name, err)
	}
	copyFile(t, newKey, key)
	name, err = seen(t, server, client)
	assert.True(t, name == "after" && err == nil, "then %q, %v", name, err)
}

func TestTLS_speaks_1_2_and_no_less(t *testing.T) {
	a := testcert.ForTest(t, "test")
	for version, want := range map[uint16]bool{tls.VersionTLS11: false, tls.VersionTLS12: true, tls.VersionTLS13: true} {
		cert, key := a.Issue(t, "bridge", time.Now().Add(time.Hour))
		client := must.Get(TLS{CAFile: a.File, CertFile: cert, KeyFile: key, ServerName: "broker.test"}.config())(t)
		server := a.Serve(t, a.VerifyClients)
		server.MinVersion, server.MaxVersion = tls.VersionTLS10, version
		_, err := seen(t, server, client)
		assert.Equal(t, want, (err == nil), "%s: %v", tls.VersionName(version), err)
	}
}

// copyFile makes to what from is.
func copyFile(t *testing.T, from, to string) {
	t.Helper()
	require.NoError(t, os.WriteFile(to, must.Get(os.ReadFile(from))(t), 0o600))
}
