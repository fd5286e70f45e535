// SPDX-License-Identifier: Apache-2.0

package status

import (
	"crypto/sha256"
	_ "embed" // for the parts of the page
	"encoding/base64"
	"net/http"
	"strings"
)

// The parts of the page.
var (
	//go:embed page/page.html
	pageHTML string
	//go:embed page/page.css
	pageCSS string
	//go:embed page/page.js
	pageJS string
)

// page is one document with all that it needs, and the policy under which a browser runs nothing else.
type page struct{ document, policy string }

func newPage() page {
	css, js := strings.TrimSpace(pageCSS), strings.TrimSpace(pageJS)
	return page{
		document: strings.NewReplacer("/*STYLE*/", css, "/*SCRIPT*/", js).Replace(pageHTML),
		policy: strings.Join([]string{
			"default-src 'none'", "script-src " + hashed(js), "style-src " + hashed(css), "connect-src 'self'", "img-src data:",
			"base-uri 'none'", "form-action 'none'", "frame-ancestors 'none'",
		}, "; "),
	}
}

func hashed(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}

func (p *page) serve(w http.ResponseWriter) {
	plain(w, "text/html; charset=utf-8")
	h := w.Header()
	h.Set("Content-Security-Policy", p.policy)
	h.Set("Referrer-Policy", "no-referrer")
	_, _ = w.Write([]byte(p.document)) // who asked has gone
}

// wantsPage reports whether who asks is a browser, which asks for HTML by name; curl takes anything, and is given text.
func wantsPage(r *http.Request) bool {
	if r.URL.Query().Get("format") == "text" {
		return false
	}
	for _, accept := range r.Header.Values("Accept") {
		for _, kind := range strings.Split(accept, ",") {
			name, parameters, _ := strings.Cut(kind, ";")
			quality := strings.ReplaceAll(parameters, " ", "")
			if strings.EqualFold(strings.TrimSpace(name), "text/html") && quality != "q=0" &&
				!strings.HasPrefix(quality, "q=0.000") {
				return true
			}
		}
	}
	return false
}
