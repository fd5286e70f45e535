// SPDX-License-Identifier: Apache-2.0

package sequence_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/kube-eventbridge/kube-eventbridge/internal/sequence"
	"github.com/kube-eventbridge/kube-eventbridge/internal/testtier"
)

// features are what may happen in one run.
type features struct {
	kafka, restore, reinstall, selection, labels, lostCheckpoint, backup, lostLog, trim, compact bool
	patches, rejects, latest, rewind, resync, zombie, falseAlarm, crash                          bool
}

func drawFeatures(r *rand.Rand) (f features) {
	rare := 2
	if r.IntN(2) == 0 {
		rare = 5 // few features leave more steps to each
	}
	for _, on := range []*bool{
		&f.kafka, &f.restore, &f.selection, &f.labels, &f.lostCheckpoint, &f.backup, &f.lostLog, &f.trim, &f.compact,
		&f.patches, &f.rejects, &f.latest, &f.rewind, &f.resync, &f.zombie, &f.crash,
	} {
		*on = r.IntN(rare) == 0
	}
	f.reinstall, f.falseAlarm = f.restore && r.IntN(4) == 0, r.IntN(8) == 0
	f.compact = f.compact && f.kafka && !f.patches
	return f
}

// model is a cluster, a log, bridges and consumers.
type model struct {
	r          *rand.Rand
	f          features
	api        *server
	log        *topic
	stored     *checkpoint
	backups    []*checkpoint
	up, old    *bridge // old is one that another has replaced, and that does not know it yet
	late       []*flight
	term       int
	now        int64
	selection  int
	consumers  []*consumer
	crashing   bool
	tolerant   bool
	incomplete bool // the last resync left out an object that the broker refuses
	undone     bool // a restore or reinstallation needs an audit

	trace  []string
	failed string

	// What is checked of the log.
	top    map[string]sequence.Sequence
	prev   map[string]*entry
	states map[string]uint64 // epoch of the event of a state
	ids    map[string]bool
	sinces []uint64
	gaps   [][2]uint64
}

type crashed struct{}

func newModel(seed uint64) *model {
	r := rand.New(rand.NewPCG(seed, 18))
	m := &model{
		r: r, f: drawFeatures(r), api: newServer(), now: 1000, top: map[string]sequence.Sequence{}, prev: map[string]*entry{},
		states: map[string]uint64{}, ids: map[string]bool{},
	}
	partitions := 1
	if m.f.kafka {
		partitions += r.IntN(3)
	}
	m.log = newTopic(m.f.kafka, partitions)
	m.consumers = []*consumer{newConsumer("held", false, m.log), newConsumer("held >=", true, m.log)}
	m.selection = []int{0, 1, 3, 5}[r.IntN(4)]
	return m
}

func (m *model) tracef(format string, args ...any) {
	m.trace = append(m.trace, fmt.Sprintf(format, args...))
}

func (m *model) failf(format string, args ...any) {
	if m.failed == "" {
		m.failed = fmt.Sprintf(format, args...)
		m.tracef("FAILED: %s", m.failed)
	}
}

func (m *model) mayCrash() {
	if m.crashing && m.f.crash && m.r.IntN(25) == 0 {
		panic(crashed{})
	}
}

// guard runs a step of a bridge, which may crash within it.
func (m *model) guard(b *bridge, step func()) {
	defer func() {
		if r := recover(); r == (crashed{}) {
			m.kill(b)
		} else if r != nil {
			panic(fmt.Sprintf("%v\n%s", r, strings.Join(m.trace, "\n")))
		}
	}()
	step()
}

// kill ends a process. Messages that it has sent may arrive, now or, on NATS, later.
func (m *model) kill(b *bridge) {
	m.tracef("CRASH of %d", b.term)
	for _, key := range slices.Sorted(maps.Keys(b.sent)) {
		f := b.sent[key]
		switch {
		case f.landed || m.r.IntN(2) == 0:
		case m.f.zombie && !m.log.kafka:
			m.late = append(m.late, f)
		default:
			m.land(f, b.term == m.term)
		}
	}
	if m.up == b {
		m.up = nil
	}
	if m.old == b {
		m.old = nil
	}
}

func (m *model) boot() {
	m.term++
	b := &bridge{
		m: m, term: m.term, queue: map[string][]*change{}, sent: map[string]*flight{}, base: map[string]uint64{},
	}
	m.up = b
	m.guard(b, b.start)
}

