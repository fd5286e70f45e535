// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"

	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
	"github.com/kube-eventbridge/kube-eventbridge/internal/testcert"
)

// secured starts an API server at an address that answers users of a name only.
func secured(t *testing.T, ca *testcert.Authority, user *atomic.Value) *httptest.Server {
	t.Helper()
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.TLS.PeerCertificates[0].Subject.CommonName == user.Load() {
			_, _ = fmt.Fprint(w, `{"metadata":{"uid":"u"}}`)
			return
		}
		w.WriteHeader(http.StatusUnauthorized)
		_, _ = fmt.Fprint(w, `{"kind":"Status","status":"Failure","code":401,"reason":"Unauthorized"}`)
	}))
	server.TLS = ca.Serve(t, func(c *tls.Config) { c.ClientAuth = tls.RequireAnyClientCert })
	server.StartTLS()
	t.Cleanup(server.Close)
	return server
}

func move(t *testing.T, from, to string) {
	t.Helper()
	require.NoError(t, os.WriteFile(to, must.Get(os.ReadFile(from))(t), 0o600))
}

// An API server looks at the certificate of the connection with each request, and it may have expired since.
func TestClient_uses_renewed_certificates(t *testing.T) {
	for name, ask := range map[string]func(*testing.T, *Client) error{
		"its own requests": func(t *testing.T, c *Client) error { return must.Err(c.ClusterUID(t.Context())) },
		"those of other clients": func(t *testing.T, c *Client) error {
			cfg := c.Config()
			resp, err := must.Get(rest.HTTPClientFor(cfg))(t).Get(cfg.Host + "/version")
			if err != nil {
				return err
			}
			defer func() { _ = resp.Body.Close() }()
			if resp.StatusCode == http.StatusUnauthorized {
				return apierrors.NewUnauthorized("")
			}
			return must.Err(io.Copy(io.Discard, resp.Body))
		},
	} {
		t.Run(name, func(t *testing.T) { usesRenewed(t, ask) })
	}
}

func usesRenewed(t *testing.T, ask func(*testing.T, *Client) error) {
	t.Helper()
	dir, old, renewed := t.TempDir(), testcert.ForTest(t, "old"), testcert.ForTest(t, "renewed")
	at := func(name string) string { return filepath.Join(dir, name) }
	var user atomic.Value
	issue := func(name string) {
		cert, key := old.Issue(t, name, time.Now().Add(time.Hour))
		move(t, cert, at("crt"))
		move(t, key, at("key"))
		user.Store(name)
	}
	issue("first")
	move(t, old.File, at("ca"))
	server := secured(t, old, &user)
	c := must.Get(NewClient(&rest.Config{Host: server.URL, UserAgent: "test", TLSClientConfig: rest.TLSClientConfig{
		CertFile: at("crt"), KeyFile: at("key"), CAFile: at("ca"),
	}}))(t)
	defer func() { c.CloseIdleConnections() }()
	answer := func() error { return ask(t, c) }
	require.NoError(t, answer())

	issue("second")
	must.Succeed(t, "an answer to the second user", func() error {
		err := answer()
		assert.True(t, err == nil || apierrors.IsUnauthorized(err), "%v", err)
		return err
	})

	another := secured(t, renewed, &user)
	c.base.Host = another.Listener.Addr().String()
	var unverified *tls.CertificateVerificationError
	require.ErrorAs(t, answer(), &unverified)
	move(t, renewed.File, at("ca"))
	must.Succeed(t, "an answer of the other server", answer)
}
