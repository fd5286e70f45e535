// SPDX-License-Identifier: Apache-2.0

package sharing

import (
	"context"
	"slices"
	"strconv"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/kube-eventbridge/kube-eventbridge/source"
	"github.com/kube-eventbridge/kube-eventbridge/source/kube"
	"github.com/kube-eventbridge/kube-eventbridge/source/rawjson"
)

const (
	// maxWaiting is how many bytes may wait for a follower; at most minWaiting are they when the bound for all is
	// reached.
	maxWaiting, minWaiting = 4 << 20, 64 << 10
	// patientFor is how long a watch waits for a follower that has no room while another is well ahead of it.
	patientFor = time.Second
	// gatherFor is how long a watch waits for the next one that can share it, before it is asked for, and gatherMost
	// how long for all of them.
	gatherFor, gatherMost = 100 * time.Millisecond, 2 * time.Second
)

// sharedWatch is one connection to the API server, read once for all its followers.
type sharedWatch struct {
	watches *Watches
	scope   source.Stream
	// end ends the watch, and waits for it.
	end func()
	// opened is closed when the API server has answered, or the watch has ended.
	opened chan struct{}
	room   chan struct{}
	// follows says that it takes the place of one that has ended.
	follows bool

	mu sync.Mutex
	// first is the version that the API server is asked for; asked: it was.
	first uint64
	asked bool
	// followers are those of each namespace, "" of all.
	followers map[string][]*Follower
	recent    recent
	// waited is how long it has waited for followers that have not checked the history yet.
	waited time.Duration
	// since is when the API server has answered; shown: it has shown something.
	since time.Time
	shown bool
	// err is why the watch has ended.
	err error
}

// over reports whether the watch has ended.
func (s *sharedWatch) over() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err != nil
}

// follow returns what follows after a version, of a member's namespace or all; nil if that cannot be shown any more.
func (s *sharedWatch) follow(m *Membership, after uint64) *Follower {
	namespace := m.stream.Namespace
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.err != nil, after < s.recent.start && s.asked:
		return nil
	case after < s.recent.start:
		s.first, s.recent.start = after, after
	}
	f := &Follower{watch: s, member: m, namespace: namespace, after: after, wake: make(chan struct{}, 1)}
	for _, e := range s.recent.events {
		if e.kind == rawjson.Bookmark || s.scope.Namespace == namespace || e.identity.Namespace == namespace {
			f.push(e)
		}
	}
	s.followers[namespace] = append(s.followers[namespace], f)
	s.watches.followers.Add(1)
	s.stir()
	return f
}

// leave removes a follower, and reports whether it was the last: then the watch is over.
func (s *sharedWatch) leave(f *Follower) (last bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.remove(f)
	f.drop()
	if len(s.followers) > 0 {
		return false
	}
	if s.err == nil {
		s.err = ErrMoved
	}
	s.recent.trim(0, 0)
	return true
}

// remove takes a follower off the list; the caller holds mu.
func (s *sharedWatch) remove(f *Follower) {
	others := slices.DeleteFunc(slices.Clone(s.followers[f.namespace]), func(o *Follower) bool { return o == f })
	s.watches.followers.Add(int64(len(others) - len(s.followers[f.namespace])))
	if len(others) == 0 {
		delete(s.followers, f.namespace)
	} else {
		s.followers[f.namespace] = others
	}
	s.stir()
}

// stir tells the one that reads that a follower has got on, or that there are others now.
func (s *sharedWatch) stir() {
	select {
	case s.room <- struct{}{}:
	default:
	}
}

