// SPDX-License-Identifier: Apache-2.0

// Package remote lets a person ask a process how its replicas are, and lets them go on, over the process's HTTP server.
//
// GET /replicas tells; POST /replicas/resume lets replicas go on that a guard has stopped. Both answer an [Answer], or
// a [Refusal], as JSON.
package remote

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/kube-eventbridge/kube-eventbridge/internal/replica"
)

// Path is where a [Handler] is served, and ResumePath is what changes something below it.
const (
	Path       = "/replicas"
	ResumePath = Path + "/resume"
)

// paramReplica names a replica; without it all are meant.
const paramReplica = "replica"

// mostWaiting is how many objects that wait for the same reason are told of a replica.
const mostWaiting = 100

// Answer says of each replica how it is.
type Answer struct {
	Replicas []Replica `json:"replicas"`
	// Config says why the process does not go by what its file has now; empty where it does.
	Config string `json:"config,omitempty"`
}

// Replica is one replica.
type Replica struct {
	replica.Status
	// Running is false in a process that does not lead.
	Running bool `json:"running"`
	// Waiting are objects that wait, at most a hundred of each reason.
	Waiting []replica.Waiting `json:"waiting,omitempty"`
	// Problems say what keeps it from doing its work, by what fails.
	Problems map[string]string `json:"problems,omitempty"`
}

// Refusal says why nothing was done.
type Refusal struct {
	Error string `json:"error"`
}

// Handler serves [Path] and what is below it. Note says what is wrong with the file of the process. The server
// sees to it that no page of another site asks.
func Handler(replicas []*replica.Replica, note func() string) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+Path, func(w http.ResponseWriter, _ *http.Request) {
		write(w, http.StatusOK, tell(replicas, note()))
	})
	mux.HandleFunc("POST "+ResumePath, func(w http.ResponseWriter, r *http.Request) {
		code, err := resume(replicas, r)
		if err != nil {
			write(w, code, Refusal{err.Error()})
			return
		}
		write(w, http.StatusOK, tell(replicas, note()))
	})
	return mux
}

// tell returns how replicas are.
func tell(replicas []*replica.Replica, note string) Answer {
	a := Answer{Replicas: []Replica{}, Config: note}
	for _, r := range replicas {
		s, running := r.Status()
		a.Replicas = append(a.Replicas, Replica{s, running, r.Waiting(mostWaiting), s.Texts()})
	}
	return a
}

func resume(replicas []*replica.Replica, r *http.Request) (code int, err error) {
	query := r.URL.Query()
	for _, name := range slices.Sorted(maps.Keys(query)) {
		if name != paramReplica {
			return http.StatusBadRequest, fmt.Errorf("parameter %q is not known; valid: %s", name, paramReplica)
		}
	}
	wanted, found := query[paramReplica], false
	var failed []error
	for _, one := range replicas {
		if len(wanted) > 0 && !slices.Contains(wanted, one.Name()) {
			continue
		}
		found = true
		if err := one.Resume(r.Context()); err != nil {
			failed = append(failed, fmt.Errorf("resume %s: %w", one.Name(), err))
		}
	}
	if err := errors.Join(failed...); err != nil {
		return http.StatusServiceUnavailable, err
	}
	if !found {
		var names []string
		for _, one := range replicas {
			names = append(names, one.Name())
		}
		return http.StatusNotFound, fmt.Errorf("there is no replica %q; valid: %s", strings.Join(wanted, ", "),
			strings.Join(names, ", "))
	}
	return http.StatusOK, nil
}

func write(w http.ResponseWriter, code int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(v) // who asked has gone
}
