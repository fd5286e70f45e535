// SPDX-License-Identifier: Apache-2.0

package status

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge"
)

func handler() http.Handler {
	return Handler(Config{
		Process: process, Pipelines: func() []*bridge.Pipeline { return nil }, Listen: "127.0.0.1:8080",
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
	if err := json.Unmarshal(w.Body.Bytes(), &r); err != nil || w.Code != http.StatusOK || w.Header().Get("Content-Type") != "application/json" {
		t.Fatalf("%d %v %s: %v", w.Code, w.Header(), w.Body, err)
	}
	if r.Version != "v1.2.3" || r.Summary != "Standing by: b_2 leads" || !r.Ready || r.Problems == nil || r.Pipelines == nil {
		t.Errorf("it is %+v", r)
	}
	if got := w.Header().Get("X-Content-Type-Options") + " " + w.Header().Get("Cache-Control"); got != "nosniff no-store" {
		t.Errorf("the headers are %v", w.Header())
	}
	if w := ask(handler(), "/other", ""); w.Code != http.StatusNotFound {
		t.Errorf("/other is %d", w.Code)
	}
}

func TestHandler_refuses_a_name_that_is_anybodys(t *testing.T) {
	for host, want := range map[string]int{"evil.example:8080": http.StatusForbidden, "127.0.0.1:8080": http.StatusOK, "localhost": http.StatusOK} {
		for _, path := range []string{"/", Path} {
			w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, path, nil)
			r.Host = host
			handler().ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, net.Addr(&net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)}))))
			if w.Code != want || want == http.StatusForbidden && !strings.Contains(w.Body.String(), "none of this bridge's") {
				t.Errorf("%s of %s is %d %s", path, host, w.Code, w.Body)
			}
		}
	}
}
