// SPDX-License-Identifier: Apache-2.0

package nats

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"
	"time"

	gonats "github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"
)

// Config says which stream is published to, and how the broker is reached.
type Config struct {
	// Servers are URLs (nats://, tls://, ws://, wss://) or host:port, tried in random order.
	Servers []string
	// InProcess is used instead of Servers: a server in this process.
	InProcess gonats.InProcessConnProvider
	// Name is what the server calls this client (default "kube-eventbridge").
	Name string

	// Stream is the stream's name.
	Stream string
	// Subjects are what the stream must cover; a missing stream is created with them.
	Subjects []string
	// Limits are used only to create a stream that is missing. Of one that has others, a warning says so.
	Limits Limits
	// Domain is the JetStream domain, usually empty.
	Domain string
	// InboxPrefix is where answers are expected (default "_INBOX"), for users that may subscribe only to their own.
	InboxPrefix string

	Auth Auth
	TLS  TLS

	// Window is how many messages may be unacknowledged, at most 65536 (default 512).
	Window int
	// AckTimeout is how long an answer of the broker is waited for (default 5 s).
	AckTimeout time.Duration
	// Wait is how long a broker that failed is left alone before the second attempt (default 250 ms). It doubles with each attempt up to
	// 10 s and is shortened by up to a half at random.
	Wait time.Duration
	// LookEvery is how often the stream is looked at while nothing seems to be wrong (default 10 s). Nothing else tells of a stream that
	// was removed and made anew.
	LookEvery time.Duration
}

// Limits of a stream; zero means none.
type Limits struct {
	MaxBytes int64
	MaxAge   time.Duration
	// Replicas defaults to 1.
	Replicas int
	// Duplicates is how long the stream remembers ids (default 2 min, at most MaxAge).
	Duplicates time.Duration
}

// Auth is how the client proves who it is: one of the kinds, or none. It never prints.
type Auth struct {
	Token          string
	User, Password string
	// NKeyFile holds a user's NKey seed.
	NKeyFile string
	// CredsFile holds a user's JWT and seed. It is read again for each connection.
	CredsFile string
}

// String implements [fmt.Stringer] without telling anything.
func (Auth) String() string { return "[redacted]" }

// GoString implements [fmt.GoStringer] without telling anything.
func (Auth) GoString() string { return "[redacted]" }

// TLS is how the connection is protected. Any field that is set asks for TLS, as a server URL tls:// or wss:// does.
type TLS struct {
	// CAFile holds what the server's certificate is checked against (default: the system's).
	CAFile string
	// CertFile and KeyFile are the client's certificate. They are read again for each connection.
	CertFile, KeyFile string
	// ServerName is the name in the server's certificate (default: the host connected to).
	ServerName string
	// InsecureSkipVerify accepts every certificate.
	InsecureSkipVerify bool
	// HandshakeFirst is for servers that expect TLS before they say anything.
	HandshakeFirst bool
}

const (
	defaultName       = "kube-eventbridge"
	defaultWindow     = 512
	maxWindow         = 1 << 16
	defaultAckTimeout = 5 * time.Second
	defaultWait       = 250 * time.Millisecond
	defaultLookEvery  = 10 * time.Second
	defaultDuplicates = 2 * time.Minute
	// minDuplicates is the shortest memory for ids in which a connection can be lost, found and used again.
	minDuplicates = 10 * time.Second
)

func (c Config) withDefaults() Config {
	if c.Name == "" {
		c.Name = defaultName
	}
	if c.Window == 0 {
		c.Window = defaultWindow
	}
	if c.AckTimeout == 0 {
		c.AckTimeout = defaultAckTimeout
	}
	if c.Wait == 0 {
		c.Wait = defaultWait
	}
	if c.LookEvery == 0 {
		c.LookEvery = defaultLookEvery
	}
	if c.Limits.Replicas == 0 {
		c.Limits.Replicas = 1
	}
	if c.Limits.Duplicates == 0 {
		c.Limits.Duplicates = defaultDuplicates
	}
	if c.Limits.MaxAge > 0 {
		c.Limits.Duplicates = min(c.Limits.Duplicates, c.Limits.MaxAge)
	}
	c.Servers = append([]string(nil), c.Servers...)
	for i, s := range c.Servers {
		if !strings.Contains(s, "://") {
			c.Servers[i] = "nats://" + s
		}
	}
	return c
}

// validate reports everything that is wrong with a configuration that has its defaults.
func (c Config) validate() error {
	errs := c.validateServers()
	wrong := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if c.Stream == "" || strings.ContainsAny(c.Stream, ".*>/\\ \t\r\n") {
		wrong("stream: %q is not a stream's name: it must not be empty or contain . * > / \\ or a space", c.Stream)
	}
	if len(c.Subjects) == 0 {
		wrong("subjects: none given")
	}
	for i, s := range c.Subjects {
		if !validPattern(s) {
			wrong("subjects[%d]: %q is not a subject", i, s)
		}
	}
	if c.Window < 1 || c.Window > maxWindow {
		wrong("window: %d is not between 1 and %d", c.Window, maxWindow)
	}
	if c.AckTimeout < 0 {
		wrong("ackTimeout: %v is negative", c.AckTimeout)
	}
	if c.Wait < time.Millisecond {
		wrong("wait: %v is less than 1ms", c.Wait)
	}
	if c.LookEvery < time.Millisecond {
		wrong("lookEvery: %v is less than 1ms", c.LookEvery)
	}
	if d := c.Limits.Duplicates; d < minDuplicates {
		wrong("duplicates and maxAge: ids must be remembered for %v at least, not %v", minDuplicates, d)
	}
	return errors.Join(append(errs, c.Auth.validate(), c.TLS.validate())...)
}

func (c Config) validateServers() []error {
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
		return fmt.Errorf("scheme %q is none of nats, tls, ws, wss", u.Scheme)
	}
	if u.Hostname() == "" {
		return errors.New("no host")
	}
	return nil
}

func (a Auth) validate() error {
	kinds := 0
	for _, set := range []bool{a.Token != "", a.User != "" || a.Password != "", a.NKeyFile != "", a.CredsFile != ""} {
		if set {
			kinds++
		}
	}
	switch {
	case kinds > 1:
		return errors.New("auth: more than one of token, user, nkey, creds")
	case a.Password != "" && a.User == "":
		return errors.New("auth: a password without a user")
	case a.NKeyFile != "":
		return checkNKey(a.NKeyFile)
	case a.CredsFile != "":
		return checkCreds(a.CredsFile)
	}
	return nil
}

func checkNKey(file string) error {
	if _, err := gonats.NkeyOptionFromSeed(file); err != nil {
		return fmt.Errorf("nkey %s: %w", file, err)
	}
	return nil
}

func checkCreds(file string) error {
	b, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("creds: %w", err)
	}
	if _, err := nkeys.ParseDecoratedJWT(b); err != nil {
		return fmt.Errorf("creds %s: %w", file, err)
	}
	kp, err := nkeys.ParseDecoratedNKey(b)
	if err != nil {
		return fmt.Errorf("creds %s: %w", file, err)
	}
	kp.Wipe()
	return nil
}
