// SPDX-License-Identifier: Apache-2.0

package oracle

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/twmb/franz-go/pkg/kgo"
	"pgregory.net/rapid"
)

const partitions = 3

// spread puts a log into partitions as some processes would write it, one after the other: their streams have no order
// among each other, and a process may die over a marker.
func spread(t *rapid.T, log []Entry) []Entry {
	processes := int16(rapid.IntRange(1, 3).Draw(t, "processes")) //nolint:gosec // few
	of := kgo.StickyKeyPartitioner(nil).ForTopic("")
	lanes := map[string][]Entry{}
	for _, e := range log {
		lanes[e.Source] = append(lanes[e.Source], e)
	}
	parts := make([][]Entry, partitions)
	for epoch := range processes {
		pending := make([][][]Entry, partitions) // of each partition, of each stream
		for _, source := range sortedKeys(lanes) {
			lane := lanes[source]
			n := len(lane)
			if epoch < processes-1 {
				n = rapid.IntRange(0, n).Draw(t, "written")
			}
			of := divide(of, lane[:n], epoch)
			if n > 0 && epoch < processes-1 && lane[n-1].everywhere() && cutShort(t, of, lane[n-1]) {
				// A gap that begins an epoch, or whose list follows, is written again; another one may be replaced by
				// one that ends later.
				cause := bodyOfMark(&lane[n-1]).Cause
				listed := n < len(lane) && lane[n].Reason == "relist"
				if cause != "" && cause != Expired || listed || rapid.Bool().Draw(t, "again") {
					n--
				}
			}
			for p := range of {
				pending[p] = append(pending[p], of[p])
			}
			lanes[source] = lane[n:]
		}
		for p := range parts {
			parts[p] = append(parts[p], announcement(epoch))
			parts[p] = append(parts[p], shuffle(t, pending[p])...)
		}
	}
	return number(parts)
}

// cutShort takes the last marker out of some partitions, that of its key first, or out of none.
func cutShort(t *rapid.T, of [][]Entry, marker Entry) bool {
	without := rapid.IntRange(0, partitions-1).Draw(t, "without the marker")
	home := int(homeOf(marker.PartitionKey))
	for n := range without {
		p := (home + n) % partitions
		of[p] = of[p][:len(of[p])-1]
	}
	return without > 0
}

// divide gives entries to their partitions.
func divide(of kgo.TopicPartitioner, lane []Entry, epoch int16) [][]Entry {
	parts := make([][]Entry, partitions)
	for _, e := range lane {
		e.Producer, e.ProducerEpoch = 7, epoch
		e.Key = e.PartitionKey
		own := of.Partition(&kgo.Record{Key: []byte(e.Key)}, partitions)
		for p := range parts {
			if e.everywhere() || p == own {
				parts[p] = append(parts[p], e)
			}
		}
	}
	return parts
}

func announcement(epoch int16) Entry {
	e := Entry{
		Type: typeWriter, Source: "/clusters/test/pipelines/p", SampledRate: 1,
		Record: Record{Producer: 7, ProducerEpoch: epoch},
	}
	e.ID = "writer-started." + e.Record.writer().String()
	e.announce(0)
	return e
}

// announce gives an announcement the highest epoch.
func (e *Entry) announce(highest uint64) {
	e.Data = fmt.Appendf(nil, `{"producerId":%d,"producerEpoch":%d,"epoch":%d}`, e.Producer, e.ProducerEpoch, highest)
}

// shuffle makes one sequence of several, each of which stays in its order.
func shuffle(t *rapid.T, of [][]Entry) (all []Entry) {
	for {
		of = slices.DeleteFunc(of, func(s []Entry) bool { return len(s) == 0 })
		if len(of) == 0 {
			return all
		}
		n := rapid.IntRange(0, len(of)-1).Draw(t, "next")
		all = append(all, of[n][0])
		of[n] = of[n][1:]
	}
}

// number numbers the entries of partitions. Announcements have the highest epoch of what is before them.
func number(parts [][]Entry) (log []Entry) {
	highest := map[int16]uint64{}
	for _, part := range parts {
		for i := range part {
			n, _ := numbersOf(part[i].Sequence)
			for later := part[i].ProducerEpoch + 1; later < 4; later++ {
				highest[later] = max(highest[later], n.epoch)
			}
		}
	}
	for p, part := range parts {
		for i := range part {
			part[i].Partition, part[i].Offset, part[i].Place = int32(p), int64(i), 0 //nolint:gosec // few
			if part[i].Type == typeWriter {
				part[i].announce(highest[part[i].ProducerEpoch])
			}
		}
		log = append(log, part...)
	}
	return log
}

func drawPartitions(t *rapid.T) (*Truth, []Entry) {
	truth := drawTruth(t, rapid.IntRange(0, 1).Draw(t, "restorations"))
	return truth, spread(t, drawLog(t, truth))
}

func TestCheck_finds_nothing_in_partitions_that_keep_every_promise(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		truth, log := drawPartitions(t)
		r := Judge(truth, log, Options{Seed: 7, Partitions: partitions, Gaps: AnyGap})
		for _, v := range r.Violations {
			t.Error(v)
		}
		assert.True(t, r.Lost == 0 && r.Published+r.Hidden == r.States,
			"%d states, of which %d published, %d hidden, %d lost", r.States, r.Published, r.Hidden, r.Lost)
	})
}

