// SPDX-License-Identifier: Apache-2.0

package reader

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/kube-eventbridge/kube-eventbridge/source"
	"github.com/kube-eventbridge/kube-eventbridge/source/kube"
	"github.com/kube-eventbridge/kube-eventbridge/source/kube/kubetest"
	"github.com/kube-eventbridge/kube-eventbridge/source/sharing"
)

// company runs readers that share the watches of a stage.
type company struct {
	t       *testing.T
	stage   *stage
	client  *kube.Client
	watches *sharing.Watches
	ctx     context.Context //nolint:containedctx // that of the test
	running sync.WaitGroup
}

func newCompany(t *testing.T, s *stage) *company {
	ctx, cancel := context.WithCancel(t.Context())
	c := &company{t: t, stage: s, client: s.client(t), ctx: ctx}
	c.watches = sharing.NewWatches(c.client, 1<<20)
	t.Cleanup(func() {
		cancel()
		c.running.Wait()
		n, held := c.watches.Shared(), c.watches.Held()
		assert.True(t, n == 0 && held == 0, "%d watches are left, and hold %d bytes", n, held)
	})
	return c
}

// inCompany runs a test in a bubble.
func inCompany(t *testing.T, test func(t *testing.T, s *stage, c *company)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := newStage()
		test(t, s, newCompany(t, s))
	})
}

// member is a reader, and what it has seen.
type member struct {
	recorder
	cancel context.CancelFunc
	// gate has one inside while nothing is to be taken.
	gate chan struct{}
}

func (m *member) shut() { m.gate <- struct{}{} }
func (m *member) free() { <-m.gate }

// join starts a reader at a version.
func (c *company) join(namespace, resume string, known ...source.Ident) *member {
	ctx, cancel := context.WithCancel(c.ctx)
	m := &member{cancel: cancel, gate: make(chan struct{}, 1)}
	m.resume, m.known = resume, known
	m.onCall = func(call string, done <-chan struct{}) {
		if !strings.HasPrefix(call, "admit") {
			return
		}
		select {
		case m.gate <- struct{}{}:
			<-m.gate
		case <-done:
		}
	}
	stream := kubetest.ConfigMaps
	stream.Namespace = namespace
	reader := Reader{Client: c.client, Watches: c.watches, Stream: stream, Feed: m, History: m, Observer: m}
	c.running.Go(func() {
		assert.NoError(c.t, reader.Run(ctx))
	})
	return m
}

// pair are two readers of the same stream that have seen n objects, and share a watch.
func (c *company) pair(n int) (a, b *member) {
	c.t.Helper()
	a, b = c.join("", "10"), c.join("", "10")
	for range n {
		c.stage.write("default", 1)
	}
	c.saw(n, a, b)
	c.stage.bookmark()
	c.watch(map[string]int{"": 1})
	return a, b
}

// stall has two readers take nothing for a minute, of a thousand objects.
func (c *company) stall(a, b *member) {
	a.shut()
	b.shut()
	for range 1000 {
		c.stage.write("default", 32<<10)
	}
	<-time.After(time.Minute)
}

// names returns what a member was shown, each once, or says that it was shown in another order.
func (m *member) names() (names []string) {
	seen := map[string]bool{}
	last := 0
	for _, line := range m.seen() {
		var name string
		var rev int
		if n, _ := fmt.Sscanf(strings.ReplaceAll(line, "@", " "), "added %s %d", &name, &rev); n != 2 {
			continue
		}
		if !seen[name] {
			names = append(names, name)
			if rev < last {
				names = append(names, "BUG: in this order")
			}
			last = rev
		}
		seen[name] = true
	}
	return names
}

func (c *company) wait(what string, done func() bool) {
	c.t.Helper()
	for over := time.Now().Add(time.Hour); !done(); <-time.After(10 * time.Millisecond) {
		require.False(c.t, time.Now().After(over), "%s: still not", what)
	}
}

// saw waits until each member has seen so many objects.
func (c *company) saw(n int, members ...*member) {
	c.t.Helper()
	for _, m := range members {
		c.wait(fmt.Sprintf("%d objects seen", n), func() bool { return len(m.names()) >= n })
	}
}

