// SPDX-License-Identifier: Apache-2.0

package kafka

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"slices"
	"strconv"
	"sync"

	kafkago "github.com/segmentio/kafka-go"

	"github.com/kube-eventbridge/kube-eventbridge/internal/kafka"
)

// fake is a cluster with one topic, which does what real brokers were seen to do. One with a path remembers everything
// in a file, so that another process can go on from there.
type fake struct {
	mu sync.Mutex

	partitions int // 0: the topic is missing
	settings   map[string]string
	epochs     map[string]kafka.Producer
	producers  int64
	logs       map[int32][]fakeBatch
	firsts     map[int32]int64

	path string
	// fault is asked before each produce request; nil is none.
	fault func(n int, r *fakeBatch) fault
	// requests counts produce requests, bytes is how large they were; fetches counts what was read.
	requests, bytes, fetches int
	// unread are the requests that got lost: a connection may still read them.
	unread [][]byte
	// forbidden are the names of what is not permitted.
	forbidden map[string]bool
	// forgets: transactional ids are unknown.
	forgets bool
	// away is the answer to everything while it is not nil.
	away error
	// perFetch is how many batches a fetch returns; 0 is all.
	perFetch int
}

// fault is what goes wrong with a produce request.
type fault struct {
	// lose: the batch does not arrive. Otherwise it does, and then err is the answer.
	lose bool
	err  error
}

type fakeRecord struct {
	Offset int64
	Key    []byte // JSON would mend a string
	Value  []byte
	Null   bool
}

type fakeBatch struct {
	Producer        kafka.Producer
	Base            int64
	Sequence, Count int32
	Records         []fakeRecord
}

func newFake(partitions int) *fake {
	f := &fake{
		partitions: partitions, epochs: map[string]kafka.Producer{}, logs: map[int32][]fakeBatch{},
		firsts: map[int32]int64{},
	}
	f.settings = map[string]string{settingCleanup: compact, settingTombstone: "86400000", settingSize: "1048588"}
	return f
}

// reopenFake returns the one that the file has, or a new one.
func reopenFake(path string) (*fake, error) {
	f := newFake(3)
	f.path = path
	file, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return f, nil
	}
	if err != nil {
		return nil, err
	}
	defer file.Close()
	in := bufio.NewReader(file)
	for whole := 0; ; {
		var line fakeLine
		text, err := in.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return f, os.Truncate(path, int64(whole)) // whoever wrote the rest was killed
		}
		whole += len(text)
		if err == nil {
			err = json.Unmarshal(text, &line)
		}
		if err != nil {
			return nil, err
		}
		if line.Batch != nil {
			f.logs[line.Partition] = append(f.logs[line.Partition], *line.Batch)
			continue
		}
		f.epochs[line.Name], f.producers = line.ID, max(f.producers, line.ID.ID+1)
	}
}

// fakeLine is what happened: a batch was appended, or an id given out.
type fakeLine struct {
	Partition int32
	Batch     *fakeBatch
	Name      string
	ID        kafka.Producer
}

func (f *fake) note(l fakeLine) error {
	if f.path == "" {
		return nil
	}
	text, err := json.Marshal(l)
	if err != nil {
		return err
	}
	file, err := os.OpenFile(f.path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(append(text, '\n'))
	return errors.Join(err, file.Close())
}

func (f *fake) answer(ctx context.Context, what string) error {
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case f.away != nil:
		return f.away
	case f.forbidden[what]:
		return kafkago.TopicAuthorizationFailed
	default:
		return nil
	}
}

func (f *fake) Partitions(ctx context.Context, _ string) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.answer(ctx, "Metadata"); err != nil {
		return 0, err
	}
	if f.partitions == 0 {
		return 0, kafka.ErrNoTopic
	}
	return f.partitions, nil
}

func (f *fake) CreateTopic(ctx context.Context, t kafka.TopicSpec) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.answer(ctx, "CreateTopics"); err != nil {
		return err
	}
	f.partitions = t.Partitions
	for name, value := range t.Settings {
		f.settings[name] = value
	}
	return nil
}

func (f *fake) Settings(ctx context.Context, _ string, names ...string) (map[string]string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.answer(ctx, "DescribeConfigs"); err != nil {
		return nil, err
	}
	settings := map[string]string{}
	for _, name := range names {
		settings[name] = f.settings[name]
	}
	return settings, nil
}

