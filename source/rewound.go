// SPDX-License-Identifier: Apache-2.0

package source

import "fmt"

// RewoundError says that the API server's history is not the one that was shown before: its etcd was restored from a
// backup, or is another one. Versions of the two do not compare, and a watch from a version that the API server has not
// reached yet is accepted, and silent until it is passed.
type RewoundError struct {
	// Stream is the stream's name.
	Stream string
	// Position is a version that was shown before: of the stream, or of Object.
	Position string
	// Object is the key of the object that gave it away; empty where the API server's own version did.
	Object string
	// At is the version at which the object was read; empty where a list showed it.
	At string
	// Server is the version at which the API server is, or at which it has Object; empty if it does not have it.
	Server string
	// Replaced says that what the API server has under Object's key is another object: its uid differs.
	Replaced bool
}

// Error implements error.
func (e *RewoundError) Error() string {
	if e.Object == "" {
		return fmt.Sprintf(
			"stream %s was at resourceVersion %s and the API server is at %s: its etcd was restored or replaced",
			e.Stream, e.Position, e.Server)
	}
	now := "nothing"
	switch {
	case e.Server == "":
	case e.Server == e.Position && !e.Replaced:
		now = "it there in another state"
	case e.Replaced:
		now = "another object of that name, at " + e.Server
	default:
		now = "it at " + e.Server
	}
	if e.At != "" {
		now += ", read as of " + e.At
	}
	return fmt.Sprintf(
		"stream %s: object %s was at resourceVersion %s and the API server has %s: its etcd was restored or replaced",
		e.Stream, e.Object, e.Position, now)
}
