// SPDX-License-Identifier: Apache-2.0

package replica

import (
	"log/slog"
	"slices"
	"time"

	"k8s.io/client-go/rest"

	"github.com/kube-eventbridge/kube-eventbridge/internal/event"
	"github.com/kube-eventbridge/kube-eventbridge/internal/replica/clean"
	"github.com/kube-eventbridge/kube-eventbridge/internal/replica/guard"
	"github.com/kube-eventbridge/kube-eventbridge/internal/replica/plan"
	"github.com/kube-eventbridge/kube-eventbridge/internal/replica/selection"
)

// Config says what is replicated, from where, and how. All fields are needed except those that say otherwise.
type Config struct {
	// Name is the replica's. It is the value of the label [clean.Label].
	Name string
	// Cluster and Pipeline say which events of the log count.
	Cluster, Pipeline string
	// OpenLog connects to the log. It is called again if the log was replaced by another one. PerObject says that each
	// object has a subject of its own; it is false once HasOwnSubject was.
	OpenLog func(perObject bool) (Log, error)
	// HasOwnSubject reports whether the subject of an event is of its object alone; nil if a log has no subjects.
	HasOwnSubject func(*event.Event) bool

	// Target is the cluster that is written to.
	Target *rest.Config
	// State keeps what guards have stopped, and what a person has released of that.
	State guard.State

	// Entries say what is selected.
	Entries []selection.Entry

	plan.Config
	// Force: fields that other managers own are taken.
	Force bool
	// Limit is how many objects may go in an hour.
	Limit guard.Limit
	// MinAge is how old an object has to be for its end to count for Limit; 0 counts all.
	MinAge time.Duration
	// Follow: a source whose versions begin again is followed. Otherwise the replica stops until a person says so.
	Follow bool
	// Recreate: an object whose change the API server refuses, because a field is immutable, is deleted and created.
	Recreate bool

	// Workers is how many objects are written at a time (default 16).
	Workers int
	// Remember is how long the end of an object is remembered at least (default 10 min). It is longer than a request of
	// an earlier leader can take to arrive.
	Remember time.Duration
	// Log lines; may be nil.
	Logger *slog.Logger
}

// Log is what a replica asks of a log.
type Log interface {
	event.Log
	event.Bodies
	event.Progress
	Close()
}

const (
	defaultWorkers  = 16
	defaultRemember = 10 * time.Minute
)

func (c *Config) withDefaults() {
	if c.Workers == 0 {
		c.Workers = defaultWorkers
	}
	if c.Remember == 0 {
		c.Remember = defaultRemember
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
}

// remaps reports whether owners get the uids that they have in the target.
func (c *Config) remaps() bool {
	return slices.ContainsFunc(c.Entries, func(e selection.Entry) bool { return e.Rules.Owned == clean.Remap })
}
