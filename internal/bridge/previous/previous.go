// SPDX-License-Identifier: Apache-2.0

package previous

import (
	"container/list"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	"github.com/kube-eventbridge/kube-eventbridge/encode"
)

// Objects are the objects of one stream with their previous states. A state has two forms. The data of the object's
// last event in the log lacks what is not published; patches apply to it. The object that was seen last is as the API
// server sent it, published or not; filters ask for it. Both are returned only where the object's row says that they
// are still the previous ones.
//
// It is safe for concurrent use. One object has one attempt at a time.
type Objects struct {
	*Cache

	// KeepsData and KeepsObjects say which of the two are cached.
	KeepsData, KeepsObjects bool

	of     map[string]*list.Element
	bytes  int64
	closed bool
}

// State is the previous state of one object.
type State struct {
	UID string
	// Data is the data of the event of Version, which is at Sequence of Partition. Object is the object at the version
	// Seen. Both are packed, and nil where they are not known.
	Data, Object  []byte
	Version, Seen string
	Sequence      uint64
	Partition     int32
}

// Get returns the state of an object, or the zero State.
func (k *Objects) Get(key string) State {
	k.mu.Lock()
	defer k.mu.Unlock()
	if at, ok := k.of[key]; ok {
		return at.Value.(*entry).State //nolint:forcetypeassert // nothing else is in the list
	}
	return State{}
}

// Put replaces the state of an object. It evicts others where the budget is used up. A state without data and object
// is removed.
func (k *Objects) Put(key string, s State) {
	if s.Data == nil && s.Object == nil {
		k.Drop(key)
		return
	}
	if !k.replace(key, s) {
		k.once.Do(k.full)
	}
}

func (k *Objects) replace(key string, s State) (fits bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.closed || k.put(&entry{of: k, key: key, State: s}, k.of[key])
}

// Drop removes the state of an object.
func (k *Objects) Drop(key string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.budget.Keep(-k.remove(k.of[key]))
}

// Close removes the states of all objects. Put does nothing from then on.
func (k *Objects) Close() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.closed = true
	for _, at := range k.of {
		k.budget.Keep(-k.remove(at))
	}
}

// Total returns the number of states and about how many bytes they take.
func (k *Objects) Total() (objects int, bytes int64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.of), k.bytes
}

// Alive reports whether the row and the state are of the same object.
func (s *State) Alive(row checkpoint.Row) bool { return s.UID == row.UID && !row.Deleted }

// Logged returns the data that the log has of an object, in a scratch buffer, or the zero Old.
func (k *Objects) Logged(key string, row checkpoint.Row, scratch []byte) encode.Old {
	s := k.Get(key)
	if s.Data == nil || !s.Alive(row) || s.Sequence != row.Sequence || s.Partition != row.Partition {
		return encode.Old{}
	}
	return encode.Old{Data: k.unpack(s.Data, scratch), ResourceVersion: s.Version}
}

// Before returns the object as it was seen last, in a scratch buffer, or nil.
func (k *Objects) Before(key string, row checkpoint.Row, scratch []byte) []byte {
	s := k.Get(key)
	if s.Object == nil || !s.Alive(row) || s.Seen != row.ResourceVersion {
		return nil
	}
	return k.unpack(s.Object, scratch)
}
