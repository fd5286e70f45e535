// SPDX-License-Identifier: Apache-2.0

// Package plan decides what a replica does with an object: a pure function of what the log says, how the target has the
// object, and what the file wants.
package plan

import (
	"github.com/kube-eventbridge/kube-eventbridge/internal/replica/keys"
)

// Config is what the file says.
type Config struct {
	// Existing says what happens to an object that is there and is not the replica's.
	Existing Existing
	// Deletes: objects that are gone are deleted.
	Deletes bool
	// DeleteDeselected: so are those that are not published any more.
	DeleteDeselected bool
}

// Ends reports whether an object of which the log says this shall go from the target.
func (c *Config) Ends(claim keys.Claim) bool {
	return claim == keys.Gone || claim == keys.Deselected && c.DeleteDeselected
}

// Existing says what happens to an object of the target that somebody else has made.
type Existing string

// The choices.
const (
	Refuse    Existing = "refuse"
	Adopt     Existing = "adopt"
	Overwrite Existing = "overwrite"
)

// Do is what is done with an object.
type Do uint8

// What can be done.
const (
	// Leave: all is as it shall be, or the replica must not touch it.
	Leave Do = iota
	// Create writes an object that the target does not have.
	Create
	// Change writes an object of ours that is older than what the log says.
	Change
	// Verify compares an object of ours, whose sequence is right, with what the log says, and writes it if it differs.
	Verify
	// Recreate deletes an object of ours, because the source has another one under its name.
	Recreate
	// Delete deletes an object of ours.
	Delete
	// Park leaves the object until something changes; Why says what it waits for.
	Park
)

// Action is a decision.
type Action struct {
	Do
	Why Reason
}

// Reason is why an object is parked. It is the value of a metric's label.
type Reason string

// The reasons that a plan has. Package replica adds those that an API server gives.
const (
	HasRedactions   Reason = "redacted"
	IsReduced       Reason = "reduced"
	WasRejected     Reason = "rejected"
	DetachedObject  Reason = "detached"
	IsTerminating   Reason = "terminating"
	DeletesDisabled Reason = "deletes-disabled"
	KeptDeselected  Reason = "deselected"
)

// Decide returns what is to be done with an object.
//
// It never makes an object older: what has a greater sequence than the log says is left. It touches only what is ours.
func Decide(d keys.Desired, a keys.Actual, accepted bool, c Config) Action {
	switch {
	case a.Owner == keys.Detached && c.Existing == Refuse && d.Claim == keys.Whole:
		return Action{Park, DetachedObject}
	case d.Claim == keys.Unknown:
		return Action{Do: Leave}
	case d.Claim == keys.Gone, d.Claim == keys.Deselected:
		return end(d, a, c)
	case a.Owner == keys.Ours && a.Applied.After(d.Sequence):
		return Action{Do: Leave}
	case a.Owner == keys.Ours && accepted && a.Applied == d.Sequence && a.Origin == d.Origin && !a.Terminating:
		return Action{Do: Leave}
	case d.Claim == keys.Redacted:
		return Action{Park, HasRedactions}
	case d.Claim == keys.Reduced:
		return Action{Park, IsReduced}
	case d.Claim == keys.Rejected:
		return Action{Park, WasRejected}
	case a.Owner == keys.Absent:
		return Action{Do: Create}
	case a.Terminating:
		return Action{Park, IsTerminating}
	case a.Owner == keys.Ours && a.Origin != d.Origin:
		return Action{Do: Recreate}
	case a.Owner == keys.Ours && a.Applied == d.Sequence:
		return Action{Do: Verify}
	default:
		return Action{Do: Change}
	}
}

// end decides about an object that the log does not have any more.
func end(d keys.Desired, a keys.Actual, c Config) Action {
	switch {
	case a.Owner != keys.Ours, a.Applied.After(d.Sequence), a.Terminating:
		return Action{Do: Leave}
	case !c.Ends(d.Claim):
		return Action{Park, KeptDeselected}
	case !c.Deletes:
		return Action{Park, DeletesDisabled}
	default:
		return Action{Do: Delete}
	}
}
