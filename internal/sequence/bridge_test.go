// SPDX-License-Identifier: Apache-2.0

package sequence_test

import (
	"maps"
	"slices"
	"time"

	"github.com/kube-eventbridge/kube-eventbridge/internal/sequence"
)

// row is a ledger's, with the place of the log's last message of the object; -1 is none.
type row struct {
	sequence.Row
	place int
	owner spec
}

// checkpoint is what a bridge has stored.
type checkpoint struct {
	given    uint64
	streams  map[spec]sequence.Stream
	retiring map[spec]sequence.Stream
	rows     map[string]row
	pending  map[string]bool
	marks    []int
	ids      []string // of the messages at the marks
	resyncs  int
	resync   bool // one is owed
}

func (c *checkpoint) clone() *checkpoint {
	d := *c
	d.streams, d.retiring = maps.Clone(c.streams), maps.Clone(c.retiring)
	d.rows, d.pending = maps.Clone(c.rows), maps.Clone(c.pending)
	return &d
}

// stream is a running one.
type stream struct {
	sequence.Stream
	spec    spec
	read    uint64 // version that the watch has shown
	broken  bool
	listing bool // the list is read, and not acknowledged
	listed  sequence.Owes
	bracket int // number of the resync markers of a repair; 0: not begun
	open    map[*change]bool
}

// position is one up to which everything is in the log.
func (s *stream) position() uint64 {
	if s.Owes != sequence.Nothing || s.listing {
		return s.Position
	}
	p := s.read
	for c := range s.open {
		if c.version > 0 {
			p = min(p, c.version-1)
		}
	}
	return p
}

// stored is what a commit has of the stream.
func (s *stream) stored() sequence.Stream {
	at := s.Stream
	at.Position = s.position()
	if s.listing {
		at.Owes = max(at.Owes, s.listed)
	}
	at.Floors = slices.DeleteFunc(slices.Clone(at.Floors), func(f sequence.Floor) bool {
		return f.Position <= at.Position
	})
	if at.Rewound <= at.Position {
		at.Rewound = 0
	}
	return at
}

// change is one event on its way.
type change struct {
	sequence.Event
	key      string
	stream   *stream // nil for ends of objects that no stream has any more
	version  uint64  // of the watch event; 0: a list's
	listed   bool
	resync   bool
	content  uint64
	labelled bool
	count    int
	n        int
}

// flight is a message that is sent and not acknowledged.
type flight struct {
	*change
	entry  *entry
	from   int // how long the partition was when it was sent
	expect int // place of the last message of the object
	landed bool
	failed bool // the check of the last message, or of the id, failed
	twice  bool // the broker took it for a duplicate
	fenced bool
}

// resync is a requested one that runs beside the watch.
type resync struct {
	n        int
	stream   *stream
	listed   bool
	version  uint64
	complete bool
	open     map[*change]bool
}

type bridge struct {
	m        *model
	term     int
	given    uint64
	rows     map[string]row
	streams  []*stream
	retiring map[spec]sequence.Stream
	queue    map[string][]*change
	sent     map[string]*flight
	base     map[string]uint64 // version of the state that a patch may start from
	pending  map[string]bool
	resyncs  int
	owed     bool // a resync
	running  *resync
	repair   bool // the selection of the checkpoint holds until the log is repaired
	leaving  map[*change]bool
	heard    int // offset up to which other writers' messages are known
}

func (b *bridge) number() uint64 {
	b.given = sequence.NextEpoch(b.given, 0, time.Unix(b.m.now, 0))
	b.m.tracef("number %d", b.given)
	return b.given
}

