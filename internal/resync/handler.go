// SPDX-License-Identifier: Apache-2.0

package resync

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"

	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge"
)

// Path is where a [Handler] is served.
const Path = "/resync"

// The parameters of a POST. Resource may be repeated; a parameter that is absent means all.
const (
	paramPipeline = "pipeline"
	paramResource = "resource"
)

// Answer says of each stream how far it is.
type Answer struct {
	Streams []Stream `json:"streams"`
}

// Refusal says why nothing was asked for.
type Refusal struct {
	Error string `json:"error"`
}

// Stream is a [bridge.Resync].
type Stream struct {
	Pipeline  string             `json:"pipeline"`
	Stream    string             `json:"stream"`
	Number    int64              `json:"number,omitempty"`
	Scheduled bool               `json:"scheduled,omitempty"`
	State     bridge.ResyncState `json:"state"`
	Objects   int                `json:"objects"`
	Listed    int                `json:"listed"`
	Published int                `json:"published"`
	Problem   string             `json:"problem,omitempty"`
}

// Handler serves [Path]. No pipelines means that they are yet to be made. The server sees to it that no page of another
// site asks.
func Handler(pipelines func() []*bridge.Pipeline) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+Path, func(w http.ResponseWriter, _ *http.Request) {
		write(w, http.StatusOK, answer(bridge.Resyncs(pipelines())))
	})
	mux.HandleFunc("POST "+Path, func(w http.ResponseWriter, r *http.Request) {
		all, err := start(pipelines(), r)
		var unknown *bridge.UnknownError
		var early *startingError
		switch {
		case err == nil:
			write(w, http.StatusAccepted, answer(all))
		case errors.As(err, &unknown):
			write(w, http.StatusNotFound, Refusal{err.Error()})
		case errors.As(err, &early):
			write(w, http.StatusServiceUnavailable, Refusal{err.Error()})
		default:
			write(w, http.StatusBadRequest, Refusal{err.Error()})
		}
	})
	return mux
}

// startingError says that nothing can be asked for yet.
type startingError struct{}

func (*startingError) Error() string {
	return "the bridge is starting; ask again when /readyz answers ok"
}

func start(pipelines []*bridge.Pipeline, r *http.Request) ([]bridge.Resync, error) {
	query := r.URL.Query()
	for _, name := range slices.Sorted(maps.Keys(query)) {
		if name != paramPipeline && name != paramResource {
			return nil, fmt.Errorf("parameter %q is not known; valid: %s, %s", name, paramPipeline, paramResource)
		}
	}
	if len(query[paramPipeline]) > 1 {
		return nil, fmt.Errorf("parameter %s is there %d times; name one pipeline, or leave it out for all", paramPipeline,
			len(query[paramPipeline]))
	}
	if len(pipelines) == 0 {
		return nil, &startingError{}
	}
	return bridge.StartResyncs(pipelines, query.Get(paramPipeline), query[paramResource])
}

func answer(all []bridge.Resync) Answer {
	a := Answer{Streams: []Stream{}}
	for _, r := range all {
		a.Streams = append(a.Streams, Stream{
			Pipeline: r.Pipeline, Stream: r.Stream, Number: r.Number, Scheduled: r.Scheduled, State: r.State,
			Objects: r.Objects, Listed: r.Listed, Published: r.Published, Problem: r.Problem,
		})
	}
	return a
}

func write(w http.ResponseWriter, code int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(v) // who asked has gone
}