func (c *company) watch(want map[string]int) {
	c.t.Helper()
	c.wait(fmt.Sprintf("watches are %v", want), func() bool { return maps.Equal(c.stage.watches(), want) })
}

func (c *company) check(from int, namespace string, members ...*member) {
	c.t.Helper()
	var want []string
	c.stage.mu.Lock()
	defer c.stage.mu.Unlock()
	for _, w := range c.stage.writes {
		if !w.bookmark && w.rev > from && (namespace == "" || w.namespace == namespace) {
			want = append(want, w.name)
		}
	}
	for _, m := range members {
		assert.Equal(c.t, want, m.names(), "the one in %q from %d has seen", namespace, from)
	}
}

func TestWatches_serve_readers_of_the_same_stream_by_one_watch(t *testing.T) {
	inCompany(t, func(t *testing.T, s *stage, c *company) {
		c.watches.SetHold(32 << 20) // what is shown is kept, also while it waits for both
		a, b := c.pair(200)
		late := c.join("", "190") // what it lacks is still there
		c.saw(20, late)
		c.watch(map[string]int{"": 1})
		s.write("default", 1)
		c.saw(21, late)
		c.saw(201, a, b)
		c.check(10, "", a, b)
		c.check(190, "", late)
		if s.widely() > 2 { // one of the two may have begun alone
			t.Errorf("%d watches were asked for", s.widely())
		}
	})
}

func TestWatches_let_a_reader_that_is_behind_catch_up_by_its_own(t *testing.T) {
	inCompany(t, func(t *testing.T, s *stage, c *company) {
		a, _ := c.pair(1000)
		old := c.join("", "11")
		c.saw(999, old)
		s.bookmark()
		c.watch(map[string]int{"": 1})
		s.write("default", 1)
		c.saw(1000, old)
		c.saw(1001, a)
		c.check(11, "", old)
		c.check(10, "", a)
	})
}

func TestWatches_do_not_wait_for_a_reader_that_takes_nothing(t *testing.T) {
	inCompany(t, func(t *testing.T, s *stage, c *company) {
		a, stuck := c.pair(1)
		stuck.shut()
		began := time.Now()
		for range 200 {
			s.write("default", 32<<10)
		}
		c.saw(201, a)
		assert.LessOrEqual(t, time.Since(began), 2*time.Second, "the other one was held up")
		held := c.watches.Held()
		assert.True(t, held <= 1<<20, "%d bytes are held for it", held)
		stuck.free()
		c.saw(201, stuck)
		s.bookmark()
		c.watch(map[string]int{"": 1})
		s.write("default", 1)
		c.saw(202, a, stuck)
		c.check(10, "", stuck)
		assert.Equal(t, 1, stuck.counted("detached"), "detached")
		assert.Equal(t, 0, a.counted("detached"), "detached")
	})
}

func TestWatches_hold_little_without_a_taker(t *testing.T) {
	inCompany(t, func(t *testing.T, s *stage, c *company) {
		a, b := c.pair(1)
		c.stall(a, b)
		if held, most := c.watches.Held(), int64(1<<20+2*40<<10); held > most { // and an object for each
			t.Errorf("%d bytes are held, want at most %d", held, most)
		}
		a.free()
		c.saw(1001, a)
		b.free()
		c.saw(1001, b)
		c.check(10, "", a, b)
	})
}