// start reads checkpoint and log, and decides which streams run.
func (b *bridge) start() {
	d, m := b.m.stored, b.m
	lost := d == nil
	if lost {
		d = &checkpoint{rows: map[string]row{}, pending: map[string]bool{}}
	}
	d = d.clone()
	b.rows, b.pending, b.resyncs, b.owed, b.given = d.rows, d.pending, d.resyncs, d.resync, d.given
	found := b.find(d, !lost)
	b.leaving = map[*change]bool{}
	how := found.Decide()
	if how == sequence.Resume { // what is behind the marks may have a number that the checkpoint did not give
		found.Seen = b.readLog(d.marks, d.streams)
		how = found.Decide()
	}
	if how == sequence.LogLost { // the rows are what the log has now; what it has nothing of keeps its row
		for _, key := range names {
			if r, ok := b.rows[key]; m.log.last(key) != nil {
				delete(b.rows, key)
			} else if ok {
				r.Behind, r.place = true, -1
				b.rows[key] = r
			}
		}
	}
	if how != sequence.Resume {
		found.Seen = max(found.Seen, b.readLog(make([]int, len(m.log.partitions)), nil))
	}
	b.given, b.heard = max(d.given, found.Seen), len(m.log.partitions[0])
	m.tracef("start %d rows %v streams %v", how, b.rows, d.streams)
	switch how {
	case sequence.LogLost:
		b.repairLog(d)
	case sequence.CheckpointLost:
		b.owed = b.owed || found.Trimmed()
		b.configure(nil, d.streams)
	default:
		b.retiring = d.retiring
		for _, s := range d.streams {
			b.repair = b.repair || s.Owes == sequence.Repair
		}
		if b.repair {
			b.run(d.streams)
			return
		}
		b.configure(d.streams, nil)
	}
}

func (b *bridge) find(d *checkpoint, stored bool) sequence.Found {
	l := b.m.log
	f := sequence.Found{Checkpoint: stored && d.marks != nil, Given: d.given}
	for p := range l.partitions {
		at := sequence.Partition{First: uint64(l.start[p]) + 1, Last: uint64(len(l.partitions[p]))}
		if f.Checkpoint {
			at.Mark = uint64(d.marks[p])
			if at.Mark > 0 && at.Mark <= at.Last && d.ids[p] != "" {
				e := l.partitions[p][at.Mark-1]
				at.Changed = e != nil && e.id != d.ids[p]
			}
		}
		f.Partitions = append(f.Partitions, at)
	}
	return f
}

// readLog brings the rows up to date with what is behind the marks, and returns the greatest number found.
func (b *bridge) readLog(marks []int, stored map[spec]sequence.Stream) (highest uint64) {
	for p, entries := range b.m.log.partitions {
		for i := max(marks[p], b.m.log.start[p]); i < len(entries); i++ {
			if e := entries[i]; e != nil && e.key != "" {
				highest = max(highest, e.seq.Epoch)
				if r, known := b.rows[e.key]; !known || e.seq.After(r.Sequence) {
					b.late(e, stored)
				}
				b.learn(e)
			}
		}
	}
	return highest
}

// late has the stream of an unexpected message owe a list.
func (b *bridge) late(e *entry, stored map[spec]sequence.Stream) {
	for s, at := range stored {
		if s.has(e.key) && at.Owes == sequence.Nothing && !e.again && at.Late(e.seq) {
			b.m.tracef("late %s", e.id)
			at.Owes = sequence.Relist
			stored[s] = at
		}
	}
}

func (b *bridge) learn(e *entry) {
	at, ok := b.rows[e.key]
	var last *sequence.Row
	if ok {
		last = &at.Row
	}
	next := sequence.Row{UID: e.uid, Sequence: e.seq, Hash: e.content, Rejected: e.kind == "rejected"}
	if e.kind == "end" || e.base != 0 && e.term != b.term {
		next.Hash = 0 // what a patch makes is not known from the log
	}
	b.rows[e.key] = row{sequence.Apply(last, next), e.offset, at.owner}
}