// check is what holds of each message as it reaches the log.
func (m *model) check(e *entry) {
	if e.again {
		if top := m.top[e.key]; e.seq.After(top) {
			m.top[e.key], m.prev[e.key] = e.seq, e
		}
		return
	}
	if top, ok := m.top[e.key]; ok && !e.seq.After(top) && !m.log.trimmed {
		m.failf("P4: %s has %v after %v", e.key, e.seq, top)
	}
	m.top[e.key] = e.seq
	if p := m.prev[e.key]; e.kind != "end" && p != nil && p.kind != "end" && p.uid != e.uid && !m.log.trimmed {
		m.failf("P2: %s is %s, and %s has no end", e.key, e.uid, p.uid)
	}
	m.prev[e.key] = e
	if m.ids[e.id] && !m.undone && !m.log.trimmed {
		m.failf("P5: id %s comes twice", e.id)
	}
	m.ids[e.id] = true
	if e.kind == "end" && m.api.objects[e.key].uid == e.uid { // it may be selected again
		maps.DeleteFunc(m.states, func(state string, _ uint64) bool { return strings.HasPrefix(state, e.uid+" ") })
	}
	if e.kind == "end" || m.log.trimmed || m.undone || m.f.zombie && !m.log.kafka {
		return
	}
	state := fmt.Sprintf("%s at %d: %d", e.uid, e.seq.Version, e.content)
	if epoch, ok := m.states[state]; ok &&
		!slices.ContainsFunc(m.sinces, func(n uint64) bool { return epoch < n && n <= e.seq.Epoch }) {
		m.failf("P5: the state %s comes at %d and %v", state, epoch, e.seq)
	}
	m.states[state] = e.seq.Epoch
}

func (m *model) step() {
	m.now += int64(m.r.IntN(2))
	for _, f := range m.late {
		if m.r.IntN(6) == 0 {
			m.arrive(f)
			break
		}
	}
	if b := m.old; b != nil && m.r.IntN(3) == 0 {
		m.guard(b, func() { m.bridgeStep(b) })
	}
	switch x := m.r.IntN(100); {
	case x < 18:
		m.write()
	case x < 20:
		m.api.version++
	case x < 23:
		m.api.compacted = m.api.version
	case x < 26 && m.f.restore:
		m.restore()
	case x < 36:
		m.consume()
	case x < 40 && m.f.compact:
		p := m.r.IntN(len(m.log.partitions))
		m.log.compact(p, m.r.IntN(len(m.log.partitions[p])+1))
	case m.up == nil:
		m.down()
	case x < 42:
		m.kill(m.up)
	case x < 44 && m.f.zombie && m.old == nil:
		m.old, m.up = m.up, nil
	case x < 46 && m.f.lostLog:
		m.loseLog()
	case x < 48 && m.f.trim:
		m.trim()
	case x < 50 && m.f.selection && !m.log.trimmed: // a reload does not wait for what is on its way
		m.kill(m.up)
		m.choose()
		m.boot()
	default:
		m.guard(m.up, func() { m.bridgeStep(m.up) })
	}
}

func (m *model) arrive(f *flight) {
	m.late = slices.DeleteFunc(m.late, func(o *flight) bool { return o == f })
	m.land(f, false)
}

func (m *model) write() {
	key := names[m.r.IntN(len(names))]
	_, exists := m.api.objects[key]
	labelled := !m.f.labels || m.r.IntN(5) < 3
	if exists && m.r.IntN(2) == 0 {
		m.tracef("api %+v", m.api.remove(key))
		if m.r.IntN(3) > 0 {
			return
		}
	}
	m.tracef("api %+v", m.api.put(key, labelled))
}

func (m *model) restore() {
	if m.f.reinstall && m.r.IntN(2) == 0 {
		m.api.reinstall()
	} else if m.api.version > 4 {
		to := max(3, m.api.version-1-uint64(m.r.IntN(6)))
		m.api.restore(min(to, m.api.version-1))
	}
	if m.r.IntN(2) == 0 {
		m.api.compacted = m.api.version
	}
	m.undone = true
	m.tracef("RESTORE to %d", m.api.version)
	for _, b := range []*bridge{m.up, m.old} {
		if b != nil {
			for _, s := range b.streams {
				s.broken = true
			}
		}
	}
}