func TestWatches_serve_namespaces_by_one_watch_where_that_is_allowed(t *testing.T) {
	inCompany(t, func(t *testing.T, s *stage, c *company) {
		a, b, all := c.join("a", "10"), c.join("b", "10"), c.join("", "10")
		for i := range 90 {
			s.write([]string{"a", "b", "c"}[i%3], 1)
		}
		c.saw(30, a, b)
		c.saw(90, all)
		s.bookmark()
		c.watch(map[string]int{"": 1})
		all.cancel()
		s.write("a", 1)
		c.saw(31, a)
		s.change(func() { s.narrow, s.cuts = true, s.cuts+1 })
		c.watch(map[string]int{"a": 1, "b": 1})
		again := c.join("a", "10")
		s.write("a", 1)
		s.write("b", 1)
		c.saw(32, a, again)
		c.saw(31, b)
		s.bookmark()
		c.watch(map[string]int{"a": 1, "b": 1})
		c.check(10, "a", a)
		c.check(10, "b", b)
		c.check(10, "a", again)
		refused := s.widely()
		s.change(func() { s.narrow = false })
		<-time.After(9 * time.Minute)
		assert.Equal(t, refused, s.widely(), "watches over all namespaces, soon after a refusal")
		<-time.After(12 * time.Minute)
		before := s.widely() // each that has ended by its time since was followed by another one
		s.change(func() { s.cuts++ })
		s.bookmark()
		c.watch(map[string]int{"": 1})
		assert.LessOrEqual(t, s.widely(), before+2, "it was asked %d times for all namespaces", s.widely()-before)
	})
}

func TestWatches_pass_an_end_on_to_those_whom_it_concerns(t *testing.T) {
	inCompany(t, func(t *testing.T, s *stage, c *company) {
		a, b := c.pair(20)
		s.change(func() {
			s.writes = append(s.writes, staged{rev: 31, namespace: "default", name: "o31"})
			s.compacted, s.cuts = 31, s.cuts+1
		})
		<-time.After(time.Minute)
		s.write("default", 1)
		for _, m := range []*member{a, b} {
			c.wait("it has seen what came after", func() bool { return slices.Contains(m.seen(), "added o32@32 watch") })
			got := m.counted("expired")
			assert.Equal(t, 1, got, "its history has expired %d times: %v", got, m.reasons)
		}
		c.watch(map[string]int{"": 1})
	})
}

type joining struct {
	namespace string
	from      int
}

func spacesOf(places []joining) (spaces []string) {
	for _, p := range places {
		spaces = append(spaces, p.namespace)
	}
	return spaces
}

func TestWatches_show_each_reader_all_that_it_lacks_in_order(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		spaces := []string{"", "a", "b"}
		places := rapid.SliceOfN(rapid.Custom(func(r *rapid.T) joining {
			return joining{rapid.SampledFrom(spaces).Draw(r, "namespace"), rapid.IntRange(10, 40).Draw(r, "from")}
		}), 1, 5).Draw(r, "readers")
		deeds := rapid.SliceOfN(rapid.IntRange(0, 9), 5, 60).Draw(r, "deeds")
		synctest.Test(t, func(t *testing.T) {
			s := newStage()
			for range 30 {
				s.write("a", 1)
			}
			c := newCompany(t, s)
			var members []*member
			for i, p := range places {
				members = append(members, c.join(p.namespace, fmt.Sprint(p.from)))
				if i%2 == 0 {
					<-time.After(time.Second)
				}
			}
			held := map[*member]bool{}
			for i, d := range deeds {
				m := members[i%len(members)]
				switch {
				case d == 0:
					s.change(func() { s.cuts++ })
				case d == 1:
					s.bookmark()
				case d == 2:
					s.change(func() { s.narrow = !s.narrow && !slices.Contains(spacesOf(places), "") })
				case d == 3 && !held[m]:
					m.shut()
					held[m] = true
				case d == 4 && held[m]:
					m.free()
					held[m] = false
				case d == 5:
					<-time.After(2 * time.Second)
				case d == 6:
					s.write("b", 200<<10)
				default:
					s.write([]string{"a", "b"}[d%2], 1)
				}
			}
			for m := range held {
				if held[m] {
					m.free()
				}
			}
			s.write("a", 1)
			s.write("b", 1)
			<-time.After(10 * time.Minute)
			for i, m := range members {
				c.check(places[i].from, places[i].namespace, m)
			}
		})
	})
}

// Readers that may not be behind one another at all would take one event at a time.
func TestWatches_that_may_hold_nothing_share_nothing(t *testing.T) {
	inCompany(t, func(t *testing.T, s *stage, c *company) {
		c.watches.SetHold(0)
		a, b := c.join("", "10"), c.join("", "10")
		s.write("default", 1)
		c.saw(1, a, b)
		s.bookmark()
		<-time.After(time.Minute)
		assert.Equal(t, 0, c.watches.Shared(), "watches are shared")
		c.watches.SetHold(1 << 20)
		s.write("default", 1)
		third := c.join("", "10")
		c.saw(2, third)
		s.bookmark()
		c.watch(map[string]int{"": 1})
	})
}