func (f *fake) InitProducer(ctx context.Context, name string, previous *kafka.Producer) (kafka.Producer, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.answer(ctx, "InitProducerId "+name); err != nil {
		return kafka.Producer{}, err
	}
	if f.forgets && name != "" {
		delete(f.epochs, name)
		f.forgets = false
	}
	id, known := f.epochs[name]
	switch {
	case name != "" && known && previous != nil && *previous != id:
		return id, kafkago.ProducerFenced
	case name != "" && !known && previous != nil:
		return id, kafkago.InvalidProducerIDMapping
	case name != "" && known:
		id.Epoch++
	default:
		id = kafka.Producer{ID: f.producers}
		f.producers++
	}
	if name != "" {
		f.epochs[name] = id
	}
	return id, f.note(fakeLine{Name: name, ID: id})
}

func (f *fake) Produce(ctx context.Context, _ string, partition int32, addressed []byte) (int64, error) {
	sized := addressed[4:]
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.answer(ctx, "Produce"); err != nil {
		return 0, err
	}
	b, err := decodeBatch(sized)
	if err != nil {
		return 0, err
	}
	f.requests++
	f.bytes += len(sized)
	var goesWrong fault
	if f.fault != nil {
		goesWrong = f.fault(f.requests, b)
	}
	if goesWrong.lose {
		f.unread = append(f.unread, sized)
		return 0, goesWrong.err
	}
	if limit, err := strconv.Atoi(f.settings[settingSize]); err == nil && len(sized)-4 > limit {
		return 0, kafkago.MessageSizeTooLarge
	}
	offset, err := f.add(partition, b)
	if err == nil {
		err = goesWrong.err
	}
	return offset, err
}

// add appends a batch, unless its producer must not, or has already.
func (f *fake) add(partition int32, b *fakeBatch) (int64, error) {
	log := f.logs[partition]
	for i := len(log) - 1; i >= 0; i-- {
		last := &log[i]
		if last.Producer.ID != b.Producer.ID {
			continue
		}
		switch next := last.Sequence + last.Count; {
		case b.Producer.Epoch < last.Producer.Epoch:
			return 0, kafkago.InvalidProducerEpoch
		case b.Producer.Epoch > last.Producer.Epoch && b.Sequence != 0:
			return 0, kafkago.OutOfOrderSequenceNumber
		case b.Producer.Epoch > last.Producer.Epoch:
		case b.Sequence == last.Sequence && b.Count == last.Count:
			return last.Base, nil
		case b.Sequence != next:
			return 0, kafkago.OutOfOrderSequenceNumber
		}
		break
	}
	b.Base = f.next(partition)
	for i := range b.Records {
		b.Records[i].Offset = b.Base + int64(i)
	}
	f.logs[partition] = append(log, *b)
	return b.Base, f.note(fakeLine{Partition: partition, Batch: b})
}

// next is the offset of the record that comes next.
func (f *fake) next(partition int32) int64 {
	log := f.logs[partition]
	if len(log) == 0 {
		return f.firsts[partition]
	}
	return log[len(log)-1].Base + int64(log[len(log)-1].Count)
}

func (f *fake) Bounds(ctx context.Context, _ string, partitions int) (map[int32]kafka.Bounds, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.answer(ctx, "ListOffsets"); err != nil {
		return nil, err
	}
	bounds := map[int32]kafka.Bounds{}
	for p := range int32(partitions) {
		bounds[p] = kafka.Bounds{First: f.firsts[p], Next: f.next(p)}
	}
	return bounds, nil
}

func (f *fake) Fetch(
	ctx context.Context, _ string, partition int32, offset int64, do func(*kafka.Record) error,
) (next, end int64, err error) {
	f.mu.Lock()
	f.fetches++
	defer f.mu.Unlock()
	if err := f.answer(ctx, "Fetch"); err != nil {
		return offset, 0, err
	}
	next, end = offset, f.next(partition)
	if offset < f.firsts[partition] || offset > end {
		return offset, 0, kafkago.OffsetOutOfRange
	}
	for read, log := 0, f.logs[partition]; len(log) > 0 && (f.perFetch == 0 || read < f.perFetch); log = log[1:] {
		b := log[0]
		if b.Base+int64(b.Count) <= offset {
			continue
		}
		for _, r := range b.Records {
			if r.Offset < offset {
				continue
			}
			record := &kafka.Record{Offset: r.Offset, Key: slices.Clone(r.Key), Value: slices.Clone(r.Value)}
			if r.Null {
				record.Value = nil
			}
			if err := do(record); err != nil {
				return next, end, err
			}
		}
		next = b.Base + int64(b.Count)
		read++
	}
	return next, end, nil
}
