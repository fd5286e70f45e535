// SPDX-License-Identifier: Apache-2.0

package kafka

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
)

// Record is one that was read.
type Record struct {
	Offset int64
	Key    []byte
	// Value is nil for a null value.
	Value   []byte
	Headers []Header
	Time    time.Time
}

// Header is a header of a record.
type Header struct {
	Name  string
	Value []byte
}

// Bounds are the offsets of the oldest record of a partition and of the one that comes next. They are equal where there
// is no record.
type Bounds struct{ First, Next int64 }

const (
	fetchBytes = 4 << 20
	fetchWait  = 500 * time.Millisecond
)

// boundsAtOnce is how many partitions are asked for at a time: kafka-go opens two connections for each.
const boundsAtOnce = 4

// Bounds returns what each of a topic's partitions has, as its leader says.
func (c *Client) Bounds(ctx context.Context, topic string, partitions int) (bounds map[int32]Bounds, err error) {
	bounds = make(map[int32]Bounds, partitions)
	for first := 0; first < partitions; first += boundsAtOnce {
		last := min(first+boundsAtOnce, partitions)
		err := c.do(ctx, "read the bounds of "+topic, "operation Describe on Topic "+topic, func(ctx context.Context) error {
			return c.bounds(ctx, topic, first, last, bounds)
		})
		if err != nil {
			return nil, err
		}
	}
	return bounds, nil
}

// bounds adds what some partitions have.
func (c *Client) bounds(ctx context.Context, topic string, first, last int, bounds map[int32]Bounds) error {
	var offsets []kafkago.OffsetRequest
	for n := first; n < last; n++ {
		offsets = append(offsets, kafkago.FirstOffsetOf(n), kafkago.LastOffsetOf(n))
	}
	var res *kafkago.ListOffsetsResponse
	err := c.leaders.ask(ctx, topic, first, last, func() (err error) {
		res, err = c.client.ListOffsets(ctx,
			&kafkago.ListOffsetsRequest{Topics: map[string][]kafkago.OffsetRequest{topic: offsets}})
		return err
	})
	if err != nil {
		return err
	}
	for _, p := range res.Topics[topic] {
		if p.Error != nil {
			return p.Error
		}
		bounds[int32(p.Partition)] = Bounds{First: p.FirstOffset, Next: p.LastOffset} //nolint:gosec // it was an int32 on the wire
	}
	if len(bounds) != last {
		return errors.New("the answer has not all partitions")
	}
	return nil
}

// Since returns the offset of a partition's first record whose time is not before t, in milliseconds as records have
// it; -1 if there is none.
func (c *Client) Since(ctx context.Context, topic string, partition int32, t time.Time) (offset int64, err error) {
	from := max(t.UnixMilli(), 0) // what is less has another meaning
	err = c.do(ctx, fmt.Sprintf("look for a time in %s/%d", topic, partition), "operation Describe on Topic "+topic,
		func(ctx context.Context) error {
			var res *kafkago.ListOffsetsResponse
			err := c.leaders.ask(ctx, topic, int(partition), int(partition)+1, func() (err error) {
				res, err = c.client.ListOffsets(ctx, &kafkago.ListOffsetsRequest{
					Topics: map[string][]kafkago.OffsetRequest{topic: {{Partition: int(partition), Timestamp: from}}},
				})
				return err
			})
			if err != nil {
				return err
			}
			answers := res.Topics[topic]
			if len(answers) != 1 {
				return errors.New("the answer has not the partition")
			}
			if answers[0].Error != nil {
				return answers[0].Error
			}
			offset = -1
			for found := range answers[0].Offsets {
				offset = found
			}
			return nil
		})
	return offset, err
}

// Fetch calls f for records of a partition from an offset on, in order, as many as one answer has, and returns the
// offset to go on from, and the one that the next record to be written will have. Where records were compacted away the
// next offset is further than the last record that f saw. The record is f's; an error of f is returned as it is.
func (c *Client) Fetch(
	ctx context.Context, topic string, partition int32, offset int64, f func(*Record) error,
) (next, end int64, err error) {
	return c.fetch(ctx, topic, partition, offset, fetchBytes, f)
}