// repairLog gives all stored streams a number of the first case. Their selection holds until the log is repaired.
func (b *bridge) repairLog(d *checkpoint) {
	b.repair = true
	n := b.number()
	for s, at := range d.streams {
		at.Incomparable(n, at.Position, sequence.Repair)
		d.streams[s] = at
	}
	for s, at := range d.retiring {
		at.Incomparable(n, at.Position, sequence.Republish)
		d.retiring[s] = at
	}
	b.retiring = d.retiring
	b.run(d.streams)
	b.commit()
}

// run has streams run as they are.
func (b *bridge) run(streams map[spec]sequence.Stream) {
	if b.streams = nil; b.running != nil {
		b.running, b.owed = nil, true
	}
	for _, s := range slices.SortedFunc(maps.Keys(streams), bySpec) {
		at := streams[s]
		at.Resume(b.newest(s))
		b.streams = append(b.streams, &stream{Stream: at, spec: s, read: at.Position, broken: true, open: map[*change]bool{}})
	}
	for key, r := range b.rows {
		for s := range streams {
			if s.has(key) {
				r.owner = s
				b.rows[key] = r
			}
		}
	}
}

func bySpec(a, b spec) int {
	if a.name+a.namespaces < b.name+b.namespaces {
		return -1
	}
	return 1
}

// newest returns the greatest epoch of a stream's rows.
func (b *bridge) newest(s spec) (epoch uint64) {
	for key, r := range b.rows {
		if s.has(key) {
			epoch = max(epoch, r.Epoch)
		}
	}
	return epoch
}

// configure has the configured streams run. Stored are those of the checkpoint; old those of one that counts as lost.
func (b *bridge) configure(stored, old map[spec]sequence.Stream) {
	var number uint64
	take := func() uint64 {
		if number == 0 {
			number = b.number()
		}
		return number
	}
	streams := map[spec]sequence.Stream{}
	for _, s := range selections[b.m.selection] {
		streams[s] = b.begin(s, stored, take)
	}
	if b.retiring == nil {
		b.retiring = map[spec]sequence.Stream{}
	}
	for s, at := range stored {
		if _, runs := streams[s]; !runs {
			b.retiring[s] = at
		} else {
			delete(b.retiring, s)
		}
	}
	for s := range streams {
		delete(b.retiring, s)
	}
	var ends []*change
	for _, key := range names {
		r, ok := b.rows[key]
		selected := slices.ContainsFunc(selections[b.m.selection], func(s spec) bool { return s.has(key) })
		if !ok || r.Ended() && !r.Behind || selected {
			continue
		}
		var position uint64
		for _, set := range []map[spec]sequence.Stream{stored, b.retiring, old} {
			for s, at := range set {
				if s.has(key) {
					position = max(position, at.Position)
				}
			}
		}
		e, _ := sequence.Deselected(&r.Row, take(), position)
		ends = append(ends, &change{Event: e, key: key})
	}
	if len(ends) == 0 {
		b.retiring = map[spec]sequence.Stream{}
	}
	b.run(streams)
	if number != 0 {
		b.commit()
	}
	for _, c := range ends {
		b.leaving[c] = true
		b.push(c)
	}
}

// begin returns the stream of a selection as it continues from what is stored.
func (b *bridge) begin(s spec, stored map[spec]sequence.Stream, number func() uint64) sequence.Stream {
	all := maps.Clone(b.retiring)
	if all == nil {
		all = map[spec]sequence.Stream{}
	}
	maps.Copy(all, stored)
	if at, ok := stored[s]; ok {
		if _, was := b.retiring[s]; !was {
			return at
		}
	}
	var from []sequence.Stream
	var namespaces, covered []string
	same := true
	for _, o := range slices.SortedFunc(maps.Keys(all), bySpec) {
		shared := slices.DeleteFunc(o.list(), func(n string) bool { return !s.covers(n) })
		if len(shared) == 0 {
			continue
		}
		_, retires := b.retiring[o]
		same = same && o.labelled == s.labelled && len(shared) == len(o.list()) && all[o].Owes == sequence.Nothing && !retires
		covered = append(covered, shared...)
		for _, n := range shared {
			from, namespaces = append(from, all[o]), append(namespaces, n)
		}
	}
	if len(from) == 0 {
		at := sequence.Stream{}
		at.Reselected(number(), sequence.Reselect)
		return at
	}
	at := sequence.TakeOver(from, namespaces)
	slices.Sort(covered)
	full := len(slices.Compact(covered)) == len(s.namespaces)
	switch {
	case same && full: // another name of the same
	case full && !slices.ContainsFunc(slices.Collect(maps.Keys(all)), func(o spec) bool {
		_, retires := b.retiring[o]
		return o.labelled != s.labelled || retires || all[o].Owes != sequence.Nothing
	}) && b.m.r.IntN(2) == 0:
		at.Reselected(number(), sequence.Nothing)
	default:
		at.Reselected(number(), sequence.Reselect)
	}
	return at
}

