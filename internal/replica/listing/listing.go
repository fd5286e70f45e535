// SPDX-License-Identifier: Apache-2.0

// Package listing follows how far the objects of a target cluster are listed. A resource is read as one stream, or as
// one of each namespace.
package listing

import (
	"context"
	"maps"
	"slices"
	"sync"
)

// State is how far a stream of the target is read.
type State uint8

// The states.
const (
	// Unserved: the target does not serve its resource.
	Unserved State = iota
	// Listing: its objects are not all known, or those of another stream of its resource are being listed for the first
	// time.
	Listing
	// Listed: they are, so that what is not known does not exist.
	Listed
)

// Streams has the states of all streams, by the number of their resource and their namespace; an empty namespace stands
// for all. It is safe for concurrent use.
type Streams struct {
	mu        sync.Mutex
	resources map[uint16]*resource
	// asked: a person was told what waits. Seen has the streams that were listed then, or since.
	asked bool
	seen  map[id]bool
	// changed is closed when one of them changes.
	changed chan struct{}
}

type resource struct {
	served  bool
	version string
	// streams are nil until it is known in which version it is served.
	streams map[string]*stream
	// settled: each stream was listed, or could not be.
	settled bool
}

type id struct {
	number    uint16
	namespace string
}

type stream struct {
	// failing: the target does not let it be read at present.
	listed, failing bool
}

// New returns one that knows no stream.
func New() *Streams {
	return &Streams{resources: make(map[uint16]*resource), seen: make(map[id]bool), changed: make(chan struct{})}
}

// Open says that a resource is to be read, and is not yet.
func (l *Streams) Open(number uint16) { l.set(number, &resource{served: true}) }

// SetUnserved says that the target does not serve a resource.
func (l *Streams) SetUnserved(number uint16) { l.set(number, &resource{}) }

// Begin says that a resource is read in a version, as streams of namespaces.
func (l *Streams) Begin(number uint16, version string, namespaces []string) {
	r := &resource{served: true, version: version, streams: make(map[string]*stream)}
	for _, namespace := range namespaces {
		r.streams[namespace] = &stream{}
	}
	l.set(number, r)
}

func (l *Streams) set(number uint16, r *resource) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.resources[number] = r
	l.change()
}

func (l *Streams) change() {
	close(l.changed)
	l.changed = make(chan struct{})
}

// SetListed says that all objects of a stream are known. It returns the namespaces of the streams of the resource whose
// state is another one by that: the first time they wait for each other.
func (l *Streams) SetListed(number uint16, namespace string) (news []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.seen[id{number, namespace}] = true
	return l.update(number, namespace, func(s *stream) { s.listed = true })
}

// SetFailing says whether a stream cannot be read at present. It returns what SetListed does.
func (l *Streams) SetFailing(number uint16, namespace string, failing bool) (news []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.update(number, namespace, func(s *stream) { s.failing = failing })
}

// Ask says that a person is told what waits. What is not listed now is not known.
func (l *Streams) Ask() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.asked = true
	clear(l.seen)
	for number, r := range l.resources {
		for namespace, s := range r.streams {
			l.seen[id{number, namespace}] = s.listed
		}
	}
}

// Missed reports whether a person was told what waits, and a stream has not been listed then or since.
func (l *Streams) Missed(number uint16, namespace string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.asked && !l.seen[id{number, namespace}]
}

// update does nothing with a stream that is not read any more.
func (l *Streams) update(number uint16, namespace string, change func(*stream)) (news []string) {
	s := l.stream(number, namespace)
	if s == nil {
		return nil
	}
	before := *s
	if change(s); *s == before {
		return nil
	}
	l.change()
	r := l.resources[number]
	if r.settled {
		if s.listed && !before.listed {
			news = append(news, namespace)
		}
		return news
	}
	for _, s := range r.streams {
		if !s.listed && !s.failing {
			return nil
		}
	}
	r.settled = true
	return []string{""} // also what no stream has
}

// stream returns the one that has the objects of a namespace; nil if none has.
func (l *Streams) stream(number uint16, namespace string) *stream {
	r := l.resources[number]
	if r == nil {
		return nil
	}
	if all := r.streams[""]; all != nil {
		return all
	}
	return r.streams[namespace]
}

// State returns the state of the stream that has the objects of a namespace. Of those that no stream has, none exists.
func (l *Streams) State(number uint16, namespace string) State {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.stream(number, namespace)
	switch r := l.resources[number]; {
	case r == nil || !r.served:
		return Unserved
	case !r.settled || s != nil && !s.listed:
		return Listing
	default:
		return Listed
	}
}

// Any returns the namespace of a stream that is listed, or of one that is read where none is.
func (l *Streams) Any(number uint16) (namespace string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := l.resources[number]
	if r == nil {
		return ""
	}
	for name, s := range r.streams {
		if namespace = name; s.listed && !s.failing {
			break
		}
	}
	return namespace
}

// Version returns the version in which a resource is read; empty where it is not.
func (l *Streams) Version(number uint16) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if r := l.resources[number]; r != nil {
		return r.version
	}
	return ""
}

// Busy reports whether a stream is being listed. One that cannot be listed is not waited for.
func (l *Streams) Busy() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, r := range l.resources {
		if r.served && r.streams == nil {
			return true
		}
		for _, s := range r.streams {
			if !s.listed && !s.failing {
				return true
			}
		}
	}
	return false
}

// Namespaces waits until a resource is read, and returns the namespaces of its streams. It is false if ctx ended, or if
// the resource is not served and patient is false.
func (l *Streams) Namespaces(ctx context.Context, number uint16, patient bool) (all []string, ok bool) {
	ok = l.wait(ctx, func() (done, gone bool) {
		r := l.resources[number]
		if r == nil || !r.served {
			return false, !patient
		}
		all = slices.Sorted(maps.Keys(r.streams))
		return r.streams != nil, false
	})
	return all, ok
}

// WaitListed waits until all objects of a stream are known. It is false if ctx ended, if there is no such stream any
// more, or if they cannot be known at present and patient is false.
func (l *Streams) WaitListed(ctx context.Context, number uint16, namespace string, patient bool) bool {
	return l.wait(ctx, func() (done, gone bool) {
		s := l.stream(number, namespace)
		if s == nil {
			r := l.resources[number]
			return false, r == nil || r.streams != nil || !patient && !r.served
		}
		return s.listed, !patient && s.failing
	})
}

// wait waits until check says done, gone, or ctx ends, and returns whether it is done.
func (l *Streams) wait(ctx context.Context, check func() (done, gone bool)) bool {
	for {
		l.mu.Lock()
		done, gone := check()
		changed := l.changed
		l.mu.Unlock()
		if done || gone {
			return done
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return false
		}
	}
}
