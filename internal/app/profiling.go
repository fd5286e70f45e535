// SPDX-License-Identifier: Apache-2.0

package app

import (
	"net/http"
	"net/http/pprof"
)

// handleProfiles serves Go's profiles, as go tool pprof asks for them.
func handleProfiles(mux *http.ServeMux) {
	const at = "GET /debug/pprof/"
	mux.HandleFunc(at, pprof.Index) // by name too: heap, goroutine and others
	mux.HandleFunc(at+"profile", pprof.Profile)
	mux.HandleFunc(at+"trace", pprof.Trace)
	mux.HandleFunc(at+"symbol", pprof.Symbol)
	mux.HandleFunc("POST /debug/pprof/symbol", pprof.Symbol)
}