// commit stores everything. Another bridge that has started since refuses it.
func (b *bridge) commit() {
	m := b.m
	m.mayCrash()
	if b.term != m.term {
		panic(crashed{})
	}
	ends := b.hear()
	c := &checkpoint{
		given: b.given, streams: map[spec]sequence.Stream{}, retiring: maps.Clone(b.retiring), pending: maps.Clone(b.pending),
		resyncs: b.resyncs, resync: b.owed,
	}
	for _, s := range b.streams {
		c.streams[s.spec] = s.stored()
	}
	b.prune()
	c.rows = maps.Clone(b.rows)
	for p, entries := range m.log.partitions {
		mark := len(entries)
		for _, f := range b.sent {
			if m.log.of(f.key) == p {
				mark = min(mark, f.from)
			}
		}
		id := ""
		if mark > m.log.start[p] && entries[mark-1] != nil {
			id = entries[mark-1].id
		}
		c.marks, c.ids = append(c.marks, mark), append(c.ids, id)
	}
	m.stored = c
	repaired := !b.repair && len(b.leaving) == 0
	for _, r := range b.rows {
		repaired = repaired && !r.Behind
	}
	m.log.lost = m.log.lost && !repaired
	if m.r.IntN(3) == 0 {
		m.backups = append(m.backups, c.clone())
	}
	m.tracef("commit %v marks %v", c.streams, c.marks)
	m.mayCrash()
	for _, c := range ends { // their number is committed
		b.push(c)
	}
}

// hear learns what other writers have published since, which NATS does not prevent. What is unexpected makes its
// stream owe a list: the object may be gone.
func (b *bridge) hear() (ends []*change) {
	l := b.m.log
	if l.kafka {
		return nil
	}
	for ; b.heard < len(l.partitions[0]); b.heard++ {
		e := l.partitions[0][b.heard]
		if e == nil || e.key == "" || e.term == b.term {
			continue
		}
		before, known := b.rows[e.key]
		b.learn(e)
		b.outnumber(e)
		if known && !e.seq.After(before.Sequence) {
			continue
		}
		b.m.tracef("heard %s", e.id)
		covered := false
		for _, s := range b.streams {
			if s.spec.has(e.key) {
				s.Position, s.Owes, covered = s.position(), max(s.Owes, sequence.Relist), true
			}
		}
		if r := b.rows[e.key]; !covered && !r.Ended() {
			end, _ := sequence.Deselected(&r.Row, b.number(), 0)
			c := &change{Event: end, key: e.key}
			b.leaving[c] = true
			ends = append(ends, c)
		}
	}
	return ends
}

// outnumber has streams take a new number where a late message has a greater one: the checkpoint is an old one.
func (b *bridge) outnumber(e *entry) {
	old := e.seq.Epoch > b.given
	b.given = max(b.given, e.seq.Epoch)
	for _, s := range b.streams {
		if s.Epoch < e.seq.Epoch && (old || s.spec.has(e.key)) {
			position := s.position()
			s.Reselected(b.number(), sequence.Reselect)
			s.Position = position
		}
	}
}