func (m *model) consume() {
	for _, c := range m.consumers {
		if m.r.IntN(4) == 0 {
			c.again(m.r)
		}
		p := m.r.IntN(len(m.log.partitions))
		if n := len(m.log.partitions[p]); n > c.next[p] {
			c.read(m.log, p, c.next[p]+1+m.r.IntN(n-c.next[p]))
		}
		if m.r.IntN(3) == 0 {
			c.acknowledge(m.r)
		}
	}
	if len(m.consumers) < 4 && m.r.IntN(8) == 0 { // it sleeps until the end
		c := m.consumers[m.r.IntN(2)].clone()
		c.name += " since"
		m.consumers = append(m.consumers, c)
	}
}

// steady reports whether the selection is in force: retention may remove what is older.
func (m *model) steady() bool {
	if m.stored == nil || m.stored.resync || len(m.stored.retiring) > 0 ||
		len(m.stored.streams) != len(selections[m.selection]) {
		return false
	}
	for _, s := range selections[m.selection] {
		if _, ok := m.stored.streams[s]; !ok {
			return false
		}
	}
	return true
}

func (m *model) trim() {
	if m.log.lost || !m.steady() || m.up.repair || len(m.up.leaving) > 0 {
		return
	}
	p := m.r.IntN(len(m.log.partitions))
	low := len(m.log.partitions[p])
	for _, c := range m.consumers {
		low = min(low, c.floor(p))
	}
	if low > m.log.start[p] {
		m.log.start[p] += 1 + m.r.IntN(low-m.log.start[p])
		m.log.trimmed, m.backups = true, nil
		m.tracef("RETENTION %v", m.log.start)
	}
}

// loseLog cuts the log behind a mark of the checkpoint. The sink finds out, and the session ends.
func (m *model) loseLog() {
	p := m.r.IntN(len(m.log.partitions))
	if m.stored == nil || m.stored.marks[p] <= m.log.start[p] || m.log.lost {
		return
	}
	for _, c := range m.consumers { // P9 does not cover messages that are lost, read, and not committed
		if c.next[p] > m.stored.marks[p] {
			return
		}
	}
	to := max(m.log.start[p], m.stored.marks[p]-1-m.r.IntN(4))
	m.log.partitions[p] = m.log.partitions[p][:to]
	m.log.lost, m.log.ids, m.late, m.old = true, nil, nil, nil
	m.tracef("LOG LOST: %d ends at %d", p, to)
	m.up.sent = nil
	m.kill(m.up)
	m.late = nil
	m.top, m.prev = map[string]sequence.Sequence{}, map[string]*entry{}
	clear(m.ids)
	clear(m.states)
	for _, entries := range m.log.partitions {
		for _, e := range entries {
			if e != nil && e.key != "" && !e.again {
				m.top[e.key], m.prev[e.key] = e.seq, e
			}
		}
	}
	for _, c := range m.consumers {
		c.next[p] = min(c.next[p], to)
		clear(c.told[p])
		maps.DeleteFunc(c.open[p], func(at int, _ *entry) bool { return at >= to })
		for key, h := range c.held {
			if h.partition == p && h.offset >= to {
				copied := *h.entry
				copied.offset = to - 1
				c.held[key] = held{&copied}
			}
		}
	}
}

// down is a step while no bridge runs.
func (m *model) down() {
	switch x := m.r.IntN(100); {
	case x < 20 && m.f.selection && !m.log.trimmed:
		m.choose()
	case x < 28 && m.f.lostCheckpoint && !m.log.lost && (!m.log.trimmed || m.steady()):
		m.stored, m.now = nil, m.now+20
		m.tracef("CHECKPOINT LOST")
	case x < 36 && m.f.backup && !m.log.lost && len(m.backups) > 0:
		m.stored, m.now = m.backups[m.r.IntN(len(m.backups))].clone(), m.now+20
		m.tracef("OLD CHECKPOINT %v marks %v", m.stored.streams, m.stored.marks)
	case x < 46 && m.f.rewind && m.stored != nil:
		m.rewind()
	case x < 70:
	default:
		m.boot()
	}
}

// choose selects something else.
func (m *model) choose() {
	m.selection = m.r.IntN(len(selections))
	m.tracef("SELECTION %v", selections[m.selection])
}