// run reads the watch to its end, and tells the followers.
func (s *sharedWatch) run(ctx context.Context) {
	err := s.read(ctx)
	switch {
	case apierrors.IsForbidden(err) && s.scope.Namespaced && s.scope.Namespace == "":
		s.watches.narrow(s.scope)
	case err == errUnordered: //nolint:errorlint // it is never wrapped
		s.watches.part(s.scope)
	default:
		s.watches.expired(s.scope, kube.Expired(err) && s.oldest(err) == 0)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil {
		s.err = err
	}
	s.answered()
	for f := range s.all {
		f.stir()
	}
}

// oldest returns the oldest version that can be watched, as a refusal says; 0 where it does not.
func (s *sharedWatch) oldest(refusal error) uint64 {
	n, _ := source.Number(kube.OldestWatchable(refusal, strconv.FormatUint(s.first, 10)))
	return n
}

// answered lets those go on who wait for the API server's answer; the caller holds mu.
func (s *sharedWatch) answered() {
	if s.since.IsZero() {
		s.since = time.Now()
		close(s.opened)
	}
}

func (s *sharedWatch) read(ctx context.Context) error {
	first := s.gather(ctx)
	timeout := kube.WatchTime()
	conn, cancel := context.WithTimeout(ctx, timeout+kube.WatchGrace)
	defer cancel()
	body, err := s.watches.client.Watch(conn, s.scope, strconv.FormatUint(first, 10), timeout)
	if err != nil {
		return err
	}
	defer func() { _ = body.Close() }()
	s.mu.Lock()
	s.answered()
	s.mu.Unlock()
	for frames := rawjson.NewReader(body); ; {
		f, err := frames.Next()
		if err != nil {
			return kube.Overdue(conn, err)
		}
		e, err := newEvent(&Frame{Frame: f}, s.scope.Namespaced)
		if err != nil {
			return err
		}
		if err := s.hand(ctx, e); err != nil {
			return err
		}
	}
}

// gather waits for followers, and returns the version from behind which the watch is to be, so that all of them find
// their places. It waits as long as others come, but for a while only. Where a watch has ended before, it waits no
// longer than until all are there: at a start more may come.
func (s *sharedWatch) gather(ctx context.Context) (first uint64) {
	over, next := time.NewTimer(gatherMost), time.NewTimer(gatherFor)
	defer over.Stop()
	defer next.Stop()
	for waits := true; waits && (!s.follows || s.following() < s.watches.sharing(s.scope)); {
		select {
		case <-s.room:
			next.Reset(gatherFor)
		case <-next.C:
			waits = false
		case <-over.C:
			waits = false
		case <-ctx.Done():
			waits = false
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = true
	return s.first
}

// following counts the followers.
func (s *sharedWatch) following() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, of := range s.followers {
		n += len(of)
	}
	return n
}

// hand gives an event to everybody whom it concerns, and waits until there is room for it. The error is ctx's. The
// body's reference is taken over.
func (s *sharedWatch) hand(ctx context.Context, e event) error {
	defer e.body.Release()
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.err == nil {
		slow, others := s.full(&e)
		if slow == nil {
			break
		}
		if slow.waited >= patientFor || !slow.passed && s.waited >= patientFor {
			slow.detach()
			continue
		}
		if err := s.await(ctx, slow, others); err != nil {
			return err
		}
	}
	if s.err != nil {
		return s.err
	}
	s.shown = true
	for _, of := range s.concerned(&e) {
		for _, f := range of {
			f.push(e)
			f.stir()
		}
	}
	s.recent.add(e)
	return nil
}

// await waits until a follower that has no room may have some, or it is time to look again. What it has waited while
// others were well ahead is counted, until the follower has taken all: a slow one that never comes to an end holds
// them up no longer than one that takes nothing. Of those that have not checked the history yet, whose checks may take
// long, it is counted all together. The error is ctx's; the caller holds mu, which is free meanwhile.
func (s *sharedWatch) await(ctx context.Context, slow *Follower, others bool) error {
	began := time.Now()
	look := time.NewTimer(patientFor / 10)
	defer look.Stop()
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		if others {
			slow.waited += time.Since(began)
		}
		if !slow.passed {
			s.waited += time.Since(began)
		}
	}()
	select {
	case <-s.room:
	case <-look.C:
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}

// all yields the followers; the caller holds mu.
func (s *sharedWatch) all(yield func(*Follower) bool) {
	for _, of := range s.followers {
		for _, f := range of {
			if !yield(f) {
				return
			}
		}
	}
}

// concerned returns the followers that an event is for; the caller holds mu.
func (s *sharedWatch) concerned(e *event) [2][]*Follower {
	switch {
	case e.kind == rawjson.Bookmark:
		return [2][]*Follower{slices.Collect(s.all)}
	case e.identity.Namespace == s.scope.Namespace:
		return [2][]*Follower{s.followers[s.scope.Namespace]}
	default:
		return [2][]*Follower{s.followers[s.scope.Namespace], s.followers[e.identity.Namespace]}
	}
}

// full returns a follower that has no room for an event, if there is one, and whether there are others for which less
// than half as much waits. The caller holds mu.
func (s *sharedWatch) full(e *event) (slow *Follower, others bool) {
	for _, of := range s.concerned(e) {
		for _, f := range of {
			if f.fullAt > 0 && !f.detached {
				slow = f
			}
		}
	}
	if slow == nil {
		return nil, false
	}
	for f := range s.all {
		if !f.detached && f.bytes <= slow.fullAt/2 {
			return slow, true
		}
	}
	return slow, false
}
