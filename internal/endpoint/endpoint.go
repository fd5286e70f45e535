// SPDX-License-Identifier: Apache-2.0

// Package endpoint is what the interfaces of a bridge's HTTP server have in common: how a client finds them, and under
// which names they answer.
package endpoint

import (
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
)

// URL returns where path is on the bridge whose HTTP server is at server: a URL, or host:port.
func URL(server, path string) (url.URL, error) {
	if !strings.Contains(server, "://") {
		server = "http://" + server
	}
	u, err := url.Parse(server)
	if err != nil || u.Hostname()+u.Port() == "" || u.Scheme != "http" && u.Scheme != "https" || u.RawQuery != "" ||
		u.Fragment != "" {
		return url.URL{},
			fmt.Errorf("%q is not the address of a bridge's HTTP server; write http://host:port, as server.listen of its "+
				"configuration says", Shown(server))
	}
	u.Path = strings.TrimSuffix(u.Path, "/") + path
	return *u, nil
}

// Shown returns the address of a server as it may be printed: without a user, a password and a query.
func Shown(server string) string {
	scheme, rest, found := strings.Cut(server, "://")
	if !found {
		scheme, rest = "", server
	} else {
		scheme += "://"
	}
	rest, _, _ = strings.Cut(rest, "?")
	return scheme + rest[strings.LastIndexByte(rest, '@')+1:]
}

// Guarded serves next to browsers, too: it answers 403 to requests that change something and that a browser makes for a
// page of another site. So that such a page cannot be of the same origin (DNS rebinding), it answers 403 to all that
// comes to the loopback address for a host that is neither an address, nor localhost, nor that of listen, which the
// server was told to listen at. What comes from elsewhere may be for any name, such as that of a Service.
func Guarded(listen string, next http.Handler) http.Handler {
	name := hostOf(listen)
	next = http.NewCrossOriginProtection().Handler(next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host := hostOf(r.Host)
		if !onLoopback(r) || net.ParseIP(host) != nil || strings.EqualFold(host, "localhost") ||
			strings.EqualFold(host, name) {
			next.ServeHTTP(w, r)
			return
		}
		http.Error(w, fmt.Sprintf("the name %q is not this bridge's; ask for an address, such as 127.0.0.1, or localhost",
			host),
			http.StatusForbidden)
	})
}

// Unchanging answers 403 to requests that change something, unless they come to the loopback address and allowed says
// that they may be made there.
func Unchanging(allowed bool, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Method == http.MethodGet, r.Method == http.MethodHead, allowed && onLoopback(r):
			next.ServeHTTP(w, r)
		case allowed:
			http.Error(w, "this changes something, and is taken at a loopback address only: ask on the bridge's machine, "+
				"through kubectl port-forward, or at the address that server.admin names", http.StatusForbidden)
		default:
			http.Error(w, "this changes something, and is taken at the address that server.admin names", http.StatusForbidden)
		}
	})
}

// onLoopback reports whether a request has come to a loopback address.
func onLoopback(r *http.Request) bool {
	at, _ := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr)
	return at != nil && at.IP.IsLoopback()
}

// hostOf returns the host of an address that may have a port.
func hostOf(address string) string {
	if host, _, err := net.SplitHostPort(address); err == nil {
		return host
	}
	return strings.Trim(address, "[]")
}

// Local returns the address at which a process of the same machine reaches a server that was told to listen at listen.
func Local(listen string) string {
	host, port, err := net.SplitHostPort(listen)
	if err != nil {
		return listen
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
		if ip != nil && ip.To4() == nil {
			host = "::1"
		}
	}
	return net.JoinHostPort(host, port)
}
