// SPDX-License-Identifier: Apache-2.0

package status

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestClient_reads_what_a_handler_serves_and_nothing_else(t *testing.T) {
	for want, h := range map[string]http.Handler{
		"": handler(),
		"the answer is 404 Not Found, and none of a bridge that tells its status": http.NotFoundHandler(),
		"the answer is 200 OK, and none of a bridge that tells its status":        http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "{}") }),
		"the bridge refuses: not you":                                             http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { refuse(w, "not you") }),
	} {
		server := httptest.NewServer(h)
		c := must.Get(NewClient(server.URL))(t)
		r, err := c.Report(t.Context())
		if want == "" && (err != nil || r.Summary != "Standing by: b_2 leads") || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
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