// rewind is the command: it changes a stored position.
func (m *model) rewind() {
	for _, s := range slices.SortedFunc(maps.Keys(m.stored.streams), bySpec) {
		at := m.stored.streams[s]
		if at.Owes != sequence.Nothing || at.Position <= m.api.compacted {
			continue
		}
		to := at.Position
		for key, r := range m.stored.rows {
			if s.has(key) {
				to = max(to, r.Version)
			}
		}
		at.Rewound, at.Floors = max(at.Rewound, to), nil
		at.Position -= 1 + m.r.Uint64N(at.Position-m.api.compacted)
		m.stored.streams[s] = at
		m.tracef("REWIND %v to %d, up to %d", s, at.Position, at.Rewound)
	}
	m.stored.resyncs++
}

func (m *model) bridgeStep(b *bridge) {
	r := m.r
	key := names[r.IntN(len(names))]
	var s *stream
	if len(b.streams) > 0 {
		s = b.streams[r.IntN(len(b.streams))]
	}
	switch x := r.IntN(100); {
	case x < 10:
		b.commit()
	case x < 30:
		b.send(key)
	case x < 45:
		if f := b.sent[key]; f != nil && !f.landed {
			m.land(f, b.term == m.term)
		}
	case x < 60:
		if f := b.sent[key]; f != nil && f.landed {
			b.acknowledged(key)
		}
	case x < 63 && b.pending[key]:
		b.retry(key)
	case x < 66 && m.f.resync && s != nil:
		b.resync(s)
	case x < 67 && m.f.falseAlarm && s != nil && !b.repair:
		b.incomparable(s, "false alarm")
	case x < 68 && s != nil:
		b.audit(s)
	case s != nil:
		b.work(s)
	}
	b.afterRepair()
}

// work does what a stream has to do next.
func (b *bridge) work(s *stream) {
	switch {
	case s.listing:
		b.finish(s)
	case s.Owes != sequence.Nothing:
		b.list(s)
	case s.broken:
		b.connect(s)
	default:
		b.watch(s)
	}
}

// audit compares what exists with the rows.
func (b *bridge) audit(s *stream) {
	if s.Owes != sequence.Nothing || s.listing || s.broken || b.busy(s.spec) || s.read != b.m.api.version ||
		b.running != nil {
		return
	}
	s.Position, s.Owes = s.position(), sequence.Relist
}

// afterRepair applies the configured selection when the log is repaired.
func (b *bridge) afterRepair() {
	if !b.repair || slices.ContainsFunc(b.streams, func(s *stream) bool {
		return s.listing || s.Owes != sequence.Nothing || len(s.open) > 0
	}) || len(b.queue)+len(b.sent) > 0 {
		return
	}
	b.commit()
	b.repair = false
	stored := map[spec]sequence.Stream{}
	for _, s := range b.streams {
		stored[s.spec] = s.stored()
	}
	b.configure(stored, nil)
}

// settle has everything done that is left to do; false if that does not end.
func (m *model) settle(b *bridge) bool {
	for range 2000 {
		idle := true
		for _, key := range names {
			if b.busyKey(key) {
				idle = false
				b.send(key)
				if f := b.sent[key]; f != nil {
					if !f.landed {
						m.land(f, true)
					}
					b.acknowledged(key)
				}
			}
		}
		for _, s := range b.streams {
			_, more := m.api.next(s.read)
			if s.listing || s.Owes != sequence.Nothing || s.broken || more || s.read < m.api.version {
				idle = false
				b.work(s)
			}
		}
		if idle && !m.log.kafka && b.heard < len(m.log.partitions[0]) {
			b.commit()
			idle = false
		}
		if idle && b.running != nil {
			b.resync(b.running.stream)
			idle = false
		}
		if b.repair {
			b.afterRepair()
		} else if idle {
			return true
		}
	}
	return false
}

// finish ends the faults, and checks that the truth is told.
func (m *model) finish() {
	m.tracef("QUIET")
	m.crashing = false
	for len(m.late) > 0 {
		m.arrive(m.late[0])
	}
	if m.old != nil {
		m.kill(m.old)
	}
	for len(m.late) > 0 {
		m.arrive(m.late[0])
	}
	m.tolerant = m.r.IntN(2) == 0
	if m.up == nil {
		m.boot()
	}
	b := m.up
	settled := func(what string) {
		if m.failed == "" && !m.settle(b) {
			m.failf("does not settle: %s", what)
		}
	}
	settled("start")
	if m.undone {
		for _, s := range b.streams {
			b.audit(s)
		}
		settled("audit")
	}
	if m.tolerant {
		for _, key := range names {
			if b.pending[key] {
				b.retry(key)
			}
		}
		settled("retry")
	}
	if b.owed && m.failed == "" {
		for _, s := range b.streams {
			m.incomplete = false
			b.resync(s)
			if settled("resync"); m.incomplete {
				return // the sweep has to wait until the broker takes the object
			}
		}
	}
	if m.failed == "" {
		b.commit()
		m.judge(b)
	}
}

