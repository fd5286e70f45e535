// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/time/rate"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	"github.com/kube-eventbridge/kube-eventbridge/encode"
	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge/ledger"
	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge/stream"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
	"github.com/kube-eventbridge/kube-eventbridge/internal/sequence"
	"github.com/kube-eventbridge/kube-eventbridge/internal/testtier"
	"github.com/kube-eventbridge/kube-eventbridge/source"
	"github.com/kube-eventbridge/kube-eventbridge/source/kube"
	"github.com/kube-eventbridge/kube-eventbridge/source/reader"
)

// model is a cluster, a log, a checkpoint and consumers to which everything happens: crashes at any moment, lost
// requests and answers, 410, a log that loses its end, an etcd that is restored, a checkpoint that is lost or an older
// one, a selection that changes.
type model struct {
	t      *testing.T
	mode   modelMode
	random *rand.Rand
	log    readableLog
	store  *crashingStore
	client *kube.Client
	trace  []string

	// mu guards what follows where lists are served.
	mu sync.Mutex
	// version is the cluster's, histories how often it was restored, events all that happened in its present history,
	// live what exists.
	version, uid, histories int
	events                  []happened
	live                    map[string]happened
	// restored: etcd was restored, and the bridge does not know it yet. Suspect: an audit may have to find that out.
	restored, suspect bool
	// selector is what the stream selects.
	selector string
	// resyncs are under way; number is that of the last one.
	resyncs   sync.WaitGroup
	number    int64
	consumers []*consumer
	// backups are older checkpoints, and used is the greatest number of a resync that any has. Lost: the log has lost
	// something, and is not repaired yet.
	backups []checkpoint.State
	used    int64
	lost    bool
}

// happened is a write. Labelled says that the object has the label of the selector, was that it had it before. History
// is how often etcd was restored before: a version has another time and other data in each.
type happened struct {
	source.Change
	labelled, was bool
	history       int
}

// modelMode says what is configured, and what may happen. Ignore: of most versions only what is ignored is new.
// Identities: updates are not published at all. Resync: what was listed at any time is published again. Backup: the
// checkpoint is lost, or is an older one. Trim: the log loses what is oldest.
type modelMode struct {
	latest, flaky, restore, skip, ignore, identities, resync, backup, trim, selection, patches, rewind bool
}

// complete reports whether everything that exists is published, so that P9 holds.
func (m modelMode) complete() bool { return !m.skip && !m.ignore && !m.identities }

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

// The time of a bubble passes only while everything waits. A busy machine cannot exceed a deadline.
func TestModel_final_states_deletions_and_order_hold_whatever_happens(t *testing.T) {
	seeds := uint64(testtier.Rounds(15, 40, 600))
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
		{backup: true},
		{backup: true, flaky: true, restore: true, resync: true},
		{backup: true, trim: true},
		{trim: true, resync: true, restore: true},
		{selection: true},
		{selection: true, flaky: true, latest: true, restore: true},
		{selection: true, backup: true, resync: true},
		{patches: true, restore: true, resync: true},
		{patches: true, flaky: true, selection: true, backup: true},
		{rewind: true},
		{rewind: true, flaky: true, restore: true},
		{rewind: true, backup: true},
		{rewind: true, selection: true, patches: true, resync: true},
	} {
		t.Run(fmt.Sprintf("%+v", mode), func(t *testing.T) {
			for seed := range seeds {
				synctest.Test(t, func(t *testing.T) { runModel(t, mode, seed) })
				if t.Failed() {
					return
				}
			}
		})
	}
}