// prune drops ends that the position of their stream has passed.
func (b *bridge) prune() {
	for _, key := range names {
		r, ok := b.rows[key]
		if !ok || !r.Ended() || r.Behind || b.busyKey(key) {
			continue
		}
		// An end that the log loses later is swept by the resync markers of its stream. Without a stream its row
		// has to stay.
		passed := !b.m.f.lostLog || slices.ContainsFunc(b.streams, func(s *stream) bool { return s.spec.has(key) })
		for _, s := range b.streams {
			passed = passed && (!s.spec.has(key) || s.position() >= r.Version && s.Owes == sequence.Nothing)
		}
		if passed && b.m.r.IntN(3) > 0 {
			delete(b.rows, key)
		}
	}
}

func (b *bridge) busyKey(key string) bool { return len(b.queue[key]) > 0 || b.sent[key] != nil }

func (b *bridge) busy(s spec) bool {
	return slices.ContainsFunc(names, func(key string) bool { return s.has(key) && b.busyKey(key) })
}

// last returns the row that an object will have when everything that waits is in the log; nil is none.
func (b *bridge) last(key string) *sequence.Row {
	var last *sequence.Row
	if r, ok := b.rows[key]; ok {
		last = &r.Row
	}
	waiting := b.queue[key]
	if f := b.sent[key]; f != nil {
		waiting = append([]*change{f.change}, waiting...)
	}
	for _, c := range waiting {
		next := sequence.Apply(last, sequence.Row{UID: c.UID, Sequence: c.Sequence, Hash: c.content})
		last = &next
	}
	return last
}

// newestVersion is that of the rows that compare, and of the list of a resync that runs.
func (b *bridge) newestVersion(s *stream) (version uint64) {
	if b.running != nil && b.running.stream == s {
		version = b.running.version
	}
	for _, key := range names {
		if r := b.last(key); s.spec.has(key) && r != nil && s.Compares(r) {
			version = max(version, r.Version)
		}
	}
	return version
}

func (b *bridge) push(c *change) {
	if c.count == 0 {
		c.count = 1
	}
	if c.stream != nil && (c.version > 0 || c.listed) {
		c.stream.open[c] = true
	}
	if b.running != nil && b.running.stream == c.stream && c.resync {
		b.running.open[c] = true
	}
	q := b.queue[c.key]
	if n := len(q); b.m.f.latest && n > 0 && foldable(q[n-1], c) {
		old := q[n-1]
		*old = change{
			Event: c.Event, key: c.key, stream: c.stream, version: old.version, listed: old.listed, content: c.content,
			labelled: c.labelled, count: old.count + c.count,
		}
		if c.stream != nil {
			delete(c.stream.open, c)
		}
		return
	}
	b.queue[c.key] = append(q, c)
}

// foldable reports whether two changes may become one: states of one object, read by one stream.
func foldable(a, b *change) bool {
	return !a.Again && !b.Again && !a.resync && !b.resync && a.Step == sequence.State && b.Step == sequence.State &&
		a.UID == b.UID && a.stream == b.stream && a.version > 0 && b.version > 0
}

// incomparable begins the first case.
func (b *bridge) incomparable(s *stream, why sequence.Mismatch) {
	b.m.tracef("%v: %s", s.spec, why)
	position := s.position()
	owes := sequence.Republish
	if s.listing {
		owes = max(owes, s.listed)
	}
	if b.running != nil && b.running.stream == s {
		b.running, b.owed = nil, true
	}
	s.Incomparable(b.number(), position, owes)
	s.listing, s.bracket, s.broken = false, 0, true
	b.m.sinces = append(b.m.sinces, s.Epoch)
	b.commit()
}

// connect opens the watch.
func (b *bridge) connect(s *stream) {
	api := b.m.api
	if why := s.Server(api.version, b.newestVersion(s)); why != "" || api.version < s.read {
		b.incomparable(s, why)
		return
	}
	if s.read < api.compacted {
		s.Position, s.Owes = s.position(), sequence.Relist
	}
	s.broken = false
}

