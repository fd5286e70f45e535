// SPDX-License-Identifier: Apache-2.0

package oracle

// Observation is one change of one object, as etcd has it. What a restored etcd begins with is observed as well: each
// object at its version, and the deletion of each that is no longer there.
type Observation struct {
	History         int
	Version         uint64
	Namespace, Name string
	UID             string
	Labels          map[string]string
	// Body is a hash of the content.
	Body string
	// Terminating says that the object's deletion was asked for and waits for finalizers.
	Terminating bool
	Deleted     bool
}

func (o *Observation) key() string {
	if o.Namespace == "" {
		return o.Name
	}
	return o.Namespace + "/" + o.Name
}

// States works out what a stream sees of observations, which are in the order in which they happened: an object that
// enters the selection is added, one that leaves it is deleted at the version of leaving. The key is "namespace/name"
// or "name".
func States(s Stream, all []Observation) (map[string][]State, error) {
	return statesIn(s, alone(s), all)
}

// follow appends what an observation means to a stream whose selection has the object now, or not.
func follow(states []State, o *Observation, in bool) []State {
	var before State
	if n := len(states); n > 0 && states[n-1].live() {
		before = states[n-1]
	}
	after := State{History: o.History, UID: o.UID, Version: o.Version, Op: Added, Body: o.Body}
	switch {
	case in && before.UID == o.UID:
		after.Op = Updated
	case before.UID != "":
		end := State{History: o.History, UID: before.UID, Version: o.Version, Op: Deleted, Body: before.Body}
		states = append(states, end)
	}
	if in {
		states = append(states, after)
	}
	return states
}
