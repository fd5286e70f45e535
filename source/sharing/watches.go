// SPDX-License-Identifier: Apache-2.0

package sharing

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kube-eventbridge/kube-eventbridge/source"
	"github.com/kube-eventbridge/kube-eventbridge/source/kube"
)

// wideAgainAfter is how long after a refusal a watch over all namespaces is not asked for in place of those of single
// ones.
const wideAgainAfter = 10 * time.Minute

// Watches lets readers share watches: those of the same resource with the same selectors read one watch at the API
// server, if there are several, and those of several namespaces one over all namespaces, where the API server allows
// that. It is safe for concurrent use.
//
// Readers keep a position, and all that follows from it, each for itself. One that comes with an older position than
// the shared watch can show, and one that lets 4 MiB wait and holds up others, which are well ahead, for a second
// before it has taken all, has a watch of its own until it has caught up. Versions that are not numbers cannot be
// compared, and are not shared.
type Watches struct {
	client *kube.Client
	// hold bounds, in bytes, what waits for readers that are behind others.
	hold atomic.Int64
	held atomic.Int64
	// followers counts those of all watches.
	followers atomic.Int64

	mu     sync.Mutex
	groups map[source.Stream]*group
	open   map[source.Stream]*sharedWatch
}

// NewWatches returns a Watches that holds at most hold bytes for readers that are behind others, or join, and an object
// for each reader. What a reader has taken is in the budget of its [source.Feed].
func NewWatches(c *kube.Client, hold int64) *Watches {
	w := &Watches{client: c, groups: map[source.Stream]*group{}, open: map[source.Stream]*sharedWatch{}}
	w.SetHold(hold)
	return w
}

// SetHold has at most hold bytes be held from now on, as said of [NewWatches]. While that is 0 no reader begins to
// share.
func (w *Watches) SetHold(hold int64) {
	w.hold.Store(hold / 2) // the other half is for those that have least, when all the others have taken up theirs
}

// least is how many bytes may wait for a reader whatever waits for others.
func (w *Watches) least() int64 { return min(minWaiting, w.hold.Load()/max(w.followers.Load(), 1)) }

// Held returns how many bytes wait for readers.
func (w *Watches) Held() int64 { return w.held.Load() }

// Shared returns how many watches are shared at the moment.
func (w *Watches) Shared() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.open)
}

// group is the readers of one resource with the same selectors.
type group struct {
	// members counts them by namespace, size all together.
	members map[string]int
	size    atomic.Int32
	// narrow is when a watch over all namespaces was refused last; apart: versions are no numbers.
	narrow time.Time
	apart  bool
	// begun: a watch was shared before. Expired: the last one was refused because its version is too old, and the API
	// server has not said which one is not.
	begun, expired bool
}

// scope returns the namespace over which the watch of a member goes, and whether others read it too.
func (g *group) scope(namespace string) (scope string, shared bool) {
	_, all := g.members[""]
	wide := (all || len(g.members) > 1) && (g.narrow.IsZero() || time.Since(g.narrow) > wideAgainAfter)
	if wide {
		return "", g.size.Load() > 1 && !g.apart
	}
	return namespace, g.members[namespace] > 1 && !g.apart
}

// groupOf names the group that a stream belongs to.
func groupOf(s source.Stream) source.Stream {
	s.Namespace = ""
	return s
}

// Membership is one reader's. Nil is that of a reader that shares nothing. It is for one goroutine.
type Membership struct {
	watches  *Watches
	stream   source.Stream
	observer source.Observer
	group    *group
	// tried is when the reader has last tried to leave its own watch for the shared one. It is the reader's own.
	tried time.Time
}

// Enter makes a reader known, which has to leave at its end.
func (w *Watches) Enter(s source.Stream, o source.Observer) *Membership {
	w.mu.Lock()
	defer w.mu.Unlock()
	g := w.groups[groupOf(s)]
	if g == nil {
		g = &group{members: map[string]int{}}
		w.groups[groupOf(s)] = g
	}
	g.members[s.Namespace]++
	g.size.Add(1)
	return &Membership{watches: w, stream: s, observer: o, group: g}
}

