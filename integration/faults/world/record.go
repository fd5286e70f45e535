// SPDX-License-Identifier: Apache-2.0

package world

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Kind says what an event means for whoever checks the log.
type Kind string

// What may happen. All but the first four change what the log can be expected to have.
const (
	// Begun: a fault begins. Over: it is over, and what it broke is whole. Missed: it found no occasion; it has done
	// something if other events say so.
	Begun  Kind = "begun"
	Over   Kind = "over"
	Missed Kind = "missed"
	// Note explains, and changes nothing.
	Note Kind = "note"
	// LogRewound: the log has lost its end.
	LogRewound Kind = "log rewound"
	// LogDeleted: the log has lost everything.
	LogDeleted Kind = "log deleted"
	// Fresh: the log and the checkpoint have been removed together, while no bridge ran; what was before is not to be
	// expected.
	Fresh Kind = "fresh"
	// CheckpointLost: the checkpoint was removed, while no bridge ran.
	CheckpointLost Kind = "checkpoint lost"
	// EtcdRestored: the cluster has gone back to an older state. Versions go back too unless the text says that they
	// were bumped.
	EtcdRestored Kind = "etcd restored"
	// TypeDeleted: the first CRD was deleted with all its objects, and created again.
	TypeDeleted Kind = "type deleted"
)

// Event is something that a fault did.
type Event struct {
	At   time.Time
	Kind Kind
	// Revision is etcd's at that time, 0 where it did not answer. Of EtcdRestored it is the one after.
	Revision int64
	// Before is, of EtcdRestored and TypeDeleted, the revision that the cluster had before. Kept is, of EtcdRestored,
	// one up to which everything is still there; how little of what came after it is there too, up to the backup, is
	// not known.
	Before, Kept int64
	Fault        string
	Text         string
}

// String is one line for a person.
func (e Event) String() string {
	return fmt.Sprintf("%s %s [%s, revision %d]: %s", e.At.UTC().Format("15:04:05.000"), e.Fault, e.Kind, e.Revision,
		e.Text)
}

// Events returns what the faults have done so far, oldest first.
func (w *World) Events() []Event {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.events)
}

// record adds an event.
func (w *World) record(ctx context.Context, e Event) {
	e.At = time.Now()
	if e.Revision == 0 {
		e.Revision = w.revision(ctx)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.events = append(w.events, e)
}

// revision returns etcd's, and 0 where it does not answer.
func (w *World) revision(ctx context.Context) int64 {
	if w.control == nil {
		return 0
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	rev, err := w.control.Revision(ctx)
	if err != nil {
		return 0
	}
	return rev
}

// Story is all that the faults have done, one line each.
func (w *World) Story() string {
	var b strings.Builder
	for _, e := range w.Events() {
		b.WriteString(e.String())
		b.WriteByte('\n')
	}
	return b.String()
}
