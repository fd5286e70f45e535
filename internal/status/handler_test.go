// SPDX-License-Identifier: Apache-2.0

package status

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
)

func handler() http.Handler {
	return Handler(Config{
		Process: process, Pipelines: func() []*bridge.Pipeline { return nil },
		Idle: func() (string, bool) { return "standing by: b_2 leads", true },
	})
}

func ask(h http.Handler, path, accept string) *httptest.ResponseRecorder {
	w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, path, nil)
	if accept != "" {
		r.Header.Set("Accept", accept)
	}
	h.ServeHTTP(w, r)
	return w
}

func TestHandler_serves_the_report(t *testing.T) {
	w := ask(handler(), Path, "")
	var r Report
	if err := json.Unmarshal(w.Body.Bytes(), &r); err != nil || w.Code != http.StatusOK ||
		w.Header().Get("Content-Type") != "application/json" {
		t.Fatalf("%d %v %s: %v", w.Code, w.Header(), w.Body, err)
	}
	assert.True(t, r.Version == "v1.2.3" && r.Summary == "Standing by: b_2 leads" && r.Ready && r.Problems != nil &&
		r.Pipelines != nil, "it is %+v", r)
	if got := w.Header().Get("X-Content-Type-Options") + " " + w.Header().Get("Cache-Control"); got != "nosniff no-store" {
		t.Errorf("the headers are %v", w.Header())
	}
	assert.Equal(t, http.StatusNotFound, ask(handler(), "/other", "").Code, "/other")
}

func TestHandler_gives_browsers_a_page_and_others_text(t *testing.T) {
	const page, text = "text/html; charset=utf-8", "text/plain; charset=utf-8"
	for _, c := range []struct{ path, accept, want string }{
		{"/", "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", page},
		{"/", "application/json, Text/HTML;q=0.1", page},
		{"/", "*/*", text},
		{"/", "", text},
		{"/", "text/plain, text/html;q=0", text},
		{"/?format=text", "text/html", text},
	} {
		w := ask(handler(), c.path, c.accept)
		if got := w.Header().Get("Content-Type"); got != c.want || w.Header().Get("Vary") != "Accept" {
			t.Errorf("%s with %q is %s, want %s", c.path, c.accept, got, c.want)
		}
		assert.True(t, c.want != text || strings.HasPrefix(w.Body.String(), "Standing by: b_2 leads\n"),
			"%s with %q says %s", c.path, c.accept, w.Body)
	}
}

var (
	inlined  = regexp.MustCompile(`(?s)<(script|style)>(.*?)</(?:script|style)>`)
	handlers = regexp.MustCompile(`(?i)<[^>]*\son[a-z]+\s*=`)
	outside  = regexp.MustCompile(`(?i)(src|href|action)\s*=\s*["']?\s*([a-z]+:|//)`)
	markup   = regexp.MustCompile(`innerHTML|outerHTML|insertAdjacent|document\.write|eval\(|new Function|DOMParser|srcdoc`)
)

// A browser runs what the page has, and nothing that a name or an error brings.
func TestPage_allows_nothing_but_itself(t *testing.T) {
	w := ask(handler(), "/", "text/html")
	policy, document := w.Header().Get("Content-Security-Policy"), w.Body.String()
	for _, part := range []string{
		"default-src 'none'", "connect-src 'self'", "frame-ancestors 'none'", "base-uri 'none'",
		"form-action 'none'",
	} {
		assert.Contains(t, policy, part, "the policy lacks")
	}
	assert.True(t, !strings.Contains(policy, "unsafe") && !strings.Contains(policy, "*") &&
		!strings.Contains(policy, "http"), "the policy is %s", policy)
	parts := inlined.FindAllStringSubmatch(document, -1)
	require.Len(t, parts, 2, "the page has %d scripts and styles, want one of each", len(parts))
	for _, part := range parts {
		sum := sha256.Sum256([]byte(part[2]))
		assert.Contains(t, policy, part[1]+"-src 'sha256-"+base64.StdEncoding.EncodeToString(sum[:])+"'",
			"the policy lacks")
	}
	html := inlined.ReplaceAllString(document, "")
	assert.Empty(t, handlers.FindString(html), "the page has a handler in its markup")
	for _, m := range outside.FindAllString(html, -1) {
		assert.Equal(t, `href="data:`, m, "the page refers to something outside")
	}
	assert.Empty(t, markup.FindString(document), "the page makes markup of text")
	assert.Equal(t, "nosniff", w.Header().Get("X-Content-Type-Options"), "the headers are %v", w.Header())
	assert.Equal(t, "no-referrer", w.Header().Get("Referrer-Policy"), "the headers are %v", w.Header())
}

func TestClient_reads_what_a_handler_serves_and_nothing_else(t *testing.T) {
	for want, h := range map[string]http.Handler{
		"": handler(),
		"the answer is 404 Not Found, and none of a bridge that tells its status": http.NotFoundHandler(),
		"the answer is 200 OK, and none of a bridge that tells its status":        http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "{}") }),
		"the bridge refuses: not you":                                             http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "not you", http.StatusForbidden) }),
	} {
		server := httptest.NewServer(h)
		c := must.Get(NewClient(server.URL))(t)
		r, err := c.Report(t.Context())
		if want == "" && (err != nil || r.Summary != "Standing by: b_2 leads") ||
			want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("it reads %q, %v, want %q", r.Summary, err, want)
		}
		c.Close()
		server.Close()
	}
}

func TestText_has_nothing_that_a_terminal_obeys(t *testing.T) {
	r := Report{Summary: "all \x1b[31mred\x1b[0m \u202e", Pipelines: []Pipeline{{Name: "a\rb"}}}
	var out strings.Builder
	require.NoError(t, r.Text(&out, true))
	assert.False(t, strings.ContainsAny(out.String(), "\x1b\r\u202e"), "it is %q", out.String())
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
