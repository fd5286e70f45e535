// SPDX-License-Identifier: Apache-2.0

// Package endpoint is what the interfaces of a bridge's HTTP server have in common: how a client finds them, and under which names they answer.
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
	if err != nil || u.Hostname()+u.Port() == "" || u.Scheme != "http" && u.Scheme != "https" || u.RawQuery != "" || u.Fragment != "" {
		return url.URL{}, fmt.Errorf("%q is not the address of a bridge's HTTP server; write http://host:port, as server.listen of its configuration says", server)
	}
	u.Path = strings.TrimSuffix(u.Path, "/") + path
	return *u, nil
}

// Known calls refuse, and not next, for what comes to the loopback address for a host that is neither an address, nor localhost, nor that of listen, which the server was
// told to listen at: anybody's name may lead there (DNS rebinding), and a page of another site would be of the same origin then. What comes from elsewhere may be for
// any name, such as that of a Service.
func Known(listen string, refuse func(w http.ResponseWriter, why string), next http.Handler) http.Handler {
	name := hostOf(listen)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		at, _ := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr)
		host := hostOf(r.Host)
		if at != nil && at.IP.IsLoopback() && net.ParseIP(host) == nil && !strings.EqualFold(host, "localhost") && !strings.EqualFold(host, name) {
			refuse(w, fmt.Sprintf("the name %q is none of this bridge's; ask for an address, such as 127.0.0.1, or localhost", host))
			return
		}
		next.ServeHTTP(w, r)
	})
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