// watch reads one event, or a bookmark.
func (b *bridge) watch(s *stream) {
	w, ok := b.m.api.next(s.read)
	if !ok {
		s.read = max(s.read, b.m.api.version)
		return
	}
	s.read = w.version
	if !s.spec.has(w.key) || s.Below(w.key[:1], w.version) {
		return
	}
	if w.deleted {
		delete(b.pending, w.key)
	}
	e := sequence.Seen{UID: w.uid, Version: w.version, Deleted: w.deleted}
	if s.spec.labelled && !w.deleted && !w.labelled {
		if !w.was {
			return
		}
		e.Deleted = true
	} else if s.spec.labelled && w.deleted && !w.was {
		return
	}
	b.m.tracef("watch %v %s %+v", s.spec, w.key, e)
	b.pushAll(s, w.key, s.Watch(e, b.last(w.key)), w.object, w.version, false)
}

func (b *bridge) pushAll(s *stream, key string, events []sequence.Event, o object, version uint64, listed bool) {
	for _, e := range events {
		c := &change{Event: e, key: key, stream: s, version: version, listed: listed, labelled: true}
		if e.Step == sequence.State {
			c.content, c.labelled = o.content, o.labelled
		}
		if e.Again {
			c.n = b.resyncs // it was committed before
		}
		b.push(c)
	}
}

// list makes the list that a stream owes.
func (b *bridge) list(s *stream) {
	m := b.m
	if b.busy(s.spec) || s.listing {
		return
	}
	if s.Owes == sequence.Repair && s.bracket == 0 {
		b.resyncs++
		b.commit()
		s.bracket = b.resyncs
		b.mark("started", s, s.bracket, false)
		return
	}
	version, items := m.api.version, m.api.list(s.spec)
	if why := b.mismatch(s, version, items); why != "" {
		b.incomparable(s, why)
		return
	}
	m.tracef("list %v owes %d at %d: %v", s.spec, s.Owes, version, items)
	if s.Owes == sequence.Relist {
		m.gaps = append(m.gaps, [2]uint64{s.Position, version})
	}
	owes := s.Owes
	for _, key := range names {
		if o, ok := items[key]; ok {
			b.pushAll(s, key, s.List(sequence.Object{UID: o.uid, Version: o.version, Hash: o.content}, b.last(key)), o, 0, true)
			continue
		}
		if s.spec.has(key) {
			delete(b.pending, key)
		}
		if r := b.last(key); r != nil && s.spec.has(key) {
			if e, gone := s.Missing(r, version); gone {
				b.pushAll(s, key, []sequence.Event{e}, object{}, 0, true)
			}
		}
	}
	s.listed, s.Owes, s.listing, s.read, s.broken = owes, sequence.Nothing, true, version, false
	s.Floors, s.Rewound = nil, 0
	b.finish(s)
}

func (b *bridge) mismatch(s *stream, version uint64, items map[string]object) sequence.Mismatch {
	if why := s.Server(version, b.newestVersion(s)); why != "" {
		return why
	}
	for _, key := range names {
		if o, ok := items[key]; ok {
			at := sequence.Object{UID: o.uid, Version: o.version, Hash: o.content, Pending: b.pending[key]}
			if why := s.Listed(at, b.last(key)); why != "" {
				return why
			}
		}
	}
	return ""
}

// finish ends a list of which everything is acknowledged.
func (b *bridge) finish(s *stream) {
	if !s.listing {
		return
	}
	for c := range s.open {
		if c.listed {
			return
		}
	}
	if s.listed == sequence.Repair && s.bracket != 0 {
		complete := !slices.ContainsFunc(names, func(key string) bool { return s.spec.has(key) && b.pending[key] })
		b.mark("completed", s, s.bracket, complete)
		b.owed = b.owed || !complete
	}
	s.bracket, s.listing = 0, false
}

