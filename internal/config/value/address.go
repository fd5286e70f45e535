// SPDX-License-Identifier: Apache-2.0

package value

import (
	"maps"
	"net"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Listenable reports whether a server can listen on an address.
func Listenable(address string) bool {
	host, port, err := net.SplitHostPort(address)
	_, portErr := strconv.ParseUint(port, 10, 16)
	return err == nil && portErr == nil && host != "*"
}

// AnyPort reports whether a server takes any free port.
func AnyPort(address string) bool { return strings.HasSuffix(address, ":0") }

// Loopback reports whether only this machine reaches an address.
func Loopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	ip := net.ParseIP(host)
	return err != nil || host == "localhost" || ip != nil && ip.IsLoopback()
}

// isPort reports whether a server can have the port: 1 to 65535.
func isPort(port string) bool {
	n, err := strconv.ParseUint(port, 10, 16)
	return err == nil && n > 0
}

// hostPattern also has the underscores that names in a container's network may have.
var hostPattern = regexp.MustCompile(`^[A-Za-z0-9_]([A-Za-z0-9_.-]*[A-Za-z0-9_.])?$`)

// IsBroker reports whether address can be that of a server: a name or an IP address, and a port.
func IsBroker(address string) bool {
	host, port, err := net.SplitHostPort(address)
	if err != nil || !isPort(port) {
		return false
	}
	_, ipErr := netip.ParseAddr(host)
	return ipErr == nil || hostPattern.MatchString(host)
}

// parseServer reads the URL of a NATS server, whose scheme may be missing.
func parseServer(s string) (*url.URL, error) {
	if !strings.Contains(s, "://") {
		s = "nats://" + s
	}
	return url.Parse(s)
}

// IsServer reports whether s is the URL of a NATS server, without what may be a secret.
func IsServer(s string) bool {
	u, err := parseServer(s)
	return err == nil && u.Hostname() != "" && (u.Port() == "" || isPort(u.Port())) && !strings.Contains(s, "@") &&
		u.RawQuery == "" && u.Fragment == "" && slices.Contains([]string{"nats", "tls", "ws", "wss"}, u.Scheme) &&
		(strings.Trim(u.Path, "/") == "" || Websocket(s))
}

// Websocket reports whether the URL of a NATS server has the scheme ws or wss.
func Websocket(server string) bool {
	u, err := parseServer(server)
	return err == nil && (u.Scheme == "ws" || u.Scheme == "wss")
}

// Readable reports whether what is sent to a server's URL can be read on the network.
func Readable(server string) bool {
	u, err := parseServer(server)
	return err == nil && u.Scheme != "tls" && u.Scheme != "wss" && !Loopback(net.JoinHostPort(u.Hostname(), "0"))
}

// secretName is of parameters whose value is a secret.
var secretName = regexp.MustCompile(`(?i)secret|password|passwd|token|assertion|api.?key|credential|` +
	`signature|^(sig|key|pwd)$`)

// IsTokenURL reports whether s is the URL of a server that gives tokens, without a secret.
func IsTokenURL(s string) bool {
	u, err := url.Parse(s)
	return err == nil && u.Hostname() != "" && u.User == nil && u.Fragment == "" &&
		(u.Scheme == "https" || u.Scheme == "http") &&
		!slices.ContainsFunc(slices.Collect(maps.Keys(u.Query())), secretName.MatchString)
}