// judge compares what consumers hold with what exists.
func (m *model) judge(b *bridge) {
	want := map[string]known{}
	for _, s := range selections[m.selection] {
		for key, o := range m.api.list(s) {
			want[key] = known{o.uid, o.content}
		}
	}
	consumers := m.consumers
	for _, atEqual := range []bool{false, true} {
		if !m.log.trimmed {
			consumers = append(consumers, newConsumer("fresh", atEqual, m.log))
		}
	}
	for _, c := range consumers {
		for p := range m.log.partitions {
			c.read(m.log, p, len(m.log.partitions[p]))
		}
		if c.failed != "" && !m.f.lostLog {
			m.failf("%s: %s", c.name, c.failed)
		}
		if got := c.state(); !m.same(got, want, b) {
			m.failf("P9: %s (>= %t) has %v, want %v", c.name, c.atEqual, got, want)
		}
	}
	for _, key := range names {
		if e := m.log.last(key); e != nil && b.rows[key].UID != "" && e.seq != b.rows[key].Sequence {
			m.failf("P4: the last message of %s is %v, the newest %v", key, e.seq, b.rows[key].Sequence)
		}
	}
	m.everyDelta()
}

func (m *model) same(got, want map[string]known, b *bridge) bool {
	for _, key := range names {
		g, w := got[key], want[key]
		if b.pending[key] {
			continue
		}
		if g.uid != w.uid || g.content != w.content && (g.content != 0 || !m.f.rejects) {
			return false
		}
	}
	return true
}

// everyDelta checks P3 where the server's history and the log are whole: each write is in the log or in a gap.
func (m *model) everyDelta() {
	f := m.f
	if f.restore || f.selection || f.labels || f.lostCheckpoint || f.backup || f.lostLog || f.latest || f.rejects ||
		f.falseAlarm || f.compact || m.selection != 0 && m.selection != 1 {
		return
	}
	told := map[string]bool{}
	for _, entries := range m.log.partitions {
		for _, e := range entries {
			told[fmt.Sprint(e.uid, e.seq.Version, e.seq.Step)] = true
		}
	}
	for _, w := range m.api.writes {
		step := 0
		if w.deleted {
			step = 1
		}
		in := slices.ContainsFunc(m.gaps, func(g [2]uint64) bool { return g[0] < w.version && w.version <= g[1] })
		if !in && !told[fmt.Sprint(w.uid, w.version, step)] && w.version > m.first() {
			m.failf("P3: %+v is neither in the log nor in a gap", w)
		}
	}
}

// first returns the version of the last list that was not one after a gap: a snapshot that a crash cuts short
// begins again.
func (m *model) first() (version uint64) {
	for _, line := range m.trace {
		if at := strings.Index(line, " owes 2 at "); at >= 0 {
			_, _ = fmt.Sscanf(line[at:], " owes 2 at %d", &version)
		}
	}
	return version
}

func runModel(seed uint64) *model {
	m := newModel(seed)
	m.boot()
	m.crashing = true
	for range 10 + m.r.IntN(120) {
		m.step()
	}
	m.finish()
	return m
}

// A run is a random history of a cluster, of bridges and of consumers; each check is named by its promise.
func TestModel_keeps_the_promises(t *testing.T) {
	runs := testtier.Rounds(4_000, 20_000, 300_000)
	worst, failed := explore(1, runs)
	if worst != nil {
		t.Fatalf("%v of %d runs fail, this is the shortest:\n%s", failed, runs, strings.Join(worst.trace, "\n"))
	}
}

// explore returns the shortest run that fails, and how many fail by promise.
func explore(first uint64, runs int) (worst *model, failed map[string]int) {
	failed = map[string]int{}
	for seed := first; seed < first+uint64(runs); seed++ {
		m := runModel(seed)
		if m.failed == "" {
			continue
		}
		failed[m.failed[:2]]++
		m.tracef("seed %d, features %+v", seed, m.f)
		if worst == nil || len(m.trace) < len(worst.trace) {
			worst = m
		}
	}
	return worst, failed
}
