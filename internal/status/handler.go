// SPDX-License-Identifier: Apache-2.0

package status

import (
	"encoding/json"
	"net/http"
)

// Path is where a Report is served as JSON.
const Path = "/api/status"

// Handler serves a [Report] at [Path], and at / as a page that keeps itself up to date, or as text to whoever does not
// ask for HTML.
func Handler(c Config) http.Handler {
	mux, p := http.NewServeMux(), newPage()
	mux.HandleFunc("GET "+Path, func(w http.ResponseWriter, _ *http.Request) {
		plain(w, "application/json")
		_ = json.NewEncoder(w).Encode(c.Report()) // who asked has gone
	})
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, asked *http.Request) {
		w.Header().Set("Vary", "Accept")
		if wantsPage(asked) {
			p.serve(w)
			return
		}
		plain(w, "text/plain; charset=utf-8")
		r := c.Report()
		_ = r.Text(w, false) // who asked has gone
	})
	return mux
}

// plain says what follows, that it may not be taken for anything else, and that it is old at once.
func plain(w http.ResponseWriter, contentType string) {
	h := w.Header()
	h.Set("Content-Type", contentType)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
}
