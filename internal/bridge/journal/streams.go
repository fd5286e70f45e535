// SPDX-License-Identifier: Apache-2.0

package journal

import (
	"fmt"
	"slices"
	"sync"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge/ledger"
	"github.com/kube-eventbridge/kube-eventbridge/source"
)

// Stored is what the store has, or will have, of a stream that is not open.
type Stored struct {
	Name  string
	Saved checkpoint.Stream
	// Known: the store knows the stream. Current: as Saved is.
	Known, Current bool
	// Rows are only told to who opens the stream.
	Rows map[string]checkpoint.Row
	// Namespaces are those of the stream's objects, where it retires.
	Namespaces map[string]struct{}
}

type named[S Stream] struct {
	name   string
	stream S
}

// streams are those that a journal saves: the open ones, and what is stored of the others.
type streams[S Stream] struct {
	mu   sync.Mutex
	open []named[S]
	// stored is what is known of the streams that are not open. What it has of streams that are is out of date.
	stored *checkpoint.State
	// resyncNew is what is to be saved as [checkpoint.Log.ResyncNew].
	resyncNew bool

	// unsaved is what is to be saved of streams that are not open; guarded by the journal's committing.
	unsaved map[string]checkpoint.Stream
}

// State returns what the store has. It is the caller's to change until Adopt; no stream is open then.
func (s *streams[S]) State() *checkpoint.State { return s.stored }

// add opens a stream. Current: the store knows it as it is. The caller holds mu.
func (s *streams[S]) add(name string, current bool, open func(Stored) S) (opened S, err error) {
	if s.isOpen(name) {
		return opened, fmt.Errorf("BUG: stream %s is open", name)
	}
	has := s.unopened(name)
	has.Current, has.Rows = has.Known && current, s.stored.Rows[name]
	opened = open(has)
	delete(s.stored.Rows, name)
	s.open = append(s.open, named[S]{name, opened})
	return opened, nil
}

func (s *streams[S]) isOpen(name string) bool {
	return slices.ContainsFunc(s.open, func(o named[S]) bool { return o.name == name })
}

// unopened returns what is stored of a stream. The caller holds mu.
func (s *streams[S]) unopened(name string) Stored {
	saved, known := s.stored.Streams[name]
	has := Stored{Name: name, Saved: saved, Known: known}
	if saved.Retiring {
		has.Namespaces = map[string]struct{}{}
		for key, row := range s.stored.Rows[name] {
			id := ledger.Ident(key, &row)
			has.Namespaces[id.Namespace] = struct{}{}
		}
	}
	return has
}

// Opened returns the open streams, in the order in which they were opened.
func (s *streams[S]) Opened() []S {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.all()
}

// all returns the open streams. The caller holds mu.
func (s *streams[S]) all() []S {
	all := make([]S, len(s.open))
	for i, o := range s.open {
		all[i] = o.stream
	}
	return all
}

// Count returns how many streams are open.
func (s *streams[S]) Count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.open)
}

// All returns the open streams, and what is stored of the others.
func (s *streams[S]) All() (open []S, unopened []Stored) {
	s.mu.Lock()
	defer s.mu.Unlock()
	is := s.names()
	for name := range s.stored.Streams {
		if !is[name] {
			unopened = append(unopened, s.unopened(name))
		}
	}
	return s.all(), unopened
}

// names returns the names of the open streams. The caller holds mu.
func (s *streams[S]) names() map[string]bool {
	all := map[string]bool{}
	for _, o := range s.open {
		all[o.name] = true
	}
	return all
}

// Objects returns how many objects are stored of a stream that is not open.
func (s *streams[S]) Objects(name string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.stored.Rows[name])
}

// find returns an open stream. The caller holds committing, and has opened the stream.
func (s *streams[S]) find(name string) S {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.open[slices.IndexFunc(s.open, func(o named[S]) bool { return o.name == name })].stream
}

// saveUnopened has what is known of a stream that is not open saved with the next commit. The caller holds committing.
func (s *streams[S]) saveUnopened(name string, saved checkpoint.Stream) { s.unsaved[name] = saved }

// drop takes a stream from those that are open. The caller holds committing and mu.
func (s *streams[S]) drop(name string) {
	s.open = slices.DeleteFunc(s.open, func(o named[S]) bool { return o.name == name })
}

// BeginEpoch gives the streams that are not open an epoch in which versions do not compare with those before, and
// returns those that are. Only a function that Exclusive calls may call it.
func (s *streams[S]) BeginEpoch(epoch uint64, why source.Why) (open []S) {
	s.mu.Lock()
	defer s.mu.Unlock()
	is := s.names()
	for name, saved := range s.stored.Streams {
		if is[name] || saved.Epoch >= epoch {
			continue
		}
		if !saved.Alone {
			ledger.BeginEpoch(&saved, epoch, saved.Position, why)
			saved.Position = ""
		}
		saved.Alone = false
		s.stored.Streams[name] = saved
		s.saveUnopened(name, saved)
	}
	return s.all()
}

// ResyncsNew reports whether streams that begin are to be published again, because the checkpoint was lost.
func (s *streams[S]) ResyncsNew() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.resyncNew
}

// EndResyncsNew has streams that begin from now on not published again.
func (s *streams[S]) EndResyncsNew() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.resyncNew = false
}
