// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// used is a key of a mechanism's own, and whether something is written there.
type used struct {
	key string
	set bool
}

// sasl checks that there is one way to say who we are, and that it is whole. Secrets, or what may be one, are not
// repeated.
func (v *validator) sasl(path string, s *SASL, protected bool) {
	password := []used{
		{"user", s.User != ""},
		{"passwordFile", s.PasswordFile != ""},
		{"passwordEnv", s.PasswordEnv != ""},
	}
	fetched := []used{
		{"tokenURL", s.TokenURL != ""},
		{"clientID", s.ClientID != ""},
		{"clientSecretFile", s.ClientSecretFile != ""},
		{"clientSecretEnv", s.ClientSecretEnv != ""},
		{"scopes", len(s.Scopes) > 0},
	}
	switch s.Mechanism {
	case "":
		v.add(path+".mechanism", "is missing; valid: %s", strings.Join(s.Mechanism.choices().now, ", "))
	case Plain, ScramSHA256, ScramSHA512:
		v.foreign(path, s.Mechanism, append(fetched, used{"tokenFile", s.TokenFile != ""}),
			"user with passwordFile or passwordEnv")
		v.password(path, s)
		if s.Mechanism == Plain && !protected {
			v.warn(path+".mechanism",
				"plain shows the password to whoever reads the network; add tls beside sasl, or use scram-sha-512")
		}
	case OAuthBearer:
		v.foreign(path, s.Mechanism, password, "tokenFile, or "+wayToFetch)
		v.token(path, s, fetched)
		if !protected {
			v.warn(path+".mechanism", "oauthbearer shows the token to whoever reads the network; add tls beside sasl")
		}
	default:
		oneOf(v, path+".mechanism", s.Mechanism)
	}
	v.env(path+".passwordEnv", s.PasswordEnv, "KAFKA_PASSWORD")
	v.env(path+".clientSecretEnv", s.ClientSecretEnv, "KAFKA_CLIENT_SECRET")
}

const wayToFetch = "tokenURL with clientID and clientSecretFile or clientSecretEnv"

// foreign refuses the keys of other mechanisms.
func (v *validator) foreign(path string, m Mechanism, keys []used, valid string) {
	for _, k := range keys {
		if k.set {
			v.add(path+"."+k.key, "is not for mechanism %s; that takes %s", m, valid)
		}
	}
}

func (v *validator) password(path string, s *SASL) {
	if s.User == "" {
		v.add(path+".user", "is missing; give it, with passwordFile or passwordEnv")
	}
	v.either(path, "password", s.PasswordFile, s.PasswordEnv)
}

// either checks that a secret is named, and once.
func (v *validator) either(path, what, file, env string) {
	switch {
	case file == "" && env == "":
		v.add(path+"."+what+"File", "is missing; give it, or %sEnv", what)
	case file != "" && env != "":
		v.add(path+"."+what+"Env", "is there beside %sFile; keep one", what)
	}
}

// token checks where a token comes from: a file, or a server.
func (v *validator) token(path string, s *SASL, fetched []used) {
	var keys []string
	for _, k := range fetched {
		if k.set {
			keys = append(keys, k.key)
		}
	}
	switch {
	case s.TokenFile != "" && len(keys) > 0:
		v.add(path, "has tokenFile and %s, and a token comes from one place; keep tokenFile, or %s",
			strings.Join(keys, " and "), wayToFetch)
	case s.TokenFile != "":
	case len(keys) == 0:
		v.add(path+".tokenFile", "is missing; give it, or %s", wayToFetch)
	default:
		v.fetched(path, s)
	}
}

// fetched checks from where a token is fetched, for whom, and what for.
func (v *validator) fetched(path string, s *SASL) {
	if s.TokenURL == "" {
		v.add(path+".tokenURL",
			"is missing; give the URL of a server that gives tokens, such as https://login.example.com/token")
	} else {
		v.tokenURL(path+".tokenURL", s.TokenURL)
	}
	if s.ClientID == "" {
		v.add(path+".clientID", "is missing; give it, with clientSecretFile or clientSecretEnv")
	}
	v.either(path, "clientSecret", s.ClientSecretFile, s.ClientSecretEnv)
	for i, scope := range s.Scopes {
		if scope == "" || strings.ContainsFunc(scope, func(r rune) bool {
			return r <= ' ' || r >= 0x7f || r == '"' ||
				r == '\\'
		}) {
			v.add(fmt.Sprintf("%s.scopes[%d]", path, i),
				"%q is not a scope; write one word of printable ASCII, without quotes and backslashes", scope)
		}
	}
}

// secretName is of parameters whose value is a secret.
var secretName = regexp.MustCompile(`(?i)secret|password|passwd|token|assertion|api.?key|credential|` +
	`signature|^(sig|key|pwd)$`)

func (v *validator) tokenURL(path, s string) {
	u, err := url.Parse(s)
	switch {
	case err == nil && u.User != nil:
		v.add(path,
			"holds a user, and a secret never stands in this file; use clientID with clientSecretFile or clientSecretEnv")
	case err != nil || u.Hostname() == "" || u.Fragment != "" || !slices.Contains([]string{"https", "http"}, u.Scheme):
		v.add(path,
			"is not the URL of a server that gives tokens; write one with https or http, such as "+
				"https://login.example.com/token")
	case slices.ContainsFunc(slices.Collect(maps.Keys(u.Query())), secretName.MatchString):
		v.add(path,
			"holds a secret in its query, and a secret never stands in this file; use clientID with clientSecretFile or "+
				"clientSecretEnv")
	case u.Scheme == "http":
		v.warn(path, "http shows the client's secret and the token to whoever reads the network; use https")
	}
}
