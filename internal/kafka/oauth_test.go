// SPDX-License-Identifier: Apache-2.0

package kafka

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
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
			assert.EqualError(t, err, c.problem, "%.20q", c.content)
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
	if _, _, err := m.Start(t.Context()); !errors.Is(err, os.ErrNotExist) ||
		err.Error() != "read the token: open "+file+": no such file or directory" {
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
		session, _ := must.Get2(m.Start(t.Context()))(t)
		if done, answer, err := session.Next(t.Context(), []byte(challenge)); done || answer != nil || err == nil ||
			err.Error() != want {
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
		assert.True(t, utf8.ValidString(s) && len(s) <= maxReason+len("...") &&
			!strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }), "%q", s)
		alnum := !strings.ContainsFunc(secret, func(r rune) bool {
			return r > unicode.MaxASCII ||
				!unicode.IsLetter(r) && !unicode.IsDigit(r)
		})
		assert.True(t, secret == "" || !alnum || strings.Contains(redacted, secret) || !strings.Contains(s, secret),
			"%q holds the secret", s)
	})
}

// issuer answers requests for tokens.
type issuer func(r *http.Request) (*http.Response, error)

func (i issuer) RoundTrip(r *http.Request) (*http.Response, error) { return i(r) }

func answer(status int, body string) *http.Response {
	return &http.Response{
		StatusCode: status, Status: fmt.Sprintf("%d %s", status, http.StatusText(status)),
		Body:   io.NopCloser(strings.NewReader(body)),
		Header: http.Header{"Content-Type": {"application/json"}},
	}
}

func fetcher(i issuer) *tokenFetcher {
	f := newTokenFetcher(Auth{
		TokenURL: "https://issuer.test/token", ClientID: "bridge", ClientSecret: "hunter2",
		Scopes: []string{"a", "b"},
	})
	f.client.Transport = i
	return f
}

// counting hands out token-1, token-2 and so on.
func counting(n *atomic.Int64, more string) issuer {
	return func(*http.Request) (*http.Response, error) {
		return answer(200, fmt.Sprintf(`{"access_token":"token-%d","token_type":"Bearer"%s}`, n.Add(1), more)), nil
	}
}

func wantToken(t *testing.T, f *tokenFetcher, want string) {
	t.Helper()
	got, err := f.token(t.Context())
	assert.True(t, got == want && err == nil, "got %q, %v; want %s", got, err, want)
}

func TestTokenFetcher_asks_as_its_client(t *testing.T) {
	f := fetcher(func(r *http.Request) (*http.Response, error) {
		body, _ := io.ReadAll(r.Body)
		user, password, _ := r.BasicAuth()
		if r.Method != http.MethodPost || r.URL.String() != "https://issuer.test/token" || user != "bridge" ||
			password != "hunter2" ||
			string(body) != "grant_type=client_credentials&scope=a+b" {
			t.Errorf("%s %s by %s: %s", r.Method, r.URL, user, body)
		}
		return answer(200, `{"access_token":"t","expires_in":60}`), nil
	})
	wantToken(t, f, "t")
}

func TestTokenFetcher_keeps_a_token_until_shortly_before_it_expires(t *testing.T) {
	for _, c := range []struct {
		expires string
		keeps   time.Duration
	}{
		{`,"expires_in":3600`, 3570 * time.Second},
		{`,"expires_in":120`, 90 * time.Second},
		{`,"expires_in":60`, 45 * time.Second},
		{`,"expires_in":4`, 3 * time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			var n atomic.Int64
			f := fetcher(counting(&n, c.expires))
			wantToken(t, f, "token-1")
			<-time.After(c.keeps - 1)
			wantToken(t, f, "token-1")
			<-time.After(time.Nanosecond)
			wantToken(t, f, "token-2")
		})
	}
}

func TestTokenFetcher_keeps_no_token_that_does_not_say_when_it_expires(t *testing.T) {
	var n atomic.Int64
	f := fetcher(counting(&n, ""))
	wantToken(t, f, "token-1")
	wantToken(t, f, "token-2")
}

