// SPDX-License-Identifier: Apache-2.0

package kafka

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func writeFile(t *testing.T, name, content string) string {
	t.Helper()
	p := filepath.Join(t.TempDir(), name)
	require.NoError(t, os.WriteFile(p, []byte(content), 0o600))
	return p
}

func TestBearer_reads_its_file_again_for_each_connection(t *testing.T) {
	file := writeFile(t, "token", "first.token~\r\n")
	m := must.Get(Auth{Mechanism: OAuthBearer, TokenFile: file}.mechanism())(t)
	for _, c := range []struct{ content, want, problem string }{
		{"first.token~\r\n", "n,,\x01auth=Bearer first.token~\x01\x01", ""},
		{" a-b_c+d/e== ", "n,,\x01auth=Bearer a-b_c+d/e==\x01\x01", ""},
		{" \n", "", "read the token: " + file + ": it is empty"},
		{"two tokens", "", "read the token: " + file + ": it holds a character that no token has"},
		{"to\x01ken", "", "read the token: " + file + ": it holds a character that no token has"},
		{"tökén", "", "read the token: " + file + ": it holds a character that no token has"},
		{strings.Repeat("x", maxToken+1), "", "read the token: " + file + ": it is too long for a token"},
		{"again", "n,,\x01auth=Bearer again\x01\x01", ""},
	} {
		require.NoError(t, os.WriteFile(file, []byte(c.content), 0o600))
		session, first, err := m.Start(t.Context())
		switch {
		case c.problem != "":
			require.Error(t, err, "%.20q", c.content)
			assert.Equal(t, c.problem, err.Error(), "%.20q", c.content)
			continue
		case err != nil || string(first) != c.want:
			t.Errorf("%.20q: got %q, %v; want %q", c.content, first, err, c.want)
			continue
		}
		if done, answer, err := session.Next(t.Context(), nil); !done || answer != nil || err != nil {
			t.Errorf("%.20q: after silence: %v, %q, %v", c.content, done, answer, err)
		}
	}
	_ = os.Remove(file)
	if _, _, err := m.Start(t.Context()); !errors.Is(err, os.ErrNotExist) || err.Error() != "read the token: open "+file+": no such file or directory" {
		t.Errorf("no file: %v", err)
	}
}

func TestBearer_repeats_why_a_broker_refuses_in_one_line_without_the_token(t *testing.T) {
	m := must.Get(Auth{Mechanism: OAuthBearer, TokenFile: writeFile(t, "token", "hunter2")}.mechanism())(t)
	for challenge, want := range map[string]string{
		`{"status":"invalid_token"}`:           `the broker refuses the token: {"status":"invalid_token"}`,
		"{\"status\":\r\n\t\"invalid_token\"}": `the broker refuses the token: {"status":   "invalid_token"}`,
		"\x01":                                 "the broker refuses the token: ",
		"what is hunter2?":                     "the broker refuses the token: what is [redacted]?",
		"\xff\x1b[31mred":                      "the broker refuses the token: \uFFFD [31mred",
		strings.Repeat("x", 511) + "é" + "and the rest": "the broker refuses the token: " + strings.Repeat("x", 511) + "...",
	} {
		session, _, err := m.Start(t.Context())
		require.NoError(t, err)
		if done, answer, err := session.Next(t.Context(), []byte(challenge)); done || answer != nil || err == nil || err.Error() != want {
			t.Errorf("%q: %v, %q, %v; want %s", challenge, done, answer, err, want)
		}
	}
}

func FuzzReadable(f *testing.F) {
	f.Add([]byte(`{"status":"invalid_token","scope":"kafka"}`), "hunter2")
	f.Add([]byte("\x00\xff\u2028"), "x")
	f.Add([]byte(strings.Repeat("é", maxReason)), "")
	f.Fuzz(func(t *testing.T, said []byte, secret string) {
		s := readable(said, secret)
		if !utf8.ValidString(s) || len(s) > maxReason+len("...") || strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) {
			t.Errorf("%q", s)
		}
		alnum := !strings.ContainsFunc(secret, func(r rune) bool { return r > unicode.MaxASCII || !unicode.IsLetter(r) && !unicode.IsDigit(r) })
		if secret != "" && alnum && !strings.Contains(redacted, secret) && strings.Contains(s, secret) {
			t.Errorf("%q holds the secret", s)
		}
	})
}