func TestWatches_begin_where_all_members_find_their_places(t *testing.T) {
	inCompany(t, func(t *testing.T, s *stage, c *company) {
		const n = 1000
		s.latency = 5 * time.Millisecond
		var members []*member
		for i := range n {
			s.write(fmt.Sprint("n", i), 1)
			members = append(members, c.join(fmt.Sprint("n", i), fmt.Sprint(10+n-i)))
		}
		for range 2 {
			<-time.After(time.Minute)
			assert.Equal(t, map[string]int{"": 1}, s.watches())
			for i := range 3 * n {
				s.write(fmt.Sprint("n", i*i%n), 1)
			}
			s.bookmark()
			for i := range n / 2 {
				s.write(fmt.Sprint("n", i*i%n), 1)
			}
			<-time.After(time.Second)
			s.change(func() { s.cuts++ })
		}
		<-time.After(time.Minute)
		assert.Equal(t, 4, s.mostLists(), "lists at a time")
		assert.Zero(t, s.narrowly(), "a watch for one namespace was asked for")
		for i, m := range members {
			c.check(10+n-i, fmt.Sprint("n", i), m)
		}
	})
}

// A reader asks for two objects of its own at most, and has ten seconds for the answers.
func TestWatches_begin_soon_where_reads_of_single_objects_hang(t *testing.T) {
	inCompany(t, func(t *testing.T, s *stage, c *company) {
		const n = 100
		s.hangs = true
		for i := range n {
			s.write(fmt.Sprint("n", i), 1)
		}
		began := time.Now()
		var members []*member
		for i := range n {
			var objects []source.Ident
			if i%2 == 0 { // the others have nothing to ask for
				objects = append(objects, known(fmt.Sprint("o", 11+i), "u", 11+i))
			}
			members = append(members, c.join(fmt.Sprint("n", i), strconv.Itoa(10+n), objects...))
		}
		for i := range n {
			s.write(fmt.Sprint("n", i), 1)
		}
		c.saw(1, members...)
		assert.Less(t, time.Since(began), checkTime+n/2/4*time.Second+2*time.Second)
		assert.Equal(t, 4, s.mostLists(), "lists at a time")
	})
}

// A process starts, and each namespace has something to catch up with.
func TestWatches_begin_at_a_start_where_all_members_find_their_places(t *testing.T) {
	for _, backlog := range []int{1, 5} {
		inCompany(t, func(t *testing.T, s *stage, c *company) {
			const n = 300
			s.latency = 5 * time.Millisecond
			for i := range n * (backlog + 1) {
				s.write(fmt.Sprint("n", i%n), 1)
			}
			var members []*member
			for i := range n {
				members = append(members, c.join(fmt.Sprint("n", i), fmt.Sprint(10+n-i%20)))
				if i > 0 { // who is alone when its check has been answered has a watch of its own
					<-time.After(5 * time.Millisecond)
				}
			}
			c.saw(backlog, members...)
			assert.Zero(t, s.narrowly(), "a watch for one namespace was asked for")
			assert.LessOrEqual(t, s.mostLists(), 4, "lists at a time")
			for i, m := range members {
				c.check(10+n-i%20, fmt.Sprint("n", i), m)
			}
		})
	}
}

// Whose check takes long finds its place in a watch that a quicker one has asked for.
func TestWatches_have_a_place_for_who_still_checks_the_history(t *testing.T) {
	inCompany(t, func(t *testing.T, s *stage, c *company) {
		for range 30 {
			s.write("a", 1)
			s.write("b", 1)
			s.write("c", 1)
		}
		alone := c.join("c", "90")
		c.watch(map[string]int{"c": 1})
		s.change(func() { s.latency = 300 * time.Millisecond })
		slow := c.join("a", "12")
		<-time.After(time.Millisecond) // by then its check is under way
		s.change(func() { s.latency = 0 })
		quick := c.join("b", "50")
		c.saw(29, slow)
		c.saw(17, quick)
		c.saw(3, alone)
		assert.Equal(t, 1, s.narrowly(), "watches for one namespace were asked for: that of the first")
		c.check(12, "a", slow)
		c.check(50, "b", quick)
	})
}

