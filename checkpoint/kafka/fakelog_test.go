// SPDX-License-Identifier: Apache-2.0

package kafka

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/segmentio/kafka-go/protocol"

	"github.com/kube-eventbridge/kube-eventbridge/internal/kafka"
)

func decodeBatch(sized []byte) (*fakeBatch, error) {
	var set protocol.RecordSet
	if n, err := set.ReadFrom(bufio.NewReader(bytes.NewReader(sized))); err != nil || n != int64(len(sized)) {
		return nil, fmt.Errorf("read %d of %d bytes: %w", n, len(sized), err)
	}
	read := set.Records.(*protocol.RecordStream).Records[0].(*protocol.RecordBatch)
	b := &fakeBatch{Producer: kafka.Producer{ID: read.ProducerID, Epoch: read.ProducerEpoch}, Sequence: read.BaseSequence}
	for {
		r, err := read.ReadRecord()
		if errors.Is(err, io.EOF) {
			b.Count = int32(len(b.Records))
			return b, nil
		}
		if err != nil {
			return nil, err
		}
		key, err := protocol.ReadAll(r.Key)
		if err != nil {
			return nil, err
		}
		value, err := protocol.ReadAll(r.Value)
		if err != nil {
			return nil, err
		}
		if age := time.Since(r.Time); age < -time.Minute || age > 4*time.Hour {
			return nil, fmt.Errorf("a record is %v old", age)
		}
		b.Records = append(b.Records, fakeRecord{Key: key, Value: value, Null: r.Value == nil})
	}
}

// compact does what the log cleaner may do at any time: below an offset only the last record of each key stays, and, if
// it has no value, it may go too. Batches keep their offsets.
func (f *fake) compact(partition int32, below int64, nulls bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	last := map[string]int64{}
	for _, b := range f.logs[partition] {
		for _, r := range b.Records {
			if r.Offset < below {
				last[string(r.Key)] = r.Offset
			}
		}
	}
	log := slices.Clone(f.logs[partition])
	for i := range log {
		var kept []fakeRecord
		for _, r := range log[i].Records {
			if r.Offset >= below || last[string(r.Key)] == r.Offset && (!r.Null || !nulls) {
				kept = append(kept, r)
			}
		}
		log[i].Records = kept
	}
	f.logs[partition] = log
}

// copy returns a fake that has the first n batches of a partition, and nothing of what goes wrong.
func (f *fake) copy(partition int32, n int) *fake {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := newFake(f.partitions)
	out.producers = f.producers
	for name, id := range f.epochs {
		out.epochs[name] = id
	}
	for name, value := range f.settings {
		out.settings[name] = value
	}
	out.logs[partition] = slices.Clone(f.logs[partition][:n])
	return out
}

// live returns the records of all partitions that compaction would leave, nulls left out.
func (f *fake) live() map[string][]byte {
	f.mu.Lock()
	defer f.mu.Unlock()
	live := map[string][]byte{}
	for _, log := range f.logs {
		for _, b := range log {
			for _, r := range b.Records {
				if r.Null {
					delete(live, string(r.Key))
				} else {
					live[string(r.Key)] = r.Value
				}
			}
		}
	}
	return live
}

// put appends a record as somebody else would.
func (f *fake) put(partition int32, key string, value []byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	b := &fakeBatch{
		Producer: kafka.Producer{ID: -1, Epoch: -1}, Count: 1,
		Records: []fakeRecord{{Key: []byte(key), Value: value, Null: value == nil}},
	}
	b.Sequence = -1
	b.Base = f.next(partition)
	b.Records[0].Offset = b.Base
	f.logs[partition] = append(f.logs[partition], *b)
}