func TestTokenFetcher_forgets_a_token_that_a_broker_refused(t *testing.T) {
	var n atomic.Int64
	f := fetcher(counting(&n, `,"expires_in":3600`))
	session, _ := must.Get2(bearer{f}.Start(t.Context()))(t)
	wantToken(t, f, "token-1")
	assert.Error(t, must.Err(session.Next(t.Context(), []byte("no"))), "taken")
	wantToken(t, f, "token-2")
	assert.Error(t, must.Err(session.Next(t.Context(), []byte("no, still"))), "taken")
	wantToken(t, f, "token-2") // it is not the one that was refused
}

func TestTokenFetcher_asks_once_for_all_who_wait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n atomic.Int64
		give := counting(&n, `,"expires_in":3600`)
		f := fetcher(func(r *http.Request) (*http.Response, error) {
			<-time.After(time.Second)
			return give(r)
		})
		var all sync.WaitGroup
		for range 10 {
			all.Go(func() { wantToken(t, f, "token-1") })
		}
		hurried := must.Within(t, 500*time.Millisecond)
		synctest.Wait()
		if _, err := f.token(hurried); !errors.Is(err, context.DeadlineExceeded) ||
			err.Error() != "fetch a token: context deadline exceeded" {
			t.Errorf("who cannot wait got %v", err)
		}
		all.Wait()
	})
}

func TestTokenFetcher_does_not_wait_for_ever(t *testing.T) {
	for name, c := range map[string]struct {
		patience, want time.Duration
	}{"the caller's time": {time.Second, time.Second}, "its own": {time.Hour, fetchTimeout}} {
		must.RunInBubble(t, name, func(t *testing.T) {
			frozen := true
			var n atomic.Int64
			give := counting(&n, "")
			f := fetcher(func(r *http.Request) (*http.Response, error) {
				if frozen {
					<-r.Context().Done()
					return nil, r.Context().Err()
				}
				return give(r)
			})
			ctx := must.Within(t, c.patience)
			begin := time.Now()
			// The library asks in two ways before it gives up.
			_, err := f.token(ctx)
			assert.True(t, err != nil && time.Since(begin) <= 2*c.want, "after %v: %v", time.Since(begin), err)
			frozen = false
			wantToken(t, f, "token-1")
		})
	}
}

func TestTokenFetcher_says_in_one_line_what_went_wrong_and_no_secret(t *testing.T) {
	const from = "fetch a token: https://issuer.test/token"
	for name, c := range map[string]struct {
		give issuer
		want string
	}{
		"refused": {
			func(*http.Request) (*http.Response, error) {
				return answer(401, `{"error":"invalid_client","error_description":"wrong\nsecret hunter2"}`), nil
			},
			from + " says 401 Unauthorized: invalid_client: wrong secret [redacted]",
		},
		"no JSON": {
			func(*http.Request) (*http.Response, error) { return answer(503, "<html>hunter2"), nil },
			from + " says 503 Service Unavailable",
		},
		"no token": {
			func(*http.Request) (*http.Response, error) { return answer(200, `{}`), nil },
			from + ": oauth2: server response missing access_token",
		},
		"nonsense": {
			func(*http.Request) (*http.Response, error) { return answer(200, `{"access_token":"a b"}`), nil },
			"fetch a token: what https://issuer.test/token sent is none: it holds a character that no token has",
		},
		"elsewhere": {
			func(r *http.Request) (*http.Response, error) {
				assert.Equal(t, "issuer.test", r.URL.Host, "the secret goes to %s", r.URL)
				a := answer(307, "")
				a.Header.Set("Location", "https://elsewhere.test/")
				return a, nil
			},
			from + " says 307 Temporary Redirect",
		},
		"away": {
			func(*http.Request) (*http.Response, error) { return nil, errors.New("connection refused") },
			from + ": connection refused",
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := fetcher(c.give).token(t.Context())
			assert.True(t, err != nil && err.Error() == c.want, "got  %v\nwant %s", err, c.want)
		})
	}
}

func TestTokenFetcher_names_the_server_without_what_may_be_a_secret(t *testing.T) {
	assert.Equal(t, "https://issuer.test/token", issuerOf("https://me:hunter2@issuer.test/token?client_secret=hunter2"))
	assert.Equal(t, "the server of tokens", issuerOf("https://issuer.test/%zz?hunter2"))
}
