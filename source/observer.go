// SPDX-License-Identifier: Apache-2.0

package source

// State is what a stream is doing.
type State uint8

// The states.
const (
	// Listing: objects are being listed.
	Listing State = iota + 1
	// Watching: a watch is open.
	Watching
	// Waiting: the last request failed and will be repeated.
	Waiting
)

// String returns the state in lower case.
func (s State) String() string {
	switch s {
	case Listing:
		return "listing"
	case Watching:
		return "watching"
	case Waiting:
		return "waiting"
	default:
		return "starting"
	}
}

// Observer is told how a stream is doing. Its methods must not block; they are called from several goroutines.
type Observer interface {
	// State reports what the stream does now; err is why, where it is Waiting. After a failure a stream is Watching
	// only when the watch has shown something new, or has stayed open for a second.
	State(s State, err error)
	// Restarted reports that a watch or a page of a list was broken off, with a reason fit for a metric's label.
	Restarted(reason string)
}
