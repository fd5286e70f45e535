// SPDX-License-Identifier: Apache-2.0

package config

import (
	"cmp"
	"fmt"
	"net"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

var envPattern = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

func (v *validator) nats(path string, n *NATS) {
	if len(n.Servers) == 0 {
		v.add(path+".servers", "none is given; write at least one, such as nats://localhost:4222")
	}
	v.servers(path, n.Servers)
	v.replicas(path, n.Replicas)
	v.access(path, n.Servers, &n.NATSAccess)
}

func (v *validator) servers(path string, servers []string) {
	for i, s := range servers {
		v.server(fmt.Sprintf("%s.servers[%d]", path, i), s)
	}
	if web := websockets(servers); web > 0 && web < len(servers) {
		v.add(path+".servers", "has URLs with ws or wss beside others, and one client speaks one of them; keep either")
	}
}

func (v *validator) replicas(path string, n int) {
	if n < 1 || n > 5 {
		v.add(path+".replicas", "%d is not a number of replicas; use 1 to 5, best 1, 3 or 5", n)
	}
}

func (v *validator) access(path string, servers []string, n *NATSAccess) {
	v.auth(path, n)
	v.tls(path+".tls", n.TLS)
	shown := ""
	switch {
	case n.TokenFile+n.TokenEnv != "":
		shown = "the token"
	case n.PasswordFile+n.PasswordEnv != "":
		shown = "the password"
	}
	if i := slices.IndexFunc(servers, readable); i >= 0 && n.TLS == nil && shown != "" {
		v.warn(fmt.Sprintf("%s.servers[%d]", path, i),
			"shows %s to whoever reads the network, unless the server asks for TLS; "+
				"add tls beside servers, or use nkeyFile or credsFile", shown)
	}
}

// readable reports whether what is sent to a server's URL can be read on the network.
func readable(server string) bool {
	if !strings.Contains(server, "://") {
		server = "nats://" + server
	}
	u, err := url.Parse(server)
	return err == nil && u.Scheme != "tls" && u.Scheme != "wss" && !loopback(net.JoinHostPort(u.Hostname(), "0"))
}

// tls checks that a client certificate is whole.
func (v *validator) tls(path string, t *TLS) {
	if t != nil && (t.CertFile == "") != (t.KeyFile == "") {
		v.add(path, "has one of certFile and keyFile; give both or none")
	}
}

// websockets counts the URLs with ws or wss.
func websockets(servers []string) (n int) {
	for _, s := range servers {
		if scheme, _, found := strings.Cut(strings.ToLower(s), "://"); found && (scheme == "ws" || scheme == "wss") {
			n++
		}
	}
	return n
}

// server checks a URL. It repeats none that may hold a secret.
func (v *validator) server(path, s string) {
	full := s
	if !strings.Contains(s, "://") {
		full = "nats://" + s
	}
	u, err := url.Parse(full)
	port := ""
	if err == nil {
		port = u.Port()
	}
	switch {
	case strings.Contains(s, "@"):
		v.add(path,
			"holds a user or a token, and a secret never stands in this file; use user with passwordFile, tokenFile, nkeyFile "+
				"or credsFile beside servers")
	case err != nil || u.Hostname() == "" || strings.Trim(u.Path, "/") != "" && !strings.HasPrefix(u.Scheme, "ws") ||
		!slices.Contains([]string{"nats", "tls", "ws", "wss"}, u.Scheme):
		v.add(path, "%s is not the URL of a NATS server; write nats://host:4222, or tls, ws or wss for nats", shown(s))
	case u.RawQuery != "" || u.Fragment != "":
		v.add(path,
			"has something behind the address, which NATS does not read; write nats://host:4222, and secrets as tokenFile, "+
				"passwordFile, nkeyFile or credsFile beside servers")
	case port != "" && !isPort(port):
		v.add(path, "%s has no port that there can be; write one from 1 to 65535, such as nats://host:4222", shown(s))
	}
}

// shown repeats what should be a URL, unless a password may be in it.
func shown(s string) string {
	_, address, _ := strings.Cut(s, "://")
	if strings.Contains(s, "%") || strings.Count(cmp.Or(address, s), ":") > 1 && !strings.Contains(s, "[") {
		return "this"
	}
	return strconv.Quote(s)
}

// auth checks that there is one way to say who we are, and that it is whole.
func (v *validator) auth(path string, n *NATSAccess) {
	var ways []string
	for _, way := range []struct {
		keys string
		used bool
	}{
		{"tokenFile", n.TokenFile != ""},
		{"tokenEnv", n.TokenEnv != ""},
		{"user", n.User != "" || n.PasswordFile != "" || n.PasswordEnv != ""},
		{"nkeyFile", n.NKeyFile != ""},
		{"credsFile", n.CredsFile != ""},
	} {
		if way.used {
			ways = append(ways, way.keys)
		}
	}
	if len(ways) > 1 {
		v.add(path,
			"has %s, and one of them decides; keep one of tokenFile, tokenEnv, user with a password, nkeyFile, credsFile",
			strings.Join(ways, " and "))
	}
	switch passwords := n.PasswordFile != "" || n.PasswordEnv != ""; {
	case n.PasswordFile != "" && n.PasswordEnv != "":
		v.add(path+".passwordEnv", "is there beside passwordFile; keep one")
	case n.User != "" && !passwords:
		v.add(path+".user", "has no password; add passwordFile or passwordEnv")
	case n.User == "" && passwords:
		v.add(path, "has a password and no user; add user")
	}
	v.env(path+".tokenEnv", n.TokenEnv, "NATS_TOKEN")
	v.env(path+".passwordEnv", n.PasswordEnv, "NATS_TOKEN")
}

// env checks the name of an environment variable. It may be the secret itself, so it is not repeated.
func (v *validator) env(path, name, example string) {
	if name != "" && !envPattern.MatchString(name) {
		v.add(path, "is not the name of an environment variable; write a name such as %s, not the value", example)
	}
}

// minWindow is how long ids are remembered at least.
const minWindow = 10 * time.Second

var streamPattern = regexp.MustCompile(`^[^\s.*>/\\\x00-\x1f\x7f]{1,255}$`)

func (v *validator) jetStream(path string, j *JetStream) {
	if !streamPattern.MatchString(j.Stream) {
		v.add(path+".stream", "%q is not the name of a stream; use a word without spaces and . * > / \\", j.Stream)
	}
	if j.MaxAge != 0 && j.MaxAge < minWindow {
		v.add(path+".maxAge",
			"%v is shorter than %v, for which the stream has to remember ids; write a longer duration, or 0 for no limit",
			j.MaxAge, minWindow)
	}
	if j.DuplicateWindow < minWindow {
		v.add(path+".duplicateWindow", "%v is shorter than %v, in which a lost connection is found again; the default is 2m",
			j.DuplicateWindow, minWindow)
	}
	v.subject(path+".subject", j.Subject)
	switch {
	case j.Fence:
	case v.elects:
		v.add(path+".fence",
			"is false, and with leaderElection the server has to refuse what a former leader sends; remove one")
	default:
		v.warn(path+".fence",
			"is false: an event that is late on its way, or that a replaced process sends, can stand behind a newer one of "+
				"its object, and the same state can be there twice")
	}
}
