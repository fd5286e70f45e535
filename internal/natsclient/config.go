// SPDX-License-Identifier: Apache-2.0

package natsclient

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	gonats "github.com/nats-io/nats.go"
)

// Config says how a server is reached, and as whom.
type Config struct {
	// Servers are URLs (nats://, tls://, ws://, wss://) or host:port, tried in random order.
	Servers []string
	// InProcess is used instead of Servers: a server in this process.
	InProcess gonats.InProcessConnProvider
	// Name is what the server calls this client (default "kube-eventbridge").
	Name string
	Auth Auth
	TLS  TLS
}

const defaultName = "kube-eventbridge"

// WithDefaults returns the configuration with its defaults, and with a scheme in each URL.
func (c Config) WithDefaults() Config {
	if c.Name == "" {
		c.Name = defaultName
	}
	c.Servers = slices.Clone(c.Servers)
	for i, s := range c.Servers {
		c.Servers[i] = withScheme(s)
	}
	return c
}

// Validate reports everything that is wrong with a configuration that has its defaults. It reads the files that it
// names.
func (c *Config) Validate() error {
	return errors.Join(append(c.validateServers(), c.Auth.validate(), c.TLS.validate())...)
}

func (c *Config) validateServers() []error {
	if len(c.Servers) == 0 && c.InProcess == nil {
		return []error{errors.New("servers: none given")}
	}
	var errs []error
	for i, s := range c.Servers {
		if err := validateServer(s); err != nil {
			errs = append(errs, fmt.Errorf("servers[%d]: %w", i, err))
		}
	}
	return errs
}

// validateServer keeps what the URL says to itself: it may hold a password.
func validateServer(s string) error {
	u, err := url.Parse(s)
	if err != nil {
		var ue *url.Error
		if errors.As(err, &ue) {
			err = ue.Err
		}
		return fmt.Errorf("not a URL: %w", err)
	}
	switch u.Scheme {
	case "nats", "tls", "ws", "wss":
	default:
		return fmt.Errorf("scheme %q is not one of nats, tls, ws, wss", u.Scheme)
	}
	if u.Hostname() == "" {
		return errors.New("no host")
	}
	return nil
}

// target names for a person what is connected to.
func (c *Config) target() string {
	if c.InProcess != nil {
		return "the NATS server in this process"
	}
	return Redact(c.Servers...)
}

// Redact returns the addresses of servers without what may be a secret: a password, a token in the place of a user, a
// query.
func Redact(servers ...string) string {
	shown := make([]string, 0, len(servers))
	for _, s := range servers {
		shown = append(shown, redact(s))
	}
	return strings.Join(shown, ",")
}

func redact(s string) string {
	u, err := ParseServer(s)
	switch {
	case err != nil:
		return "(an address that cannot be read)"
	case u.User == nil && u.RawQuery == "" && u.Fragment == "":
		return s
	case u.User != nil:
		u.User = url.User("redacted")
	}
	u.RawQuery, u.Fragment = "", ""
	return u.String()
}

// ParseServer reads the URL of a server, whose scheme may be missing.
func ParseServer(s string) (*url.URL, error) {
	return url.Parse(withScheme(s))
}

func withScheme(s string) string {
	if strings.Contains(s, "://") {
		return s
	}
	return "nats://" + s
}