// In a log that is cut off, each partition ends where it was when it was read.
func TestCheck_finds_nothing_in_partitions_that_are_cut_off(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		truth, log := drawPartitions(t)
		end := map[int32]int64{}
		for p := range int32(partitions) {
			end[p] = rapid.Int64Range(0, int64(len(log))).Draw(t, "end")
		}
		log = slices.DeleteFunc(log, func(e Entry) bool { return e.Offset >= end[e.Partition] })
		for _, v := range Check(truth, log, Options{Seed: 7, Partitions: partitions, Prefix: true, Gaps: AnyGap}) {
			// What a gap in another partition would account for may be missing.
			assert.True(t, v.Promise == P3 || v.Promise == P6 || v.Promise == P2, "%v", v)
		}
	})
}

// misplacements break partitions that are right. They return false where these have no place for them.
var misplacements = []struct {
	name    string
	promise Promise
	do      func(d *damaged) bool
}{
	{"put an event into another partition", P4, func(d *damaged) bool {
		i := d.pick(func(i int) bool { return d.op(i) != "" })
		if i < 0 {
			return false
		}
		d.log[i].Partition, d.log[i].Offset = (d.log[i].Partition+1)%partitions, 1<<30
		return true
	}},
	{"give a record another key than its partitionkey", P4, func(d *damaged) bool {
		return d.change(func(i int) bool { return d.op(i) != "" }, func(e *Entry) { e.PartitionKey += "x" })
	}},
	{"swap two states", P4, func(d *damaged) bool {
		return d.exchange(func(i, next int) bool {
			return d.op(i) != Deleted && d.op(next) != Deleted && d.log[i].ProducerEpoch == d.log[next].ProducerEpoch
		})
	}},
	{"repeat a marker in one partition", P5, func(d *damaged) bool {
		return d.repeatRecord(func(i int) bool { return d.log[i].mark() })
	}},
	{"repeat an announcement in one partition", P5, func(d *damaged) bool {
		return d.repeatRecord(func(i int) bool { return d.log[i].Type == typeWriter })
	}},
	{"leave an announcement out of one partition", P5, func(d *damaged) bool {
		return d.drop(func(i int) bool {
			return d.log[i].Type == typeWriter && i+1 < len(d.log) && d.log[i+1].Type != typeWriter
		})
	}},
	{"let a process write behind the announcement of another", P5, func(d *damaged) bool {
		i := d.pick(func(i int) bool {
			return d.op(i) != "" && d.log[i].ProducerEpoch == 0 && d.announced(d.log[i].Partition, 1)
		})
		if i < 0 {
			return false
		}
		d.log[i].Offset = 1 << 30
		return true
	}},
	{"announce another process", P5, func(d *damaged) bool {
		return d.change(func(i int) bool { return d.log[i].Type == typeWriter },
			func(e *Entry) { e.ID = "writer-started.7.99" })
	}},
	{"announce an epoch that is over", P5, func(d *damaged) bool {
		return d.change(func(i int) bool {
			return d.log[i].Type == typeWriter && d.log[i].ProducerEpoch > 0 && i > 1 &&
				d.log[i-1].Partition == d.log[i].Partition && d.op(i-1) != ""
		}, func(e *Entry) { e.announce(999) })
	}},
	{"leave a marker of the last process out of one partition", P6, func(d *damaged) bool {
		last := d.log[len(d.log)-1].ProducerEpoch
		return d.drop(func(i int) bool { return d.log[i].mark() && d.log[i].ProducerEpoch == last })
	}},
	{"leave a marker of a dead process out of a partition that is not that of its key", P6, func(d *damaged) bool {
		last := d.log[len(d.log)-1].ProducerEpoch
		return d.drop(func(i int) bool {
			return d.log[i].mark() && d.log[i].ProducerEpoch < last && d.log[i].Partition != homeOf(d.log[i].Key) && d.whole(i)
		})
	}},
	{"write a marker again that is there", P5, func(d *damaged) bool {
		last := d.log[len(d.log)-1].ProducerEpoch
		i := d.pick(func(i int) bool {
			return d.log[i].mark() && d.log[i].ProducerEpoch < last && d.log[i].Partition == homeOf(d.log[i].Key) && d.whole(i)
		})
		if i < 0 {
			return false
		}
		e := d.log[i]
		for p := range int32(partitions) {
			e.Partition, e.Offset, e.ProducerEpoch = p, 1<<30, last
			d.log = append(d.log, e)
		}
		return true
	}},
	{"leave a marker out of one partition, and write on behind it", P6, func(d *damaged) bool {
		return d.drop(func(i int) bool {
			return d.log[i].mark() && d.whole(i) && slices.ContainsFunc(d.log, func(e Entry) bool {
				// Where only markers are behind it, the checker says nothing.
				return strings.HasPrefix(e.Type, typeResource) && e.Source == d.log[i].Source &&
					e.ProducerEpoch == d.log[i].ProducerEpoch && e.Partition != d.log[i].Partition &&
					e.Offset > d.offsetOf(d.log[i].ID, e.Partition)
			})
		})
	}},
	{"put markers into another order in one partition", P6, func(d *damaged) bool {
		return d.exchangeMarks(func(i, next int) bool {
			return d.log[i].Type == typeStarted && d.log[next].Type == typeCompleted && d.whole(i) && d.whole(next)
		})
	}},
	{"put what a watch shows before the end of the first list, in one partition", P6, func(d *damaged) bool {
		i := d.pick(func(i int) bool {
			return i > 0 && d.log[i].Reason == "watch" && d.log[i-1].Type == typeCompleted &&
				d.log[i-1].Source == d.log[i].Source && d.log[i-1].ProducerEpoch == d.log[i].ProducerEpoch
		})
		if i < 0 {
			return false
		}
		d.log[i].Offset, d.log[i-1].Offset = d.log[i-1].Offset, d.log[i].Offset
		return true
	}},
}

