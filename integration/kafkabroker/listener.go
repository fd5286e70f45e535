// SPDX-License-Identifier: Apache-2.0

package kafkabroker

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Protocol is how clients speak to a listener.
type Protocol string

// The protocols, by the names that Kafka has for them.
const (
	Plaintext     Protocol = "PLAINTEXT"
	TLS           Protocol = "SSL"
	SASLPlaintext Protocol = "SASL_PLAINTEXT"
	SASLTLS       Protocol = "SASL_SSL"
)

func (p Protocol) sasl() bool { return p == SASLPlaintext || p == SASLTLS }
func (p Protocol) tls() bool  { return p == TLS || p == SASLTLS }

// The SASL mechanisms.
const (
	Plain       = "PLAIN"
	SCRAM256    = "SCRAM-SHA-256"
	SCRAM512    = "SCRAM-SHA-512"
	OAuthBearer = "OAUTHBEARER"
)

// Listener is one port of every broker.
type Listener struct {
	// Name is what properties call it ("listener.name.<name in lower case>.…"); if empty, it is that of the protocol.
	Name string
	// Protocol is Plaintext if empty.
	Protocol Protocol
	// Mechanisms are those that a SASL protocol takes; if empty, all four.
	Mechanisms []string
	// ClientCertificate refuses clients without a certificate that [Cluster.Certificate] has made. With TLS, and no
	// SASL, it says who the client is.
	ClientCertificate bool
	// Advertise returns the address that a broker tells its clients, given the one that it listens on: that of a proxy
	// before it. It is called before the brokers start, once for each, and again if a port turns out to be taken. If
	// nil, brokers tell what they listen on.
	Advertise func(broker int, address string) (string, error)
}

// EveryListener returns one listener of each kind, for one cluster that serves tests of all kinds of security:
// SASL_PLAINTEXT and SASL_SSL with all mechanisms, SSL without and MTLS with certificates of clients, and PLAINTEXT,
// which is the first.
func EveryListener() []Listener {
	return []Listener{
		{Protocol: Plaintext},
		{Protocol: SASLPlaintext},
		{Protocol: SASLTLS},
		{Protocol: TLS},
		{Name: "MTLS", Protocol: TLS, ClientCertificate: true},
	}
}

// The listeners that every cluster has for itself. Brokers talk over the first to each other, and this package to them:
// who comes there may do everything.
const (
	internalListener   = "INTERNAL"
	controllerListener = "CONTROLLER"
)

var (
	listenerName = regexp.MustCompile(`^[A-Z][A-Z0-9_]*$`)
	credential   = regexp.MustCompile(`^[A-Za-z0-9._-]+$`)
)

// complete sets what was left out, and refuses what cannot be.
func (l *Listener) complete() error {
	if l.Protocol == "" {
		l.Protocol = Plaintext
	}
	if l.Name == "" {
		l.Name = string(l.Protocol)
	}
	known := []string{Plain, SCRAM256, SCRAM512, OAuthBearer}
	switch {
	case !slices.Contains([]Protocol{Plaintext, TLS, SASLPlaintext, SASLTLS}, l.Protocol):
		return fmt.Errorf("listener %s: unknown protocol %q", l.Name, l.Protocol)
	case !listenerName.MatchString(l.Name), l.Name == internalListener, l.Name == controllerListener:
		return fmt.Errorf("listener %q: a name is upper-case letters, digits and _, and neither %s nor %s", l.Name,
			internalListener, controllerListener)
	case len(l.Mechanisms) > 0 && !l.Protocol.sasl():
		return fmt.Errorf("listener %s: %s has no mechanisms", l.Name, l.Protocol)
	case l.ClientCertificate && !l.Protocol.tls():
		return fmt.Errorf("listener %s: %s has no certificates", l.Name, l.Protocol)
	}
	if l.Protocol.sasl() && len(l.Mechanisms) == 0 {
		l.Mechanisms = known
	}
	for _, m := range l.Mechanisms {
		if !slices.Contains(known, m) {
			return fmt.Errorf("listener %s: unknown mechanism %q", l.Name, m)
		}
	}
	return nil
}

// properties says to a broker who may come in.
func (l *Listener) properties(users map[string]string) map[string]string {
	p := map[string]string{}
	set := func(key, value string) { p["listener.name."+strings.ToLower(l.Name)+"."+key] = value }
	if l.Protocol.tls() {
		set("ssl.client.auth", map[bool]string{true: "required", false: "none"}[l.ClientCertificate])
	}
	if !l.Protocol.sasl() {
		return p
	}
	const security = "org.apache.kafka.common.security."
	set("sasl.enabled.mechanisms", strings.Join(l.Mechanisms, ","))
	for _, m := range l.Mechanisms {
		login := map[string]string{
			Plain:    security + "plain.PlainLoginModule required" + plainUsers(users) + ";",
			SCRAM256: security + "scram.ScramLoginModule required;", SCRAM512: security + "scram.ScramLoginModule required;",
			OAuthBearer: security + "oauthbearer.OAuthBearerLoginModule required;",
		}
		set(strings.ToLower(m)+".sasl.jaas.config", login[m])
		if m == OAuthBearer {
			set("oauthbearer.sasl.server.callback.handler.class", security+"oauthbearer.OAuthBearerValidatorCallbackHandler")
		}
	}
	return p
}

func plainUsers(users map[string]string) string {
	var b strings.Builder
	for name, password := range users {
		fmt.Fprintf(&b, " user_%s=\"%s\"", name, password)
	}
	return b.String()
}

func checkUsers(users map[string]string) error {
	var errs []error
	for name, password := range users {
		if !credential.MatchString(name) || !credential.MatchString(password) {
			errs = append(errs, fmt.Errorf("user %q: names and passwords are letters, digits, and . _ -", name))
		}
	}
	return errors.Join(errs...)
}