// mark publishes a marker to every partition.
func (b *bridge) mark(kind string, s *stream, n int, complete bool) {
	b.m.mayCrash()
	if b.term != b.m.term && b.m.log.kafka {
		panic(crashed{})
	}
	b.m.log.everywhere(entry{kind: kind, term: b.term, n: n, spec: s.spec, complete: complete, id: kind})
	b.m.tracef("%s %d %v complete %v", kind, n, s.spec, complete)
	b.m.mayCrash()
}

// send hands the oldest change of an object to the broker.
func (b *bridge) send(key string) {
	q := b.queue[key]
	if len(q) == 0 || b.sent[key] != nil {
		return
	}
	c := q[0]
	if b.queue[key] = q[1:]; len(q) == 1 {
		delete(b.queue, key)
	}
	if at, ok := b.rows[key]; ok {
		of := &sequence.Stream{Since: c.Epoch}
		if c.stream != nil {
			of = &c.stream.Stream
		}
		switch events := of.Publish(c.Event, &at.Row); len(events) {
		case 0:
			b.settle(c)
			return
		case 2:
			b.queue[key] = append([]*change{c}, b.queue[key]...)
			c = &change{Event: events[0], key: key, count: 1}
		}
	}
	e := &entry{
		kind: "put", key: key, uid: c.UID, seq: c.Sequence, text: c.String(), id: c.ID(c.UID), content: c.content,
		labelled: c.labelled, again: c.Again, term: b.term,
	}
	if c.Step == sequence.End {
		e.kind, e.content = "end", 0
	}
	if c.Again {
		e.id = sequence.Republished(e.id, int64(c.n))
	}
	if e.kind == "put" && b.refused(c, e) {
		return
	}
	r, ok := b.rows[key]
	if b.m.f.patches && ok && e.kind == "put" && c.stream != nil && b.base[key] == r.Version &&
		c.stream.FromPatch(c.Event, &r.Row) {
		e.base = r.Version
	}
	place := -1
	if ok && r.place >= b.m.log.start[b.m.log.of(key)] {
		place = r.place
	}
	b.sent[key] = &flight{change: c, entry: e, from: len(b.m.log.partitions[b.m.log.of(key)]), expect: place}
}

// refused makes the event a rejected one where the broker refuses it, and reports whether it refuses that too.
func (b *bridge) refused(c *change, e *entry) bool {
	if !b.m.f.rejects || c.content%4 != 0 || b.m.tolerant {
		return false
	}
	if c.content%8 != 0 {
		e.kind, e.id = "rejected", sequence.Rejected(e.id)
		return false
	}
	b.m.tracef("pending %s %v", c.key, c.Sequence)
	b.pending[c.key] = true
	b.settle(c)
	return true
}

// land is what the broker does with a message.
func (m *model) land(f *flight, current bool) {
	l := m.log
	f.landed = true
	if l.kafka && !current {
		f.fenced = true
		return
	}
	last := l.last(f.key)
	if !l.kafka {
		if slices.Contains(l.ids, f.entry.id) { // looked at before the expected last message
			f.failed, f.twice = last != nil && last.id != f.entry.id, true
			if last != nil && !f.failed {
				f.entry = last
			}
			m.tracef("duplicate %s", f.entry.id)
			return
		}
		at := -1
		if last != nil {
			at = last.offset
		}
		if f.failed = at != f.expect; f.failed {
			m.tracef("conflict %s", f.entry.id)
			return
		}
	}
	l.append(f.entry, l.of(f.key))
	m.tracef("log %s %s %s %v base %d @%d", f.entry.kind, f.key, f.entry.id, f.entry.content, f.entry.base, f.entry.offset)
	m.check(f.entry)
}

