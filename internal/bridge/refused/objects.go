// SPDX-License-Identifier: Apache-2.0

package refused

import (
	"slices"
	"sync/atomic"
	"time"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge/ledger"
)

const (
	// Most is how many objects of a pipeline may be recorded at a time.
	Most = 1000
	// FirstDelay is between the refusal of an object and its next try.
	FirstDelay = 10 * time.Second
	// LastDelay is between two tries of an object that has been refused for long.
	LastDelay = 5 * time.Minute
	// unreadyDelay is between two looks at whether an object can be tried.
	unreadyDelay = time.Second
)

// Objects are the refused objects of one stream. Their changes are settled, and the stream goes on. Each object is read
// again at the position, less and less often, and what the log lacks of it is published as one event, which stands for
// all changes since. The methods are for one goroutine at a time.
type Objects struct {
	tries map[string]*try
	// saved is what the checkpoint has of them, in the order of keys. A commit may have the slice, so it is replaced.
	saved *[]checkpoint.Refused
	// all counts the objects of the pipeline.
	all *atomic.Int64
	// some has something after an object was recorded.
	some chan struct{}
}

// try says when an object is tried again, and how long after that. Version is that of the last change: what the log
// lacks is read when the position has it. Changes is how many are in no event, and not under way.
type try struct {
	at      time.Time
	delay   time.Duration
	version string
	changes int
	err     error
}

// New returns the objects that a checkpoint has. It changes saved, which is of the stream's checkpoint. All counts the
// refused objects of the pipeline.
func New(all *atomic.Int64, saved *[]checkpoint.Refused) *Objects {
	r := &Objects{tries: map[string]*try{}, saved: saved, all: all, some: make(chan struct{}, 1)}
	for _, o := range *saved {
		// At once: another process may have been permitted since.
		r.tries[o.Key] = &try{delay: FirstDelay, version: o.Version, changes: o.Changes}
	}
	all.Add(int64(len(*saved)))
	return r
}

// Close takes the objects out of the count of the pipeline.
func (r *Objects) Close() { r.all.Add(-int64(len(r.tries))) }

// Len returns how many objects are refused.
func (r *Objects) Len() int { return len(r.tries) }

// Has reports whether the log lacks the state of an object.
func (r *Objects) Has(key string) bool { return r.tries[key] != nil }

// Added has something after the first object was recorded since it was read.
func (r *Objects) Added() <-chan struct{} { return r.some }

// Add records that so many changes of an object were refused, the last one of which has a version. It returns false
// where the pipeline has as many objects as it may have.
func (r *Objects) Add(key, version string, changes int, err error) bool {
	t := r.tries[key]
	if t == nil {
		if r.all.Add(1) > Most {
			r.all.Add(-1)
			return false
		}
		t = &try{at: time.Now().Add(FirstDelay), delay: 2 * FirstDelay}
		r.tries[key] = t
		select {
		case r.some <- struct{}{}:
		default:
		}
	}
	t.version, t.changes, t.err = version, t.changes+changes, err
	o := r.record(key)
	o.Changes = t.changes
	if o.Version == "" || ledger.After(version, o.Version) {
		o.Version = version
	}
	return true
}

// record returns what is saved of an object, to be changed.
func (r *Objects) record(key string) *checkpoint.Refused {
	at, there := slices.BinarySearchFunc(*r.saved, key, ledger.ByKey)
	*r.saved = slices.Clone(*r.saved)
	if !there {
		*r.saved = slices.Insert(*r.saved, at, checkpoint.Refused{Key: key})
	}
	return &(*r.saved)[at]
}

// Shown notes the version of a change that a watch has shown of an object.
func (r *Objects) Shown(key, version string) {
	if t := r.tries[key]; t != nil {
		t.version = version
	}
}

// Carried is a change that may stand for refused ones of its object.
type Carried struct {
	Key, Version string
	// Changes is how many changes it is itself that are not counted yet. Counted says that it has others.
	Changes int
	Counted bool
	// Outcome says that it was listed: it is the outcome of the refused changes, and none of its own.
	Outcome bool
}

// Carry returns how many changes one stands for, with those that were refused of its object before; false where it
// stands for itself. A change that is watched again stands for itself, unless it is the last one that was refused.
func (r *Objects) Carry(c Carried) (changes int, ok bool) {
	t := r.tries[c.Key]
	if t == nil || c.Counted && ledger.After(r.record(c.Key).Version, c.Version) {
		return 0, false
	}
	if !c.Outcome || t.changes == 0 {
		t.changes += c.Changes
	}
	changes, t.changes = t.changes, 0
	return changes, true
}

// Uncount notes that n changes that were counted have events of their own.
func (r *Objects) Uncount(key string, n int) {
	if t := r.tries[key]; t != nil {
		t.changes = max(t.changes-n, 0)
		o := r.record(key)
		o.Changes = max(o.Changes-n, 0)
	}
}

// Counted reports whether a change that a watch shows was counted when its object was refused, by a process that died
// before the position had passed it.
func (r *Objects) Counted(key, version string) bool {
	at, refused := slices.BinarySearchFunc(*r.saved, key, ledger.ByKey)
	return refused && ledger.Numeric(version) != 0 &&
		ledger.Numeric(version) <= ledger.Numeric((*r.saved)[at].Version)
}

// Remove notes that the log has the state of an object.
func (r *Objects) Remove(key string) {
	if r.tries[key] == nil {
		return
	}
	delete(r.tries, key)
	r.all.Add(-1)
	*r.saved = slices.DeleteFunc(slices.Clone(*r.saved), func(o checkpoint.Refused) bool { return o.Key == key })
	if len(*r.saved) == 0 {
		*r.saved = nil
	}
}

// RemoveIf removes the objects of which is returns true.
func (r *Objects) RemoveIf(is func(key string) bool) {
	for _, o := range *r.saved {
		if is(o.Key) {
			r.Remove(o.Key)
		}
	}
}

// ForgetVersions notes that the versions of the refused changes do not compare with those of changes that follow.
func (r *Objects) ForgetVersions() {
	*r.saved = ledger.WithoutVersions(*r.saved)
	for _, t := range r.tries {
		t.version = ""
	}
}

// First returns the first object whose reason is known, and the reason. The key is empty where there is none.
func (r *Objects) First() (key string, err error) {
	for _, o := range *r.saved {
		if err := r.tries[o.Key].err; err != nil {
			return o.Key, err
		}
	}
	return "", nil
}

// Next returns the object that is tried next, and when. The key is empty where there is none.
func (r *Objects) Next() (next string, at time.Time) {
	for key, t := range r.tries {
		if next == "" || t.at.Before(at) {
			next, at = key, t.at
		}
	}
	return next, at
}

// Ready reports whether the state of an object at a position is what the log lacks of it.
func (r *Objects) Ready(key, position string) bool {
	t := r.tries[key]
	return t != nil && ledger.Numeric(position) != 0 && !ledger.After(t.version, position)
}

// Try notes that an object is tried now, and is tried again after its delay.
func (r *Objects) Try(key string) {
	if t := r.tries[key]; t != nil {
		t.at, t.delay = time.Now().Add(t.delay), min(2*t.delay, LastDelay)
	}
}

// Wait has an object tried again soon: it could not be tried now.
func (r *Objects) Wait(key string) {
	if t := r.tries[key]; t != nil {
		t.at = time.Now().Add(unreadyDelay)
	}
}