func runModel(t *testing.T, mode modelMode, seed uint64) {
	t.Helper()
	require.True(t, mode.complete() || !mode.rewind, "behind a rewind only judge knows the final state")
	m := &model{
		t: t, mode: mode, random: rand.New(rand.NewPCG(seed, 77)), log: newReadableLog(), store: &crashingStore{},
		version: 10, live: map[string]happened{}, number: time.Now().Unix() + 1000,
		consumers: []*consumer{newConsumer("held", false), newConsumer("held >=", true)},
	}
	m.store.left.Store(1 << 30)
	m.client = answeredBy(t, m)
	for range 5 {
		m.change()
	}
	const sessions = 6
	for n := range sessions {
		m.session(n == sessions-1)
		m.consume()
		if n < sessions-1 {
			m.disaster()
		}
	}
	bad := m.check()
	if bad == "" && mode.complete() {
		bad = m.judge()
	}
	if bad != "" {
		lines := m.log.lines()
		for i := range lines {
			e := &m.log.log[i]
			lines[i] = fmt.Sprintf("%d %s %s %s", i+1, lines[i], attribute(e, "sequence"), e.ID)
		}
		t.Errorf("seed %d: %s\n%s\n\n%s", seed, bad, strings.Join(m.trace, "\n"), strings.Join(lines, "\n"))
	}
}

func (m *model) say(format string, args ...any) {
	m.trace = append(m.trace, fmt.Sprintf(format, args...))
}

// change changes one of four objects.
func (m *model) change() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.version += 1 + m.random.IntN(2)
	name := fmt.Sprintf("o%d", m.random.IntN(4))
	c := happened{history: m.histories, Change: source.Change{
		Op: source.Updated, Ident: source.Ident{Namespace: "default", Name: name, ResourceVersion: fmt.Sprint(m.version)},
	}}
	old, exists := m.live[name]
	c.was, c.labelled = exists && old.labelled, m.random.IntN(3) > 0
	switch {
	case !exists:
		m.uid++
		c.Op, c.UID = source.Added, fmt.Sprintf("u%d", m.uid)
	case m.random.IntN(3) == 0:
		c.Op, c.UID, c.labelled = source.Deleted, old.UID, old.labelled
	default:
		c.UID = old.UID
	}
	m.events = append(m.events, c)
	m.happened(c)
}

func (m *model) happened(c happened) {
	m.live[c.Name] = c
	if c.Op == source.Deleted {
		delete(m.live, c.Name)
	}
}

// body is an object as the API server has it.
func (c *happened) body() []byte {
	label := ""
	if c.labelled {
		label = `,"labels":{"a":"b"}`
	}
	last := c.ResourceVersion[len(c.ResourceVersion)-1:]
	at := time.Unix(int64(1_700_000_000+10_000*c.history+int(ledger.Numeric(c.ResourceVersion))),
		0).UTC().Format(time.RFC3339)
	metadata := fmt.Sprintf(`{"name":%q,"namespace":%q,"uid":%q,"resourceVersion":%q%s,"managedFields":[{"time":%q}]}`,
		c.Name, c.Namespace, c.UID, c.ResourceVersion, label, at)
	return fmt.Appendf(nil, `{"kind":"ConfigMap","apiVersion":"v1","metadata":%s,"data":{"v":"%s of %d","k%s":"x"}}`,
		metadata, c.ResourceVersion, c.history, last)
}

