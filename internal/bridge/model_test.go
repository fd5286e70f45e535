// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/time/rate"

	"github.com/kube-eventbridge/kube-eventbridge/internal/testtier"
	"github.com/kube-eventbridge/kube-eventbridge/source"
)

// model is a cluster, a log and a checkpoint to which everything happens: crashes at any moment, lost requests and answers, 410, a log that loses its
// end, an etcd that is restored.
type model struct {
	t      *testing.T
	mode   modelMode
	random *rand.Rand
	log    readableLog
	store  *crashingStore
	trace  []string

	// version is the cluster's, events all that happened in its present history, live what exists.
	version, uid int
	events       []source.Change
	live         map[string]source.Change
	// restored: etcd was restored, and the bridge does not know it yet.
	restored bool
	// resyncs are under way; number is that of the last one.
	resyncs sync.WaitGroup
	number  int
}

// Ignore: of most versions only what is ignored is new. Identities: updates are not published at all. Resync: what was listed at any time is published again.
type modelMode struct{ latest, flaky, restore, skip, ignore, identities, resync bool }

func (m modelMode) filter() Filter {
	switch {
	case m.ignore:
		return testFilter{content: modelContent}
	case m.identities:
		return testFilter{without: source.Updated}
	default:
		return nil
	}
}

// modelContent is what matters of an object at a version.
func modelContent(version string) string { return version[:len(version)-1] }

// said is what has to be in the log of an object at a version.
func (m modelMode) said(uid, version string) string {
	switch {
	case m.ignore:
		return uid + " " + modelContent(version)
	case m.identities:
		return uid
	default:
		return uid + " " + version
	}
}

func TestModel_final_states_deletions_and_order_hold_whatever_happens(t *testing.T) {
	seeds := uint64(testtier.Rounds(15, 60, 600))
	for _, mode := range []modelMode{
		{},
		{latest: true},
		{flaky: true},
		{latest: true, flaky: true},
		{restore: true},
		{restore: true, latest: true, flaky: true},
		{skip: true, restore: true},
		{ignore: true},
		{ignore: true, latest: true, flaky: true},
		{ignore: true, restore: true, flaky: true},
		{ignore: true, skip: true},
		{identities: true, flaky: true},
		{identities: true, restore: true, latest: true},
		{resync: true},
		{resync: true, latest: true, flaky: true},
		{resync: true, restore: true, flaky: true},
		{resync: true, ignore: true, skip: true, restore: true},
	} {
		t.Run(fmt.Sprintf("%+v", mode), func(t *testing.T) {
			for seed := range seeds {
				runModel(t, mode, seed)
				if t.Failed() {
					return
				}
			}
		})
	}
}

func runModel(t *testing.T, mode modelMode, seed uint64) {
	t.Helper()
	m := &model{
		t: t, mode: mode, random: rand.New(rand.NewPCG(seed, 77)), log: newReadableLog(), store: &crashingStore{},
		version: 10, live: map[string]source.Change{},
	}
	m.store.left.Store(1 << 30)
	for range 5 {
		m.change()
	}
	const sessions = 6
	for n := range sessions {
		m.session(n == sessions-1)
		if n < sessions-1 {
			m.disaster()
		}
	}
	if bad := m.check(); bad != "" {
		t.Errorf("seed %d: %s\n%s\n\n%s", seed, bad, strings.Join(m.trace, "\n"), strings.Join(m.log.lines(), "\n"))
	}
}

func (m *model) say(format string, args ...any) {
	m.trace = append(m.trace, fmt.Sprintf(format, args...))
}

// change changes one of four objects.
func (m *model) change() {
	m.version += 1 + m.random.IntN(2)
	name := fmt.Sprintf("o%d", m.random.IntN(4))
	c := source.Change{Op: source.Updated, Ident: source.Ident{Name: name, ResourceVersion: fmt.Sprint(m.version)}}
	old, exists := m.live[name]
	switch {
	case !exists:
		m.uid++
		c.Op, c.UID = source.Added, fmt.Sprintf("u%d", m.uid)
	case m.random.IntN(3) == 0:
		c.Op, c.UID = source.Deleted, old.UID
	default:
		c.UID = old.UID
	}
	m.events = append(m.events, c)
	m.happened(c)
}

func (m *model) happened(c source.Change) {
	m.live[c.Name] = c
	if c.Op == source.Deleted {
		delete(m.live, c.Name)
	}
}

// session runs a bridge for a while, to the end of what happened if it is the last.
func (m *model) session(last bool) {
	r := start(m.t, m.log, m.store)
	if m.mode.flaky {
		m.log.set(func() { m.log.faults = flaky(m.random.Uint64()) })
	}
	s := r.stream(&StreamSpec{Latest: m.mode.latest, SkipSnapshot: m.mode.skip, Filter: m.mode.filter()})
	position, _, ok := s.Resume()
	if m.restored && position != "" {
		m.must(s.renew(m.t.Context(), &source.RewoundError{Stream: s.name, Position: position, Server: "1"}))
		position, _, ok = s.Resume()
	}
	m.restored = false
	m.log.set(func() { m.say("the log has %d, resumes at %q %v", len(m.log.log), position, ok) })
	if !ok || m.random.IntN(4) == 0 { // the latter is a 410
		position = m.list(s, ok)
	}
	if m.mode.resync {
		s.status.State(source.Watching, nil)
	}
	ctx, cancel := context.WithCancel(m.t.Context())
	sent := 0
	for sent < len(m.events) && !after(m.events[sent].ResourceVersion, position) {
		sent++
	}
	for range 3 + m.random.IntN(15) {
		sent = m.watch(r, s, sent)
		if m.mode.resync && m.random.IntN(2) == 0 {
			m.resync(ctx, s)
		}
	}
	switch {
	case last:
		for ; sent < len(m.events); sent++ {
			m.send(s, m.events[sent])
		}
		r.settle()
	case m.random.IntN(2) == 0:
		r.settle()
		m.must(r.commit(m.t.Context()))
		m.say("stopped at %d", sent)
	default:
		m.say("killed at %d", sent)
	}
	_ = r.stop()
	cancel()
	m.resyncs.Wait()
}