// FetchAtMost is [Client.Fetch] for about as many bytes, and at least one batch.
func (c *Client) FetchAtMost(
	ctx context.Context, topic string, partition int32, offset, most int64, f func(*Record) error,
) (next, end int64, err error) {
	return c.fetch(ctx, topic, partition, offset, min(most, fetchBytes), f)
}

// At returns the record at an offset, nil if there is none, or none any more.
func (c *Client) At(ctx context.Context, topic string, partition int32, offset int64) (found *Record, err error) {
	// A broker sends the whole batch that an offset is in, however little is asked for.
	_, _, err = c.fetch(ctx, topic, partition, offset, 1, func(r *Record) error {
		if r.Offset == offset {
			found = r
		}
		return errEnough
	})
	if errors.Is(err, errEnough) || OutOfRange(err) {
		err = nil
	}
	return found, err
}

// errEnough ends a fetch that has shown what was looked for.
var errEnough = errors.New("enough")

func (c *Client) fetch(
	ctx context.Context, topic string, partition int32, offset, most int64, f func(*Record) error,
) (next, end int64, err error) {
	var records kafkago.RecordReader
	err = c.do(ctx, fmt.Sprintf("fetch from %s/%d", topic, partition), "operation Read on Topic "+topic,
		func(ctx context.Context) error {
			var res *kafkago.FetchResponse
			err := c.leaders.ask(ctx, topic, int(partition), int(partition)+1, func() (err error) {
				res, err = c.client.Fetch(ctx, &kafkago.FetchRequest{
					Topic: topic, Partition: int(partition), Offset: offset, MinBytes: 1, MaxBytes: most, MaxWait: fetchWait,
				})
				return err
			})
			switch {
			case err != nil:
				return err
			case res.Error != nil:
				return res.Error
			}
			records, end = res.Records, res.HighWatermark
			return nil
		})
	if err != nil {
		return offset, 0, err
	}
	next, err = read(records, offset, f)
	if err == nil {
		// What is below the high watermark is in the answer. A batch without records, which the broker keeps as the
		// last one of an idempotent producer, says only where it begins.
		next = max(next, min(max(lastBatch(records), offset)+1, end))
	}
	return next, end, err
}

// lastBatch returns where the last batch of an answer begins.
func lastBatch(records kafkago.RecordReader) int64 {
	stream, ok := records.(*protocol.RecordStream)
	if !ok || len(stream.Records) == 0 {
		return -1
	}
	if b, ok := stream.Records[len(stream.Records)-1].(interface{ Offset() int64 }); ok {
		return b.Offset()
	}
	return -1
}

// read hands on the records from an offset on. An answer begins with the batch that has the offset.
func read(records kafkago.RecordReader, offset int64, f func(*Record) error) (next int64, err error) {
	next = offset
	for {
		r, err := records.ReadRecord()
		switch {
		case errors.Is(err, io.EOF):
			return next, nil
		case err != nil:
			return next, fmt.Errorf("read records: %w", err)
		case r.Offset < offset:
			continue
		}
		record, err := recordOf(r)
		if err == nil {
			err = f(record)
		}
		if err != nil {
			return next, err
		}
		next = r.Offset + 1
	}
}

func recordOf(r *kafkago.Record) (*Record, error) {
	key, err := kafkago.ReadAll(r.Key)
	if err != nil {
		return nil, fmt.Errorf("read key: %w", err)
	}
	value, err := kafkago.ReadAll(r.Value)
	if err != nil {
		return nil, fmt.Errorf("read value: %w", err)
	}
	out := &Record{Offset: r.Offset, Key: key, Value: value, Time: r.Time, Headers: make([]Header, len(r.Headers))}
	for i, h := range r.Headers {
		out.Headers[i] = Header{Name: h.Key, Value: h.Value}
	}
	return out, nil
}