// acknowledged handles the answer of the broker.
func (b *bridge) acknowledged(key string) {
	f := b.sent[key]
	if f.fenced {
		panic(crashed{})
	}
	delete(b.sent, key)
	e := b.m.log.last(key)
	delete(b.base, key)
	if !f.failed {
		e = f.entry
		delete(b.pending, key)
		b.learn(e)
		if r := b.rows[key]; e.kind == "put" && r.Sequence == e.seq {
			b.base[key] = e.seq.Version
		}
		b.settle(f.change)
		return
	}
	if e != nil {
		b.learn(e)
	}
	if r := b.rows[key]; e == nil {
		r.place = -1
		b.rows[key] = r
	} else if f.Again && f.twice {
		if r.After(f.Sequence) { // the log has it
			b.settle(f.change)
			return
		}
		b.resyncs++ // it has to be the last message, so it needs another id
		b.commit()
		f.n = b.resyncs
	}
	b.queue[key] = append([]*change{f.change}, b.queue[key]...)
}

// settle closes the ticket of a change.
func (b *bridge) settle(c *change) {
	if c.stream != nil {
		delete(c.stream.open, c)
		b.finish(c.stream)
	}
	if delete(b.leaving, c); len(b.leaving) == 0 {
		b.retiring = map[spec]sequence.Stream{}
	}
	if b.running != nil {
		delete(b.running.open, c)
	}
}

// retry makes a list of one object whose event was refused.
func (b *bridge) retry(key string) {
	i := slices.IndexFunc(b.streams, func(s *stream) bool { return s.spec.has(key) })
	if i < 0 {
		delete(b.pending, key)
		return
	}
	s := b.streams[i]
	if s.Owes != sequence.Nothing || s.listing || s.broken || b.busyKey(key) {
		return
	}
	version, items := b.m.api.version, b.m.api.list(s.spec)
	maps.DeleteFunc(items, func(k string, _ object) bool { return k != key })
	if why := b.mismatch(s, version, items); why != "" || version < s.read {
		b.incomparable(s, why)
		return
	}
	b.m.tracef("retry %s: %v", key, items)
	if o, ok := items[key]; ok {
		if o.version > s.read {
			return // the watch brings it, and what is before it
		}
		events := s.List(sequence.Object{UID: o.uid, Version: o.version, Hash: o.content}, b.last(key))
		if len(events) == 0 {
			delete(b.pending, key)
		}
		b.pushAll(s, key, events, o, o.version, false)
		return
	}
	delete(b.pending, key)
	if r := b.last(key); r != nil {
		if e, gone := s.Missing(r, version); gone {
			b.pushAll(s, key, []sequence.Event{e}, object{}, version, false)
		}
	}
}

// resync publishes everything of a stream again, beside its watch.
func (b *bridge) resync(s *stream) {
	m := b.m
	switch r := b.running; {
	case r == nil:
		if s.Owes != sequence.Nothing || s.listing || s.broken {
			return
		}
		b.resyncs++
		b.commit()
		b.running = &resync{n: b.resyncs, stream: s, complete: true, open: map[*change]bool{}}
		b.mark("started", s, b.resyncs, false)
	case !r.listed:
		s = r.stream
		version, items := m.api.version, m.api.list(s.spec)
		if s.Owes != sequence.Nothing || s.listing || s.broken {
			return
		}
		if why := b.mismatch(s, version, items); why != "" || version < s.read {
			b.incomparable(s, why)
			return
		}
		m.tracef("resync list %v at %d", s.spec, version)
		for _, key := range names {
			o, ok := items[key]
			if !ok {
				continue
			}
			if e, again := s.Resync(sequence.Object{UID: o.uid, Version: o.version}, b.last(key)); again {
				b.push(&change{Event: e, key: key, stream: s, resync: true, content: o.content, labelled: o.labelled, n: r.n})
			}
		}
		r.listed, r.version = true, version
	case len(r.open) == 0 && r.stream.position() >= r.version:
		for _, key := range names {
			r.complete = r.complete && (!r.stream.spec.has(key) || !b.pending[key])
		}
		b.mark("completed", r.stream, r.n, r.complete)
		b.m.incomplete = !r.complete
		b.running = nil
	}
}