// Leave ends a membership that is not nil. The reader has no [Follower] any more.
func (m *Membership) Leave() {
	w, g := m.watches, m.group
	w.mu.Lock()
	defer w.mu.Unlock()
	if g.members[m.stream.Namespace]--; g.members[m.stream.Namespace] == 0 {
		delete(g.members, m.stream.Namespace)
	}
	if g.size.Add(-1) == 0 {
		delete(w.groups, groupOf(m.stream))
	}
}

// shareEvery is how often a reader with a watch of its own looks for a shared one, besides at each bookmark.
const shareEvery = 100 * time.Millisecond

// Rejoin returns the shared watch from behind version on, for a reader with a watch of its own that can change over, or
// nil.
func (m *Membership) Rejoin(version string, bookmark bool) *Follower {
	if m == nil || m.group.size.Load() < 2 {
		return nil
	}
	if now := time.Now(); bookmark || now.Sub(m.tried) >= shareEvery {
		m.tried = now
		return m.Attach(version, false)
	}
	return nil
}

// Attach returns the shared watch from behind version on. Nil where there is none, or none that can show all of that;
// begin says to begin one where others would share it.
func (m *Membership) Attach(version string, begin bool) *Follower {
	after, ok := source.Number(version)
	if m == nil || !ok || m.watches.hold.Load() == 0 {
		return nil
	}
	w := m.watches
	w.mu.Lock()
	defer w.mu.Unlock()
	scope := groupOf(m.stream)
	if scope.Namespace, ok = m.group.scope(m.stream.Namespace); !ok {
		return nil
	}
	s := w.open[scope]
	if s != nil && !s.over() {
		return s.follow(m, after)
	}
	if !begin {
		return nil
	}
	return w.begin(scope, after, m)
}

// begin opens a shared watch with its first follower; the caller holds mu. It is read as long as it has followers.
func (w *Watches) begin(scope source.Stream, after uint64, m *Membership) *Follower {
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	s := &sharedWatch{
		watches: w, scope: scope, first: after, asked: m.group.expired, follows: m.group.begun,
		opened: make(chan struct{}),
		recent: recent{watches: w, start: after}, followers: map[string][]*Follower{}, room: make(chan struct{}, 1),
	}
	s.end = func() {
		cancel()
		running.Wait()
	}
	m.group.begun = true
	w.open[scope] = s
	f := s.follow(m, after)
	running.Go(func() { s.run(ctx) }) // the follower that leaves last waits for it
	return f
}

// close ends a follower, and behind the last one the watch.
func (w *Watches) close(f *Follower) {
	s := f.watch
	w.mu.Lock()
	last := s.leave(f)
	if last && w.open[s.scope] == s {
		delete(w.open, s.scope)
	}
	w.mu.Unlock()
	if last {
		s.end()
	}
}

// sharing returns how many readers could read a watch.
func (w *Watches) sharing(scope source.Stream) (n int) {
	w.update(scope, func(g *group) {
		if n = g.members[scope.Namespace]; scope.Namespace == "" {
			n = int(g.size.Load())
		}
	})
	return n
}

// expired takes note of whether it is not known which version is old enough.
func (w *Watches) expired(scope source.Stream, expired bool) {
	w.update(scope, func(g *group) { g.expired = expired })
}

// narrow takes note that a watch over all namespaces was refused.
func (w *Watches) narrow(scope source.Stream) {
	w.update(scope, func(g *group) { g.narrow = time.Now() })
}

// part takes note that versions are no numbers.
func (w *Watches) part(scope source.Stream) {
	w.update(scope, func(g *group) { g.apart = true })
}

func (w *Watches) update(scope source.Stream, f func(*group)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if g := w.groups[groupOf(scope)]; g != nil {
		f(g)
	}
}