// The API server has forgotten what came before the positions of some readers.
func TestWatches_are_refused_to_those_who_come_too_late_only(t *testing.T) {
	inCompany(t, func(t *testing.T, s *stage, c *company) {
		const n, forgotten = 40, 10
		for i := range 3 * n {
			s.write(fmt.Sprint("n", i%n), 1)
		}
		s.change(func() { s.compacted = 10 + n + forgotten })
		var members []*member
		for i := range n {
			members = append(members, c.join(fmt.Sprint("n", i), fmt.Sprint(10+n+i)))
		}
		<-time.After(time.Minute)
		assert.Equal(t, map[string]int{"": 1}, s.watches())
		assert.LessOrEqual(t, s.narrowly(), 1, "watches for one namespace; the first may have begun alone")
		assert.LessOrEqual(t, s.widely(), 3)
		for i, m := range members {
			want := 0
			if i < forgotten {
				want = 1
			}
			assert.Equal(t, want, m.counted("expired"), "the one from %d: %v", 10+n+i, m.reasons)
		}
	})
}

// The lists of some readers fail, so that they cannot check the history, and take nothing.
func TestWatches_wait_for_those_who_check_the_history_no_longer_than_a_second(t *testing.T) {
	inCompany(t, func(t *testing.T, s *stage, c *company) {
		a, b := c.join("a", "10"), c.join("b", "10")
		s.change(func() { s.refuses = "bad" })
		for i := range 10 {
			c.join(fmt.Sprint("bad", i), "10")
		}
		<-time.After(time.Second)
		began := time.Now()
		for i := range 400 {
			s.write(fmt.Sprint("bad", i%10), 16<<10)
			s.write("a", 1)
		}
		c.saw(400, a)
		assert.LessOrEqual(t, time.Since(began), 2*time.Second)
		c.check(10, "a", a)
		c.check(10, "b", b)
	})
}

// Etcd was restored, and has passed the position since. The watch cache begins later, so the API server forgets, too.
func TestWatches_that_have_expired_are_no_excuse_for_another_history(t *testing.T) {
	inCompany(t, func(t *testing.T, s *stage, c *company) {
		ended := make(chan error, 2)
		for i := range 2 {
			m := &member{gate: make(chan struct{}, 1)}
			m.resume, m.remember = "10", true
			stream := kubetest.ConfigMaps
			stream.Namespace = fmt.Sprint("n", i)
			r := Reader{Client: c.client, Watches: c.watches, Stream: stream, Feed: m, History: m, Observer: m}
			c.running.Go(func() { ended <- r.Run(c.ctx) })
		}
		for i := range 30 {
			s.write(fmt.Sprint("n", i%2), 1)
		}
		<-time.After(time.Second)
		s.bookmark()
		<-time.After(time.Second)
		s.change(func() {
			s.writes = slices.Clone(s.writes[:10]) // as it was at 20
			for rev := 21; rev <= 80; rev++ {
				s.writes = append(s.writes, staged{rev: rev, namespace: fmt.Sprint("n", rev%2), name: fmt.Sprint("restored", rev)})
			}
			s.watchable, s.cuts = 80, s.cuts+1
		})
		for range 2 {
			var rewound *source.RewoundError
			select {
			case err := <-ended:
				assert.ErrorAs(t, err, &rewound)
			case <-time.After(time.Minute):
				t.Error("it was not noticed")
			}
		}
	})
}

