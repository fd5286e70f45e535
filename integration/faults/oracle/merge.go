// SPDX-License-Identifier: Apache-2.0

package oracle

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Record is what a log of several partitions says of an entry besides.
type Record struct {
	Partition int32
	// Offset is the entry's place in the partition.
	Offset int64
	Key    string
	// Producer and ProducerEpoch say which process has written it; the broker keeps them, and no event has them.
	Producer      int64
	ProducerEpoch int16
}

func (r Record) String() string { return fmt.Sprintf("%d/%d", r.Partition, r.Offset) }

// writer is a process that has written to the log.
type writer struct {
	producer int64
	epoch    int16
}

func (w writer) String() string { return fmt.Sprintf("%d.%d", w.producer, w.epoch) }

func (r Record) writer() writer { return writer{r.Producer, r.ProducerEpoch} }

// typeWriter announces a writer in each partition.
const typeWriter = "io.kube-eventbridge.writer.started.v1"

// mark says that an entry is a marker of a stream.
func (e *Entry) mark() bool {
	switch e.Type {
	case typeGap, typeStarted, typeCompleted, typeResyncStarted, typeResyncCompleted:
		return true
	default:
		return false
	}
}

// everywhere says that an entry is in each partition, under one id.
func (e *Entry) everywhere() bool {
	return e.mark() || e.Type == typeWriter
}

// checkPartitions checks what concerns the partitions of a log: what is in which, and that each process begins with its
// announcement, once, and writes nothing behind that of another one.
func (j *judge) checkPartitions(log []*Entry) {
	current, epochs := map[int32]writer{}, map[int32]uint64{}
	for _, e := range log {
		now, before := e.Record.writer(), current[e.Partition]
		_, begun := current[e.Partition]
		switch want := "writer-started." + now.String(); {
		case e.Type == typeWriter && e.ID != want:
			j.violateRecord(P5, e, "it announces another writer than has written it, "+now.String())
		case begun && now.producer == before.producer && now.epoch < before.epoch:
			j.violateRecord(P5, e, fmt.Sprintf("writer %s has written it, behind the announcement of %s", now, before))
			now = before // it is still that one's turn
		case e.Type != typeWriter && (!begun || now != before):
			j.violateRecord(P5, e, fmt.Sprintf("writer %s has written it, and was not announced before it", now))
		}
		current[e.Partition] = now
		if e.Type == typeWriter {
			highest := epochs[e.Partition]
			if forgot := j.options.Forgot; !forgot.IsZero() && e.Recorded.After(forgot) {
				highest = 0 // a writer announces itself before it reads the log
			}
			if problem := e.writerProblem(highest); problem != "" {
				j.violateRecord(P5, e, problem)
			}
		}
		n, _ := numbersOf(e.Sequence)
		epochs[e.Partition] = max(epochs[e.Partition], n.epoch)
		if e.everywhere() {
			continue
		}
		if n := j.home(e); n != e.Partition {
			j.violateRecord(P4, e, fmt.Sprintf("its key %s belongs to partition %d", e.Key, n))
		}
		if e.Key != e.PartitionKey {
			j.violateRecord(P4, e, fmt.Sprintf("its key is %s, and its partitionkey %s", e.Key, e.PartitionKey))
		}
	}
}

// writerProblem returns what is wrong with the data of an announcement, or nothing. Highest is the highest epoch before
// it in its partition.
func (e *Entry) writerProblem(highest uint64) string {
	var data struct {
		Producer int64  `json:"producerId"`
		Term     int16  `json:"producerEpoch"`
		Epoch    uint64 `json:"epoch"`
	}
	switch err := json.Unmarshal(e.Data, &data); {
	case err != nil || data.Producer != e.Producer || data.Term != e.ProducerEpoch:
		return "its data is of another writer"
	case data.Epoch < highest:
		return fmt.Sprintf("it has the epoch %d, and the log has %d before it", data.Epoch, highest)
	default:
		return ""
	}
}

// home is the partition of an entry's key.
func (j *judge) home(e *Entry) int32 {
	return int32(kgo.StickyKeyPartitioner(nil).ForTopic("").Partition(&kgo.Record{Key: []byte(e.Key)}, j.options.Partitions)) //nolint:gosec // it is one of a few
}

// completed leaves out what a process died over: the copies of a marker that does not stand in the partition of its
// key, where it is written last, and that a later process has written again under its id.
func (j *judge) completed(log []*Entry) []*Entry {
	type copied struct {
		id string
		by writer
	}
	latest, whole := map[string]writer{}, map[copied]bool{}
	for _, e := range log {
		if !e.everywhere() {
			continue
		}
		id, by := e.Source+" "+e.ID, e.Record.writer()
		if compareWriters(by, latest[id]) > 0 {
			latest[id] = by
		}
		whole[copied{id, by}] = whole[copied{id, by}] || e.Partition == j.home(e)
	}
	return slices.DeleteFunc(log, func(e *Entry) bool {
		id, by := e.Source+" "+e.ID, e.Record.writer()
		return e.everywhere() && by != latest[id] && !whole[copied{id, by}]
	})
}

func compareWriters(a, b writer) int {
	return cmp.Or(cmp.Compare(a.producer, b.producer), cmp.Compare(a.epoch, b.epoch))
}

func (j *judge) violateRecord(p Promise, e *Entry, what string) {
	j.violate(Violation{Promise: p, Stream: e.Source, Key: e.key(), What: what, Log: []string{e.String()}})
}

