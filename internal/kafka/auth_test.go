// SPDX-License-Identifier: Apache-2.0

package kafka

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
)

func TestAuth_names_everything_that_is_wrong(t *testing.T) {
	const (
		valid = "valid are PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER"
		noURL = "auth: the token URL is not one; write https://host/path, without a user"
	)
	fetch := func(url string) Auth {
		return Auth{Mechanism: OAuthBearer, TokenURL: url, ClientID: "bridge", ClientSecret: "hunter2"}
	}
	for name, c := range map[string]struct {
		auth Auth
		want []string
	}{
		"anonymous":               {Auth{}, nil},
		"PLAIN":                   {Auth{Mechanism: Plain, User: "u", Password: "hunter2"}, nil},
		"SCRAM-SHA-256":           {Auth{Mechanism: ScramSHA256, User: "u", Password: "hunter2"}, nil},
		"SCRAM-SHA-512":           {Auth{Mechanism: ScramSHA512, User: "u", Password: "hunter2"}, nil},
		"token file":              {Auth{Mechanism: OAuthBearer, TokenFile: "/var/token"}, nil},
		"client credentials":      {fetch("https://issuer.test/token?tenant=1"), nil},
		"a user and no mechanism": {Auth{User: "u"}, []string{"auth: no mechanism is named; " + valid}},
		"scopes and no mechanism": {Auth{Scopes: []string{"a"}}, []string{"auth: no mechanism is named; " + valid}},
		"GSSAPI": {
			Auth{Mechanism: "GSSAPI"},
			[]string{`auth: mechanism "GSSAPI" is not known; ` + valid},
		},
		"lower case": {Auth{Mechanism: "plain"}, []string{`auth: mechanism "plain" is not known; ` + valid}},
		"no password": {
			Auth{Mechanism: Plain, User: "u"},
			[]string{"auth: PLAIN takes a user and a password, and one of them is empty"},
		},
		"no user": {
			Auth{Mechanism: ScramSHA256, Password: "hunter2"},
			[]string{"auth: SCRAM-SHA-256 takes a user and a password, and one of them is empty"},
		},
		"a zero byte": {
			Auth{Mechanism: Plain, User: "u", Password: "hunter2\x00"},
			[]string{"auth: the user or the password holds a zero byte"},
		},
		"what SCRAM prohibits": {
			Auth{Mechanism: ScramSHA512, User: "u", Password: "hunter2\a"},
			[]string{"auth: the user or the password has a character that SCRAM does not allow (RFC 4013)"},
		},
		"OAUTHBEARER alone": {
			Auth{Mechanism: OAuthBearer},
			[]string{"auth: OAUTHBEARER takes a token file, or a token URL with a client's id and secret"},
		},
		"two sources": {
			Auth{Mechanism: OAuthBearer, TokenFile: "f", ClientID: "bridge"},
			[]string{"auth: a token comes from a file or from a URL, not from both"},
		},
		"a URL without a scheme":     {fetch("issuer.test/token"), []string{noURL}},
		"another scheme":             {fetch("ftp://issuer.test/token"), []string{noURL}},
		"a password in the URL":      {fetch("https://u:hunter2@issuer.test/token"), []string{noURL}},
		"a fragment in the URL":      {fetch("https://issuer.test/token#hunter2"), []string{noURL}},
		"a URL that cannot be split": {fetch("https://issuer.test:hunter2/"), []string{noURL}},
		"a password and no user, and a token": {
			Auth{Mechanism: Plain, Password: "hunter2\x00", TokenFile: "f"},
			[]string{
				"auth: PLAIN takes a user and a password, not a token",
				"auth: PLAIN takes a user and a password, and one of them is empty",
				"auth: the user or the password holds a zero byte",
			},
		},
		"a user and half a client": {
			Auth{Mechanism: OAuthBearer, User: "u", Password: "hunter2", ClientSecret: "hunter2"},
			[]string{
				"auth: OAUTHBEARER takes a token, not a user and a password",
				"auth: a token URL takes a client's id and secret, and one of them is empty", noURL,
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			m, err := c.auth.mechanism()
			text := ""
			if err != nil {
				text = err.Error()
			}
			assert.Equal(t, strings.Join(c.want, "\n"), text)
			assert.True(t, err != nil || c.auth.Mechanism == "" || m.Name() == c.auth.Mechanism,
				"the mechanism is %v", m)
			assert.True(t, c.auth.Mechanism != "" || m == nil, "there is a mechanism without authentication")
		})
	}
}

func TestAuth_never_prints(t *testing.T) {
	a := Auth{
		Mechanism: Plain, User: "hunter2", Password: "hunter2", TokenFile: "hunter2", TokenURL: "hunter2",
		ClientID: "hunter2", ClientSecret: "hunter2",
		Scopes: []string{"hunter2"},
	}
	c := Config{Auth: a}
	var said bytes.Buffer
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%d", "%x", "%X", "%T %v"} {
		fmt.Fprintf(&said, verb+"\n", a)
		fmt.Fprintf(&said, verb+"\n", &a)
		fmt.Fprintf(&said, verb+"\n", c)
		fmt.Fprintf(&said, verb+"\n", &c)
	}
	client, err := NewClient(Config{
		Brokers: []string{"localhost:9092"},
		Auth:    Auth{Mechanism: Plain, User: "hunter2", Password: "hunter2"},
	})
	require.NoError(t, err)
	defer client.Close()
	fmt.Fprintf(&said, "%v %+v %#v\n", client, client, client)
	fmt.Fprintln(&said, a.String(), a.GoString())
	for _, h := range []slog.Handler{slog.NewTextHandler(&said, nil), slog.NewJSONHandler(&said, nil)} {
		slog.New(h).Info("configured", "auth", a, "pointer", &a, "config", c, "both", slog.GroupValue(slog.Any("auth", a)))
	}
	encoded := must.Get(json.Marshal(c))(t)
	said.Write(encoded)
	if text := said.String(); strings.Contains(text, "hunter2") || strings.Contains(text, "68756e74657232") ||
		!strings.Contains(text, "[redacted]") {
		t.Errorf("it prints:\n%s", text)
	}
}