// selected returns what exists and is selected.
func (m *model) selected(selector string) (all []happened) {
	for _, c := range m.live {
		if selector == "" || c.labelled {
			all = append(all, c)
		}
	}
	slices.SortFunc(all, func(a, b happened) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// ServeHTTP lists what exists. It knows no older versions.
func (m *model) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	m.mu.Lock()
	defer m.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	if r.URL.Query().Get("resourceVersionMatch") == "Exact" {
		w.WriteHeader(http.StatusGone)
		_, _ = w.Write([]byte(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Expired","code":410}`))
		return
	}
	var items []string
	for _, c := range m.selected(r.URL.Query().Get("labelSelector")) {
		items = append(items, string(c.body()))
	}
	_, _ = fmt.Fprintf(w, `{"kind":"ConfigMapList","apiVersion":"v1","metadata":{"resourceVersion":"%d"},"items":[%s]}`,
		m.version, strings.Join(items, ","))
}

// start starts a bridge from what the store and the log have.
func (m *model) start() (*rig, *stream.Stream) {
	spec := StreamSpec{Resource: "configmaps", LabelSelector: m.selector}
	r := startOf(m.t, m.log, m.store, spec)
	r.env.Client = m.client
	if m.used > 0 { // when a checkpoint was lost some seconds have passed
		r.journal.Exclusive(func() { r.journal.NextResync(m.used) })
	}
	spec.Latest, spec.SkipSnapshot, spec.Filter = m.mode.latest, m.mode.skip, m.mode.filter()
	if m.mode.patches {
		spec.Encoding.Payload = encode.MergePatch
	}
	return r, r.stream(&spec)
}

// session runs a bridge for a while, to the end of what happened if it is the last.
func (m *model) session(last bool) {
	r, s := m.start()
	m.log.set(func() {
		if m.mode.flaky {
			m.log.faults = flaky(m.random.Uint64())
		}
		m.say("the log has %d, the stream is %+v", len(m.log.log), s.Saved)
	})
	if s.Saved.Owes.List != sequence.Repair {
		m.lost = false
	}
	ctx, cancel := context.WithCancel(m.t.Context())
	m.resyncs.Go(func() { s.Resyncer.Run(ctx) })
	sent := m.connect(s)
	for range 3 + m.random.IntN(15) {
		sent = m.watch(r, s, sent)
		if m.mode.resync && m.random.IntN(2) == 0 {
			m.resync(ctx, s)
		}
	}
	switch {
	case last:
		m.finish(r, s, sent)
	case m.random.IntN(2) == 0:
		r.settle()
		m.must(r.journal.Commit(m.t.Context()))
		m.say("stopped at %d", sent)
	default:
		m.say("killed at %d", sent)
	}
	cancel()
	_ = r.stop()
	m.resyncs.Wait()
	select {
	case err := <-r.failure:
		m.t.Errorf("the session ends: %v", err)
	default:
	}
}

// connect has the stream list if it has to, and returns how much of what happened the watch does not show.
func (m *model) connect(s *stream.Stream) (sent int) {
	m.checkServer(s)
	position, _, ok := s.Resume()
	if !ok || s.Lists.Owed() != (reader.Owed{}) || m.random.IntN(4) == 0 { // the latter is a 410
		position = m.list(s, ok)
	}
	s.Status.State(source.Watching, nil)
	return m.after(position)
}

// after returns how much happened up to a version.
func (m *model) after(position string) (sent int) {
	for sent < len(m.events) && !ledger.After(m.events[sent].ResourceVersion, position) {
		sent++
	}
	return sent
}

// checkServer does what the source does before a watch or a list: a server that is older, or has not had what was
// published last, is another one. It may have forgotten the latter.
func (m *model) checkServer(s *stream.Stream) {
	_, known, ok := s.Resume()
	rewound := &source.RewoundError{Stream: s.Name, Position: s.Newest(), Server: fmt.Sprint(m.version)}
	wrong := ledger.After(rewound.Position, rewound.Server)
	if ok && m.random.IntN(2) == 0 {
		var newest source.Ident
		for id := range known {
			if newest.Name == "" || ledger.After(id.ResourceVersion, newest.ResourceVersion) {
				newest = id
			}
		}
		wrong = wrong || newest.Name != "" && !m.had(newest)
	}
	if wrong {
		m.must(s.Epochs.Renew(m.t.Context(), rewound))
		m.say("epoch %d: %v", s.Epoch, rewound)
		m.restored = false
	}
	m.suspect, m.restored = m.suspect || m.restored, false
}

// had reports whether an object had a state.
func (m *model) had(id source.Ident) bool {
	return slices.ContainsFunc(m.events, func(c happened) bool {
		return c.Ident == id && c.Op != source.Deleted && (m.selector == "" || c.labelled)
	})
}

// finish does all that is left to do.
func (m *model) finish(r *rig, s *stream.Stream, sent int) {
	watch := func() {
		for sent < len(m.events) {
			sent = m.show(s, sent)
		}
		r.settle()
	}
	watch()
	if m.suspect { // an audit finds it out
		s.Epochs.Distrust()
		sent = m.after(m.list(s, true))
		watch()
	}
	if m.mode.rewind {
		note(m.t, s, source.Progress{Kind: source.Bookmark, Version: fmt.Sprint(m.version)})
	}
	m.must(r.journal.Commit(m.t.Context()))
	m.awaitResync(s)
	m.must(r.journal.Commit(m.t.Context()))
}

// awaitResync lets a resync that is due come to its end. Meanwhile other resources are written, as bookmarks show.
func (m *model) awaitResync(s *stream.Stream) {
	s.Resyncer.AskIfDue()
	must.Happen(m.t, "the resync that is due\n"+strings.Join(m.trace, "\n"), func() bool {
		select {
		case <-s.Epochs.Again:
			m.list(s, true)
		default:
		}
		m.mu.Lock()
		m.version += 10
		m.mu.Unlock()
		note(m.t, s, source.Progress{Kind: source.Bookmark, Version: fmt.Sprint(m.version)})
		s.Mu.Lock()
		defer s.Mu.Unlock()
		return !s.Saved.ResyncDue
	})
}

// resync publishes again, while everything goes on, what a list has shown that was made at any time, or all that
// exists.
func (m *model) resync(ctx context.Context, s *stream.Stream) {
	if m.random.IntN(3) == 0 {
		s.Resyncer.Resync.Ask(time.Now())
		return
	}
	m.number++
	number := m.number
	for _, c := range m.events[m.random.IntN(len(m.events)):] {
		if c.Op == source.Deleted {
			continue
		}
		content := testContent{c}
		m.resyncs.Go(func() { _, _ = s.Resyncer.RepublishOne(ctx, c.Ident, content, number, rate.NewLimiter(rate.Inf, 1)) })
	}
}

// watch lets something happen, shows the bridge something, and lets it get on.
func (m *model) watch(r *rig, s *stream.Stream, sent int) int {
	if m.random.IntN(2) == 0 {
		m.change()
	}
	if m.mode.restore && m.random.IntN(40) == 0 {
		shown := m.events[max(sent-1, 0)].ResourceVersion
		m.restore(1 + m.random.IntN(len(m.events)))
		if ledger.After(shown, fmt.Sprint(m.version)) || ledger.After(s.Newest(), fmt.Sprint(m.version)) ||
			m.random.IntN(2) == 0 {
			r.settle()
			sent = m.connect(s)
		} else {
			sent, m.suspect, m.restored = m.after(shown), true, false
		}
	}
	if sent < len(m.events) {
		sent = m.show(s, sent)
	}
	switch m.random.IntN(5) {
	case 0:
		r.settle()
	case 1:
		m.must(r.journal.Commit(m.t.Context()))
		if m.mode.backup && m.random.IntN(2) == 0 {
			m.backups = append(m.backups, *must.Get(m.store.Load(m.t.Context()))(m.t))
		}
	case 2:
		if sent == len(m.events) {
			note(m.t, s, source.Progress{Kind: source.Bookmark, Version: fmt.Sprint(m.version)})
		}
	}
	if m.random.IntN(8) == 0 {
		m.consume()
	}
	return sent
}

// show shows a stream the next thing that happened. It lists where that is asked for.
func (m *model) show(s *stream.Stream, sent int) int {
	c := m.events[sent]
	switch {
	case m.selector == "":
		m.send(s, c, source.ReasonWatch)
	case c.Op == source.Deleted:
		if c.was {
			m.send(s, c, source.ReasonWatch)
		}
	case c.labelled:
		c.Op = source.Updated
		m.send(s, c, source.ReasonWatch)
	case c.was:
		c.Op = source.Deleted
		m.send(s, c, source.ReasonWatch)
	}
	select {
	case why := <-s.Epochs.Again:
		m.say("a list is asked for: %s", why.Message)
		return m.after(m.list(s, true))
	default:
		return sent + 1
	}
}

func (m *model) send(s *stream.Stream, c happened, reason source.Reason) {
	body, at := c.body(), c.ResourceVersion
	if reason != source.ReasonWatch {
		at = ""
	}
	ticket := must.Get(s.Admit(m.t.Context(), at, len(body)))(m.t)
	s.Deliver(source.Change{
		Op: c.Op, Ident: c.Ident, Body: source.NewBody(body), Reason: reason, Listed: at == "", Seen: time.Now(),
		Ticket: ticket, Size: len(body),
	})
}

// list lists what exists, behind a gap if the stream could be resumed, and again where the list does not compare.
func (m *model) list(s *stream.Stream, gap bool) (version string) {
	why := source.Why{Cause: source.CauseExpired, Message: "compacted"}
	if owed := s.Lists.Owed(); owed != (reader.Owed{}) {
		why = owed.Why
	}
	for {
		m.checkServer(s)
		if _, _, ok := s.Resume(); !ok {
			gap = false
		}
		kind := source.SnapshotStarted
		if gap {
			kind = source.Gap
		}
		version = fmt.Sprint(m.version)
		err := m.listOnce(s, source.Progress{Kind: kind, Version: version, Why: why})
		var rewound *source.RewoundError
		if !errors.As(err, &rewound) {
			m.must(err)
			m.say("listed at %s", version)
			return version
		}
		m.must(s.Epochs.Renew(m.t.Context(), rewound))
		m.say("epoch %d: %v", s.Epoch, rewound)
	}
}

// listOnce lists. Meanwhile changes go on, which a watch shows afterwards.
func (m *model) listOnce(s *stream.Stream, begin source.Progress) error {
	ctx := must.Within(m.t, time.Minute)
	begin.Seen = time.Now()
	if err := s.Note(ctx, begin); err != nil {
		return err
	}
	all := m.selected(m.selector)
	for _, c := range all {
		c.Op = source.Added
		m.send(s, c, source.ReasonRelist)
		if m.random.IntN(10) == 0 {
			m.change()
		}
	}
	return s.Note(ctx, source.Progress{Kind: source.Listed, Version: begin.Version, Objects: len(all), Seen: time.Now()})
}

func (m *model) must(err error) {
	m.t.Helper()
	require.NoError(m.t, err, strings.Join(m.trace, "\n"))
}

// consume has consumers read on.
func (m *model) consume() {
	n := 0
	m.log.set(func() { n = len(m.log.log) })
	for _, c := range m.consumers {
		if m.random.IntN(4) == 0 {
			c.again(m.random)
		}
		if n > c.next {
			c.read(m.log.fakeLog, c.next+1+m.random.IntN(n-c.next))
		}
		if m.random.IntN(3) == 0 {
			c.acknowledge(m.random)
		}
	}
	if len(m.consumers) < 4 && m.random.IntN(4) == 0 { // it reads on at the end
		m.consumers = append(m.consumers, m.consumers[m.random.IntN(2)].clone())
	}
}

// disaster happens while no bridge runs.
func (m *model) disaster() {
	if m.mode.restore && m.random.IntN(3) == 0 {
		m.restore(1 + m.random.IntN(len(m.events)))
	}
	if m.random.IntN(2) == 0 {
		m.log.forgetIDs()
	}
	if m.mode.selection && m.random.IntN(2) == 0 {
		m.selector = []string{"", "a=b"}[m.random.IntN(2)]
		m.say("selected is %q", m.selector)
	}
	if m.mode.rewind && m.random.IntN(2) == 0 {
		m.rewind()
	}
	switch {
	case m.mode.trim && m.random.IntN(2) == 0:
		m.trim()
	case m.mode.backup:
		m.loseCheckpoint()
	case m.random.IntN(2) == 0:
		m.loseLog()
	}
}

func (m *model) loseCheckpoint() {
	m.used = max(m.used, m.store.state.Log.Resyncs)
	switch n := m.random.IntN(4); {
	case n == 0:
		m.store.state = checkpoint.State{}
		m.say("the checkpoint is lost")
	case n < 3 && len(m.backups) > 0:
		m.store.state = m.backups[m.random.IntN(len(m.backups))]
		m.store.state = *must.Get(m.store.Load(m.t.Context()))(m.t) // a copy
		m.say("the checkpoint is an older one: %+v", m.store.state)
	}
}

// loseLog cuts the log, unless a consumer has read what may get lost although it was not committed.
func (m *model) loseLog() {
	n := m.random.IntN(len(m.log.log) + 1)
	if m.random.IntN(2) == 0 {
		n = len(m.log.log) - m.random.IntN(min(4, len(m.log.log)+1))
	}
	mark := int(m.store.state.Log.Marks[0])
	unsafe := func(c *consumer) bool { return c.next > mark }
	if m.mode.complete() && slices.ContainsFunc(m.consumers, unsafe) || n < m.log.first || m.lost {
		return
	}
	m.log.lose(n)
	m.lost = n < mark
	for _, c := range m.consumers {
		c.cut(n)
	}
	m.say("the log loses all after %d", n)
}

// trim has the log lose what all consumers have acknowledged and the checkpoint covers.
func (m *model) trim() {
	low := int(m.store.state.Log.Marks[0])
	for _, c := range m.consumers {
		low = min(low, c.floor())
	}
	for _, saved := range m.store.state.Streams {
		if saved.Owes.List != sequence.Nothing || saved.ResyncDue {
			return
		}
	}
	if low > m.log.first {
		m.log.trim(m.log.first + 1 + m.random.IntN(low-m.log.first))
		m.log.forgetIDs()
		m.say("the log begins at %d", m.log.first)
	}
}

// rewind is what the command does.
func (m *model) rewind() {
	for name, saved := range m.store.state.Streams {
		position := ledger.Numeric(saved.Position)
		first := saved.Owes.List != sequence.Nothing || saved.Unannounced != (checkpoint.Snapshot{})
		if first || position <= 10 || m.restored || m.suspect { // docs/events.md wants an audit before
			continue
		}
		to := max(position, ledger.Numeric(saved.Replay.To))
		for _, row := range m.store.state.Rows[name] {
			if row.Epoch >= saved.Since {
				to = max(to, row.Version)
			}
		}
		m.store.state.Log.Resyncs = max(m.store.state.Log.Resyncs+1, time.Now().Unix())
		saved.Replay = checkpoint.Replay{To: fmt.Sprint(to), Number: m.store.state.Log.Resyncs}
		saved.Position = fmt.Sprint(10 + m.random.Uint64N(position-10))
		m.store.state.Streams[name] = saved
		m.say("rewound to %s: %+v", saved.Position, saved.Replay)
	}
}

// restore takes back all but the first n events. Versions may go on from a later one.
func (m *model) restore(n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.events = m.events[:n:n]
	m.live = map[string]happened{}
	for _, c := range m.events {
		m.happened(c)
		_, _ = fmt.Sscan(c.ResourceVersion, &m.version)
	}
	m.restored = true
	m.histories++
	if m.random.IntN(2) == 0 {
		m.version += m.random.IntN(30)
	}
	m.say("etcd is restored to %d, as of %s", m.version, m.events[n-1].ResourceVersion)
}

// check compares the log with what exists, and returns what is wrong.
func (m *model) check() (bad string) {
	alive, newest, last, ids := map[string]string{}, map[string]string{}, map[string]string{}, map[string]bool{}
	for i := range m.log.log {
		e := &m.log.log[i]
		name, uid := attribute(e, "name"), attribute(e, "objectuid")
		at, again, deleted := attribute(e, "sequence"), strings.Contains(e.ID, ".r"), typeOf(e) == "deleted"
		twice := ids[e.ID] && !m.suspect
		// A rewind that a lost checkpoint cuts short leaves an older state as the log's last one. Its end comes again.
		endsAgain := m.mode.rewind && deleted && attribute(e, "reason") == "relist"
		switch { // a rewind goes on from what was committed; nothing may have changed since another gap
		case again && name != "" && m.mode.rewind, typeOf(e) == "gap", endsAgain:
		case twice:
			return "id twice: " + e.ID
		}
		ids[e.ID] = true
		if name != "" && strings.Trim(at[:min(len(at), 10)], "0") == "" {
			return fmt.Sprintf("%s has no epoch: %s", e.ID, at)
		}
		if name == "" {
			continue
		}
		before := last[name]
		if last[name] = at; m.mode.rewind && (again || deleted && before < newest[name] && before < at) && at < newest[name] {
			if deleted && strings.HasPrefix(alive[name], uid+" ") && !again {
				delete(alive, name)
			}
			continue // what a rewind told again, or the end of that, where the log has lost the rest of it
		}
		if newest[name] > at || newest[name] == at && !again {
			return fmt.Sprintf("%s at %s stands behind %s", name, at, newest[name])
		}
		newest[name] = at
		replaced := alive[name] != "" && !strings.HasPrefix(alive[name], uid+" ") && !deleted
		if was := alive[name]; replaced && m.mode.complete() && !m.mode.rewind && !m.mode.trim {
			return fmt.Sprintf("%s is %s at %s, and %s has no end", name, uid, at, was)
		}
		alive[name] = m.mode.said(uid, attribute(e, "resourceversion"))
		if deleted {
			delete(alive, name)
		}
	}
	if m.mode.rewind { // a repair leaves it to its markers that an object is gone: judge has consumers that read them
		return ""
	}
	exists := map[string]bool{}
	for _, c := range m.selected(m.selector) {
		exists[c.Name] = true
		if alive[c.Name] != m.mode.said(c.UID, c.ResourceVersion) && (!m.mode.skip || alive[c.Name] != "") {
			return fmt.Sprintf("%s is %q in the log, and exists as %s %s", c.Name, alive[c.Name], c.UID, c.ResourceVersion)
		}
	}
	for name := range alive {
		if !exists[name] {
			return fmt.Sprintf("%s is alive in the log as %s, and does not exist", name, alive[name])
		}
	}
	return ""
}

// judge compares what consumers hold with what exists.
func (m *model) judge() (bad string) {
	exists := map[string]any{}
	for _, c := range m.selected(m.selector) {
		var object map[string]any
		m.must(json.Unmarshal(c.body(), &object))
		delete(object["metadata"].(map[string]any), "managedFields")
		exists["test/core/configmaps/default/"+c.Name] = object
	}
	all := m.consumers
	if m.log.first <= 1 {
		all = append(all, newConsumer("fresh", false), newConsumer("fresh >=", true))
	}
	for _, c := range all {
		c.read(m.log.fakeLog, len(m.log.log))
		if bad := c.wrong(exists); bad != "" {
			return fmt.Sprintf("consumer %s: %s", c.name, bad)
		}
	}
	return ""
}

// testContent is that of an object.
type testContent struct{ happened }

func (testContent) Size() int { return 100 }

func (c testContent) Bytes() []byte { return c.body() }

func (c testContent) Body() *source.Body { return source.NewBody(c.body()) }

func contentOf(id source.Ident) testContent {
	return testContent{happened{Change: source.Change{Ident: id}}}
}