// merge puts the entries of one stream into one sequence, and numbers them: each partition's stand in its order, and
// what is everywhere stands once, where all partitions have come to it. writers are the announcements, in the order of
// each partition; they are everywhere too. A marker that not all partitions have is of a process that died over it, and
// that was not written again.
func (j *judge) merge(lane, writers []*Entry) []*Entry {
	m := merging{parts: make([][]*Entry, j.options.Partitions), left: map[string]int{}, placed: map[string]bool{}}
	all := slices.Concat(lane, writers)
	slices.SortStableFunc(all, byPlace)
	seen := map[string]bool{}
	for _, e := range all {
		place := fmt.Sprint(e.Partition, " ", e.ID)
		if int(e.Partition) >= len(m.parts) || e.everywhere() && seen[place] {
			continue // that is reported elsewhere
		}
		seen[place] = true
		m.parts[e.Partition] = append(m.parts[e.Partition], e)
		if e.everywhere() {
			m.left[e.ID]++
		}
	}
	j.checkMarkers(m.parts, writers)
	merged := m.run(func(e *Entry) { j.violateRecord(P6, e, "a marker that stands in another order in other partitions") })
	merged = slices.DeleteFunc(merged, func(e *Entry) bool { return e.Type == typeWriter })
	for i, e := range merged {
		e.Place = uint64(i + 1)
	}
	return merged
}

func byPlace(a, b *Entry) int {
	return cmp.Or(cmp.Compare(a.Partition, b.Partition), cmp.Compare(a.Offset, b.Offset))
}

// merging is the entries of one stream that are put into one sequence.
type merging struct {
	parts [][]*Entry
	// left is how many partitions still have what is everywhere, by its id; placed is what the sequence has.
	left   map[string]int
	placed map[string]bool
}

// run empties the partitions. crossed is told of a marker that some partitions have before another one, and some behind
// it.
func (m *merging) run(crossed func(*Entry)) (merged []*Entry) {
	for {
		var first *Entry
		heads := map[string]int{}
		for p := range m.parts {
			merged = m.pass(p, merged)
			if len(m.parts[p]) > 0 {
				heads[m.parts[p][0].ID]++
				if first == nil {
					first = m.parts[p][0]
				}
			}
		}
		if first == nil {
			return merged
		}
		next := m.next(heads)
		if next == nil {
			crossed(first)
			next = first
		}
		m.placed[next.ID] = true
		merged = append(merged, next)
	}
}

// pass takes what a partition has before its next marker.
func (m *merging) pass(p int, merged []*Entry) []*Entry {
	for len(m.parts[p]) > 0 {
		e := m.parts[p][0]
		switch {
		case !e.everywhere():
			merged = append(merged, e)
		case m.placed[e.ID]:
			m.left[e.ID]--
		default:
			return merged
		}
		m.parts[p] = m.parts[p][1:]
	}
	return merged
}

// next returns a marker that all partitions which have it have come to; nil if there is none.
func (m *merging) next(heads map[string]int) *Entry {
	for _, part := range m.parts {
		if len(part) > 0 && heads[part[0].ID] == m.left[part[0].ID] {
			return part[0]
		}
	}
	return nil
}

// checkMarkers checks that each marker is in all partitions, unless the process that was writing it has died: then
// another one follows, it itself has written nothing of the stream behind the marker, and the partition of its key,
// which gets it last, does not have it.
func (j *judge) checkMarkers(parts [][]*Entry, writers []*Entry) {
	last := writer{}
	for _, e := range writers {
		if w := e.Record.writer(); compareWriters(w, last) > 0 {
			last = w
		}
	}
	copies := map[string][]*Entry{}
	for _, part := range parts {
		for _, e := range part {
			if e.mark() {
				copies[e.ID] = append(copies[e.ID], e)
			}
		}
	}
	for _, id := range sortedKeys(copies) {
		e := copies[id][0]
		switch {
		case len(copies[id]) == len(parts), j.options.Prefix:
		case e.Record.writer() == last:
			j.violateRecord(P6, e, fmt.Sprintf("a marker that is in %d of %d partitions, and its writer has not died",
				len(copies[id]), len(parts)))
		case slices.ContainsFunc(copies[id], func(e *Entry) bool { return e.Partition == j.home(e) }):
			j.violateRecord(P6, e, fmt.Sprintf("a marker that is in the partition of its key, and in %d of %d", len(copies[id]),
				len(parts)))
		case slices.ContainsFunc(copies[id], func(e *Entry) bool { return goesOn(parts[e.Partition], e) }):
			j.violateRecord(P6, e, fmt.Sprintf("a marker that is in %d of %d partitions, and its writer went on behind it",
				len(copies[id]), len(parts)))
		}
	}
}

// goesOn reports whether the writer of a marker has written more of its stream behind it.
func goesOn(part []*Entry, marker *Entry) bool {
	return slices.ContainsFunc(part, func(e *Entry) bool {
		return e.Offset > marker.Offset &&
			e.Record.writer() == marker.Record.writer()
	})
}

// checkWriters checks that what a leader has published of an object is not behind what a later one has. Where the log
// is one sequence, a former leader that does not know of its end may still publish the next event of an object that it
// knows the last one of: once, because its next one is refused, or it ends.
func (s *streamJudge) checkWriters(o *object) {
	newest, late := 0, map[int]int{}
	for _, l := range o.lines {
		switch elected := s.judge.options.Elected; {
		case elected && l.WriterTerm < 1:
			s.violateLine(P5, l, "it does not say which leader has published it")
		case !elected && l.WriterTerm != 0:
			s.violateLine(P5, l, "it says that a leader has published it, and none was elected")
		case l.WriterTerm < newest && (s.judge.options.Partitions > 0 || late[l.WriterTerm] > 0):
			s.violateLine(P5, l, fmt.Sprintf("leader %d has published it, behind leader %d", l.WriterTerm, newest))
		case l.WriterTerm < newest:
			late[l.WriterTerm]++
			l.late = true
			s.judge.report.Late++
		}
		newest = max(newest, l.WriterTerm)
	}
}