func homeOf(key string) int32 {
	return int32(kgo.StickyKeyPartitioner(nil).ForTopic("").Partition(&kgo.Record{Key: []byte(key)}, partitions)) //nolint:gosec // it is one of three
}

// whole reports whether all partitions have a marker of one process.
func (d *damaged) whole(i int) bool {
	n := 0
	for _, e := range d.log {
		if e.Source == d.log[i].Source && e.ID == d.log[i].ID && e.ProducerEpoch == d.log[i].ProducerEpoch {
			n++
		}
	}
	return n == partitions
}

func (d *damaged) announced(partition int32, epoch int16) bool {
	return slices.ContainsFunc(d.log, func(e Entry) bool {
		return e.Type == typeWriter && e.Partition == partition && e.ProducerEpoch == epoch
	})
}

// offsetOf is a marker's in a partition, beyond all where it is not.
func (d *damaged) offsetOf(id string, partition int32) int64 {
	i := slices.IndexFunc(d.log, func(e Entry) bool { return e.ID == id && e.Partition == partition })
	if i < 0 {
		return 1 << 40
	}
	return d.log[i].Offset
}

func (d *damaged) repeatRecord(fits func(int) bool) bool {
	i := d.pick(fits)
	if i >= 0 {
		e := d.log[i]
		e.Offset = 1 << 30
		d.log = append(d.log, e)
	}
	return i >= 0
}

// exchange swaps two entries of an object, exchangeMarks two markers of a stream.
func (d *damaged) exchange(fits func(i, next int) bool) bool {
	return d.exchangeWith(d.before, fits)
}

func (d *damaged) exchangeMarks(fits func(i, next int) bool) bool {
	return d.exchangeWith(func(next int) int {
		for i := next - 1; i >= 0; i-- {
			if d.log[i].mark() && d.log[next].mark() && d.log[i].Source == d.log[next].Source &&
				d.log[i].Partition == d.log[next].Partition && d.log[i].ProducerEpoch == d.log[next].ProducerEpoch {
				return i
			}
		}
		return -1
	}, fits)
}

func (d *damaged) exchangeWith(before func(int) int, fits func(i, next int) bool) bool {
	next := d.pick(func(next int) bool { i := before(next); return i >= 0 && fits(i, next) })
	if next >= 0 {
		i := before(next)
		d.log[i].Offset, d.log[next].Offset = d.log[next].Offset, d.log[i].Offset
	}
	return next >= 0
}

// fewest is how many of the drawn logs have to be damaged: rapid draws 100, and a fifth of that in short mode.
func fewest() int {
	if testing.Short() {
		return 2
	}
	return 10
}

func TestCheck_names_the_promise_that_damaged_partitions_break(t *testing.T) {
	for _, damage := range misplacements {
		t.Run(damage.name, func(t *testing.T) {
			applied := 0
			rapid.Check(t, func(t *rapid.T) {
				truth, log := drawPartitions(t)
				d := &damaged{t: t, truth: truth, log: log, options: Options{Seed: 11, Partitions: partitions, Gaps: AnyGap}}
				if !damage.do(d) {
					return
				}
				applied++
				found := Check(d.truth, d.log, d.options)
				if !slices.ContainsFunc(found, func(v Violation) bool {
					return v.Promise == damage.promise &&
						strings.Contains(v.String(), "seed 11")
				}) {
					t.Fatalf("want a violation of %s, got %v", damage.promise, found)
				}
			})
			assert.GreaterOrEqual(t, applied, fewest(), "only %d logs could be damaged", applied)
		})
	}
}

func TestNewEntry_reads_the_headers_of_Kafka_as_they_are(t *testing.T) {
	e, err := NewEntry(map[string][]string{
		"content-type": {"application/json"}, "ce_specversion": {"1.0"}, "ce_type": {"t"}, "ce_id": {"100%25"},
		"ce_source": {"/s"}, "ce_partitionkey": {"k"},
	}, []byte("{}"), 0)
	assert.True(t, err == nil && e.ID == "100%25" && e.PartitionKey == "k" && e.Type == "t", "%+v, %v", e, err)
}