// The API server has forgotten what came before the positions of all readers, and does not say from where it has
// something.
func TestWatches_that_are_all_too_old_are_not_asked_for_one_after_the_other(t *testing.T) {
	inCompany(t, func(t *testing.T, s *stage, c *company) {
		const n = 40
		for i := range 2 * n {
			s.write(fmt.Sprint("n", i%n), 1)
		}
		s.change(func() { s.vague, s.compacted = true, s.now() })
		var members []*member
		for i := range n {
			members = append(members, c.join(fmt.Sprint("n", i), fmt.Sprint(11+i)))
		}
		<-time.After(time.Minute)
		for _, m := range members {
			assert.Equal(t, 1, m.counted("expired"), "%v", m.reasons)
		}
		assert.LessOrEqual(t, s.widely(), n/2)
	})
}

func TestWatches_begin_at_once_when_all_are_there_who_shared_the_last_one(t *testing.T) {
	inCompany(t, func(t *testing.T, s *stage, c *company) {
		a, b := c.pair(1)
		<-time.After(2 * usefulAfter)
		s.change(func() { s.cuts++ })
		<-time.After(50 * time.Millisecond)
		assert.Equal(t, map[string]int{"": 1}, s.watches())
		s.write("default", 1)
		c.saw(2, a, b)
	})
}

// Readers end while they check the history.
func TestWatches_end_with_readers_that_have_not_begun(t *testing.T) {
	inCompany(t, func(t *testing.T, s *stage, c *company) {
		s.change(func() { s.refuses = "bad" })
		a, b := c.join("bad", "10"), c.join("bad", "10")
		<-time.After(time.Second)
		a.cancel()
		b.cancel()
		<-time.After(time.Second)
		assert.Zero(t, c.watches.Shared())
	})
}

// What a reader is to go on from is another version when the check of the first one has failed.
func TestWatches_are_read_from_where_a_reader_goes_on(t *testing.T) {
	for name, relist := range map[string]bool{"from a later version": false, "from a list": true} {
		inCompany(t, func(t *testing.T, s *stage, c *company) {
			for range 30 {
				s.write("bad", 1)
			}
			s.change(func() { s.refuses = "bad" })
			m := c.join("bad", "20")
			c.join("other", "20")
			<-time.After(time.Second)
			m.mu.Lock()
			m.resume, m.relist = "35", relist
			m.mu.Unlock()
			s.change(func() { s.refuses = "" })
			<-time.After(time.Minute)
			var watched []string
			for _, line := range m.seen() {
				if strings.HasSuffix(line, " watch") {
					watched = append(watched, line)
				}
			}
			var want []string
			for v := 36; v <= 40 && !relist; v++ {
				want = append(want, fmt.Sprintf("added o%d@%d watch", v, v))
			}
			assert.Equal(t, want, watched, name)
		})
	}
}

// One is far behind, and reads slowly. The others do not wait until it has read everything.
func TestWatches_do_not_wait_for_a_reader_that_is_far_behind(t *testing.T) {
	inCompany(t, func(t *testing.T, s *stage, c *company) {
		for range 500 {
			s.write("slow", 16<<10)
		}
		slow := &member{gate: make(chan struct{}, 1)}
		slow.resume = "10"
		slow.onCall = func(call string, _ <-chan struct{}) {
			if strings.HasPrefix(call, "admit") {
				<-time.After(6 * time.Millisecond)
			}
		}
		stream := kubetest.ConfigMaps
		stream.Namespace = "slow"
		r := Reader{Client: c.client, Watches: c.watches, Stream: stream, Feed: slow, History: slow, Observer: slow}
		c.running.Go(func() { assert.NoError(t, r.Run(c.ctx)) })
		a := c.join("a", "510")
		s.write("a", 1)
		began := time.Now()
		c.saw(1, a)
		assert.LessOrEqual(t, time.Since(began), 2*time.Second)
		c.saw(500, slow)
		c.check(10, "slow", slow)
	})
}

// One takes nothing now and then, and what it has not taken then, soon.
func TestWatches_are_patient_again_with_who_has_taken_all(t *testing.T) {
	inCompany(t, func(t *testing.T, s *stage, c *company) {
		a, b := c.pair(1)
		for n := range 4 {
			b.shut()
			for range 60 {
				s.write("default", 32<<10)
			}
			<-time.After(500 * time.Millisecond)
			b.free()
			c.saw(60*(n+1)+1, a, b)
		}
		assert.Zero(t, b.counted("detached"))
	})
}
