// SPDX-License-Identifier: Apache-2.0

package endpoint

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
)

func TestLocal_is_where_this_machine_reaches_a_server(t *testing.T) {
	for listen, want := range map[string]string{
		"127.0.0.1:8080": "127.0.0.1:8080", ":8080": "127.0.0.1:8080", "0.0.0.0:9090": "127.0.0.1:9090",
		"[::]:8080":   "[::1]:8080",
		"localhost:1": "localhost:1", "10.1.2.3:8080": "10.1.2.3:8080", "[fd00::1]:8080": "[fd00::1]:8080",
		"strange": "strange",
	} {
		assert.Equal(t, want, Local(listen), "%s is reached", listen)
	}
}

func TestURL_keeps_the_path_that_a_proxy_has_before_it(t *testing.T) {
	for server, want := range map[string]string{
		"127.0.0.1:8080": "http://127.0.0.1:8080/api/status", "localhost:8080": "http://localhost:8080/api/status",
		"http://[::1]:1":       "http://[::1]:1/api/status",
		"https://gate/bridge/": "https://gate/bridge/api/status",
	} {
		u := must.Get(URL(server, "/api/status"))(t)
		assert.Equal(t, want, u.String(), server)
	}
	for _, server := range []string{"", "ftp://x", "http://", "http://x?y", "http://x#y", "http://[::1", ":"} {
		u, err := URL(server, "/x")
		assert.Error(t, err, "%q is %s", server, u.String())
	}
}

func TestShown_has_no_user_and_no_query(t *testing.T) {
	for server, want := range map[string]string{
		"127.0.0.1:8080":                      "127.0.0.1:8080",
		"https://gate/bridge/":                "https://gate/bridge/",
		"http://me:secret@gate:1/x":           "http://gate:1/x",
		"me:secret@gate:1":                    "gate:1",
		"http://me:sec ret@p@gate":            "http://gate",
		"http://gate/?token=secret":           "http://gate/",
		"http://gate/x?a=me:secret@elsewhere": "http://gate/x",
	} {
		assert.Equal(t, want, Shown(server), server)
	}
}

// An error of a client, and of an address that is none, shows no password.
func TestClient_shows_no_password(t *testing.T) {
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	assert.NoError(t, l.Close())
	c := must.Get(NewClient("http://me:secret@"+l.Addr().String(), "/api/status"))(t)
	defer c.Close()
	_, err := c.Ask(t.Context(), http.MethodGet, nil)
	assert.ErrorContains(t, err, "GET http://"+l.Addr().String()+"/api/status: dial tcp")
	assert.NotContains(t, err.Error(), "secret")
	for _, server := range []string{"http://me:secr et@x", "me:secret@x?y", "ftp://me:secret@x"} {
		_, err := NewClient(server, "/")
		assert.ErrorContains(t, err, "is not the address")
		assert.NotContains(t, err.Error(), "me:", server)
	}
}

// to returns a request that comes to an address of the bridge's machine.
func to(local, method, host string) *http.Request {
	r := httptest.NewRequest(method, "/any", nil)
	r.Host = host
	return r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey,
		net.Addr(&net.TCPAddr{IP: net.ParseIP(local), Port: 8080})))
}

// answer returns what a handler answers before the one that it guards, else 200.
func answer(guard func(http.Handler) http.Handler, r *http.Request) int {
	w := httptest.NewRecorder()
	guard(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})).ServeHTTP(w, r)
	return w.Code
}

// A page of another site may have its own name lead to 127.0.0.1, and is of the same origin as the bridge then.
func TestGuarded_refuses_names_that_anybody_may_have_lead_to_the_loopback_address(t *testing.T) {
	for _, c := range []struct {
		host, local, listen string
		want                int
	}{
		{"attacker.example:8080", "127.0.0.1", "127.0.0.1:8080", 403},
		{"attacker.example", "::1", ":8080", 403},
		{"localhost.attacker.example:8080", "127.0.0.1", "localhost:8080", 403},
		{"", "127.0.0.1", "127.0.0.1:8080", 403},
		{"127.0.0.1:8080", "127.0.0.1", "127.0.0.1:8080", 200},
		{"[::1]:8080", "::1", "[::1]:8080", 200},
		{"[::1]", "::1", ":8080", 200},
		{"localhost:9000", "127.0.0.1", ":8080", 200},
		{"LocalHost", "127.0.0.1", ":8080", 200},
		{"bridge.test:8080", "127.0.0.1", "bridge.test:8080", 200},
		{"bridge.events.svc:8080", "10.1.2.3", ":8080", 200},
	} {
		guard := func(next http.Handler) http.Handler { return Guarded(c.listen, next) }
		assert.Equal(t, c.want, answer(guard, to(c.local, http.MethodGet, c.host)), "%+v", c)
	}
}

// A browser says for which site's page it asks; a program says nothing.
func TestGuarded_refuses_changes_that_a_page_of_another_site_asks_for(t *testing.T) {
	for _, c := range []struct {
		method, header, value string
		want                  int
	}{
		{http.MethodPost, "Sec-Fetch-Site", "cross-site", 403},
		{http.MethodPost, "Sec-Fetch-Site", "same-site", 403},
		{http.MethodPost, "Origin", "http://attacker.example", 403},
		{http.MethodPost, "Sec-Fetch-Site", "same-origin", 200},
		{http.MethodPost, "Origin", "http://127.0.0.1:8080", 200},
		{http.MethodPost, "", "", 200},
		{http.MethodGet, "Sec-Fetch-Site", "cross-site", 200},
	} {
		r := to("127.0.0.1", c.method, "127.0.0.1:8080")
		if c.header != "" {
			r.Header.Set(c.header, c.value)
		}
		guard := func(next http.Handler) http.Handler { return Guarded("127.0.0.1:8080", next) }
		assert.Equal(t, c.want, answer(guard, r), "%+v", c)
	}
}

func TestUnchanging_takes_what_changes_something_on_loopback_at_most(t *testing.T) {
	for _, c := range []struct {
		method, local string
		allowed       bool
		want          int
	}{
		{http.MethodGet, "10.1.2.3", false, 200},
		{http.MethodHead, "10.1.2.3", true, 200},
		{http.MethodPost, "10.1.2.3", true, 403},
		{http.MethodPost, "127.0.0.1", true, 200},
		{http.MethodPost, "::1", true, 200},
		{http.MethodPost, "127.0.0.1", false, 403},
		{http.MethodDelete, "10.1.2.3", true, 403},
	} {
		guard := func(next http.Handler) http.Handler { return Unchanging(c.allowed, next) }
		assert.Equal(t, c.want, answer(guard, to(c.local, c.method, "a")), "%+v", c)
	}
}
