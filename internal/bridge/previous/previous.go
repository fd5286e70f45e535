// SPDX-License-Identifier: Apache-2.0

package previous

import (
	"container/list"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	"github.com/kube-eventbridge/kube-eventbridge/encode"
)

// Objects are those of one stream, and what was before of each. There are two befores. What the log has is the data of
// the object's last event, already without what is not published; patches apply to it. What was seen last is the object
// as the API server sent it, published or not; filters ask for it. Either is handed out only where the object's row
// says that it is that still: in doubt nothing is known.
//
// It is safe for concurrent use; one object's turns are its attempts, of which there is one at a time.
type Objects struct {
	*Cache

	// KeepsData and KeepsObjects say which of the two is kept.
	KeepsData, KeepsObjects bool

	of     map[string]*list.Element
	bytes  int64
	closed bool
}

// State is what was before of one object.
type State struct {
	UID string
	// Data is what its event at a place in the log says of Version; Object is what was seen at the version Seen. Both are
	// packed, and nil where they are not known.
	Data, Object  []byte
	Version, Seen string
	Sequence      uint64
	Partition     int32
}

// Get returns what is kept of an object; the zero State where nothing is.
func (k *Objects) Get(key string) State {
	k.mu.Lock()
	defer k.mu.Unlock()
	if at, ok := k.of[key]; ok {
		return at.Value.(*entry).State //nolint:forcetypeassert // nothing else is in the list
	}
	return State{}
}

// Put replaces what is kept of an object. Where there is no room, others are forgotten for it.
func (k *Objects) Put(key string, s State) {
	if k.replace(key, s) {
		k.once.Do(k.full)
	}
}

func (k *Objects) replace(key string, s State) (forgot bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if at, ok := k.of[key]; ok {
		k.remove(at)
	}
	return !k.closed && k.put(&entry{of: k, key: key, State: s})
}

// Drop forgets an object.
func (k *Objects) Drop(key string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if at, ok := k.of[key]; ok {
		k.remove(at)
	}
}

// Close forgets all objects of the stream. Nothing is kept from then on.
func (k *Objects) Close() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.closed = true
	for _, at := range k.of {
		k.remove(at)
	}
}

// Total returns of how many objects something is kept, and about how many bytes that takes.
func (k *Objects) Total() (objects int, bytes int64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.of), k.bytes
}

// Alive reports whether the row and what is kept are of the same object.
func (s *State) Alive(row checkpoint.Row) bool { return s.UID == row.UID && !row.Deleted }

// Logged returns what the log has of an object, in room; the zero Old where that is not known.
func (k *Objects) Logged(key string, row checkpoint.Row, room []byte) encode.Old {
	s := k.Get(key)
	if s.Data == nil || !s.Alive(row) || s.Sequence != row.Sequence || s.Partition != row.Partition {
		return encode.Old{}
	}
	return encode.Old{Data: k.unpack(s.Data, room), ResourceVersion: s.Version}
}

// Before returns the object as it was seen last, in room; nil where that is not known.
func (k *Objects) Before(key string, row checkpoint.Row, room []byte) []byte {
	s := k.Get(key)
	if s.Object == nil || !s.Alive(row) || s.Seen != row.ResourceVersion {
		return nil
	}
	return k.unpack(s.Object, room)
}