// resync publishes again, while everything goes on, what a list has shown that was made at any time.
func (m *model) resync(ctx context.Context, s *stream) {
	m.number++
	number := int64(1_764_000_000 + m.number)
	for _, c := range m.events[m.random.IntN(len(m.events)):] {
		if c.Op == source.Deleted {
			continue
		}
		id := c.Ident
		id.Namespace = "default"
		m.resyncs.Go(func() { _, _ = s.republishOne(ctx, id, testContent{id}, number, rate.NewLimiter(rate.Inf, 1)) })
	}
}

// testContent is that of an object without any.
type testContent struct{ source.Ident }

func (testContent) Size() int { return 100 }

func (c testContent) Body() *source.Body {
	return source.NewBody(fmt.Appendf(nil, `{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":%q,"namespace":%q,"uid":%q,"resourceVersion":%q}}`,
		c.Name, c.Namespace, c.UID, c.ResourceVersion))
}

// watch lets something happen, shows the bridge something, and lets it get on.
func (m *model) watch(r *rig, s *stream, sent int) int {
	if m.random.IntN(2) == 0 {
		m.change()
	}
	if sent < len(m.events) {
		m.send(s, m.events[sent])
		sent++
	}
	switch m.random.IntN(5) {
	case 0:
		r.settle()
	case 1:
		m.must(r.commit(m.t.Context()))
	case 2:
		if sent == len(m.events) {
			note(m.t, s, source.Progress{Kind: source.Bookmark, Version: fmt.Sprint(m.version)})
		}
	}
	return sent
}

func (m *model) send(s *stream, c source.Change) {
	send(m.t, s, c.Op, c.Name, c.UID, c.ResourceVersion, source.ReasonWatch)
}

// list lists what exists, behind a gap if the stream could be resumed, and again where the list shows another history.
func (m *model) list(s *stream, gap bool) (version string) {
	kind := source.SnapshotStarted
	if gap {
		kind = source.Gap
	}
	version = fmt.Sprint(m.version)
	for {
		note(m.t, s, source.Progress{Kind: kind, Version: version, Why: source.Why{Message: "compacted"}})
		for _, c := range m.live {
			send(m.t, s, source.Added, c.Name, c.UID, c.ResourceVersion, source.ReasonRelist)
		}
		ctx, cancel := context.WithTimeout(m.t.Context(), time.Minute)
		err := s.Note(ctx, source.Progress{Kind: source.Listed, Version: version, Objects: len(m.live), Seen: time.Now()})
		cancel()
		var rewound *source.RewoundError
		if !errors.As(err, &rewound) {
			m.must(err)
			return version
		}
		m.say("doubted: %v", err)
		m.must(s.renew(m.t.Context(), rewound))
		kind = source.SnapshotStarted
	}
}

func (m *model) must(err error) {
	m.t.Helper()
	require.NoError(m.t, err)
}

// disaster happens while no bridge runs.
func (m *model) disaster() {
	if m.mode.restore && m.random.IntN(3) == 0 {
		m.restore(1 + m.random.IntN(len(m.events)))
	}
	if m.random.IntN(2) == 0 {
		m.log.forgetIDs()
	}
	if m.restored || m.random.IntN(2) == 0 {
		return
	}
	n := m.random.IntN(len(m.log.log) + 1)
	if m.random.IntN(2) == 0 {
		n = len(m.log.log) - m.random.IntN(min(4, len(m.log.log)+1))
	}
	m.log.lose(n)
	m.say("the log loses all after %d", n)
}

// restore takes back all but the first n events.
func (m *model) restore(n int) {
	m.events = m.events[:n:n]
	m.live = map[string]source.Change{}
	for _, c := range m.events {
		m.happened(c)
		_, _ = fmt.Sscan(c.ResourceVersion, &m.version)
	}
	m.restored = true
	m.say("etcd is restored to %d", m.version)
}

// check compares the log with what exists, and returns what is wrong.
func (m *model) check() (bad string) {
	alive, newest, ids := map[string]string{}, map[string]string{}, map[string]bool{}
	for i := range m.log.log {
		e := &m.log.log[i]
		if ids[e.ID] {
			return "id twice: " + e.ID
		}
		ids[e.ID] = true
		name := attribute(e, "name")
		if name == "" {
			continue
		}
		at := attribute(e, "sequence")
		if again := strings.Contains(e.ID, ".r"); newest[name] > at || newest[name] == at && !again {
			return fmt.Sprintf("%s at %s stands behind %s", name, at, newest[name])
		}
		newest[name] = at
		alive[name] = m.mode.said(attribute(e, "objectuid"), attribute(e, "resourceversion"))
		if strings.Contains(attribute(e, "type"), ".deleted.") {
			delete(alive, name)
		}
	}
	for name, c := range m.live {
		if alive[name] != m.mode.said(c.UID, c.ResourceVersion) && (!m.mode.skip || alive[name] != "") {
			return fmt.Sprintf("%s is %q in the log, and exists as %s %s", name, alive[name], c.UID, c.ResourceVersion)
		}
	}
	for name := range alive {
		if _, ok := m.live[name]; !ok {
			return fmt.Sprintf("%s is alive in the log as %s, and does not exist", name, alive[name])
		}
	}
	return ""
}
