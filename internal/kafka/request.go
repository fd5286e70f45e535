// SPDX-License-Identifier: Apache-2.0

package kafka

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"slices"
	"time"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/metadata"
	produceapi "github.com/segmentio/kafka-go/protocol/produce"
)

// known returns what the library knows of a topic. No broker is asked.
func (c *Client) known(ctx context.Context, topic string) (*metadata.Response, error) {
	answer, err := c.transport.RoundTrip(ctx, c.addr, &metadata.Request{TopicNames: []string{topic}})
	if err != nil {
		return nil, err
	}
	return answer.(*metadata.Response), nil
}

// leaderOf fails as the library's own requests do.
func leaderOf(cluster protocol.Cluster, p place) (none protocol.Broker, _ error) {
	topic, ok := cluster.Topics[p.topic]
	if !ok {
		return none, protocol.NewErrNoTopic(p.topic)
	}
	partition, ok := topic.Partitions[p.partition]
	if !ok {
		return none, protocol.NewErrNoPartition(p.topic, p.partition)
	}
	b, ok := cluster.Brokers[partition.Leader]
	if !ok {
		return none, protocol.NewErrNoLeader(p.topic, p.partition)
	}
	return b, nil
}

// send makes one Produce request, see [coalescer].
func (c *Client) send(leader int32, load []*parcel) ([]delivery, error) {
	ctx, cancel := context.WithTimeout(c.life, c.cfg.Timeout)
	defer cancel()
	m, err := c.transport.RoundTrip(ctx, c.addr, &produce{
		client: c.cfg.ClientID, timeout: c.cfg.Timeout, leader: leader,
		load: load,
	})
	if err != nil {
		return nil, err
	}
	return m.(*produce).deliveries, nil
}

// produce is a Produce request for partitions of one leader, acknowledged by all replicas that are in sync, and its
// answer. It writes itself, because the library would copy each batch twice. The format is that of the Kafka
// documentation, chapter "Produce API", versions 3 to 8, which differ in the answers only.
type produce struct {
	client  string
	timeout time.Duration
	leader  int32
	load    []*parcel
	version int16
	// deliveries are the answer, in the order of load.
	deliveries []delivery
}

// ApiKey implements [protocol.Message].
func (*produce) ApiKey() protocol.ApiKey { return protocol.Produce }

// Broker implements [protocol.BrokerMessage]. A partition that has another leader now is one that this broker does not
// lead.
func (r *produce) Broker(cluster protocol.Cluster) (protocol.Broker, error) {
	for _, p := range r.load {
		b, err := leaderOf(cluster, p.place)
		if err != nil {
			return b, err
		}
		if b.ID != r.leader {
			return b, kafkago.NotLeaderForPartition
		}
	}
	return cluster.Brokers[r.leader], nil
}

const oldestProduce, newestProduce = 3, 8

// Required implements [protocol.RawExchanger].
func (r *produce) Required(versions map[protocol.ApiKey]int16) bool {
	r.version = versions[protocol.Produce]
	return true
}

// RawExchange implements [protocol.RawExchanger]. Errors of the connection are as they are, as those of the library's
// own requests.
func (r *produce) RawExchange(rw io.ReadWriter) (protocol.Message, error) {
	if r.version < oldestProduce || r.version > newestProduce {
		return nil,
			fmt.Errorf("the broker takes version %d of Produce requests at most; those from %d on are needed, which Kafka has "+
				"from 0.11 on", r.version, oldestProduce)
	}
	if err := r.write(rw); err != nil {
		return nil, err
	}
	_, answer, err := protocol.ReadResponse(rw, protocol.Produce, r.version)
	if err != nil {
		return nil, err
	}
	r.read(answer.(*produceapi.Response))
	return r, nil
}

// write writes the request: what is before a topic's first batch at once, and each batch from where it is.
func (r *produce) write(w io.Writer) error {
	be := binary.BigEndian
	load := slices.Clone(r.load)
	slices.SortStableFunc(load, func(a, b *parcel) int { return cmp.Compare(a.place.topic, b.place.topic) })
	topics := topicsOf(load)
	size := 0
	head := make([]byte, 4, 64+len(r.client)+len(load[0].place.topic))
	head = be.AppendUint16(head, uint16(protocol.Produce))
	head = be.AppendUint16(head, uint16(r.version))     //nolint:gosec // it was compared
	head = be.AppendUint32(head, 0)                     // correlation id: nothing else is under way
	head = be.AppendUint16(head, uint16(len(r.client))) //nolint:gosec // a short name
	head = append(head, r.client...)
	head = append(head, 0xff, 0xff)                                // no transaction
	head = append(head, 0xff, 0xff)                                // acknowledged by all
	head = be.AppendUint32(head, uint32(r.timeout.Milliseconds())) //nolint:gosec // seconds
	head = be.AppendUint32(head, uint32(len(topics)))              //nolint:gosec // some
	size += len(head) - 4
	for _, t := range topics {
		size += 2 + len(t[0].place.topic) + 4
		for _, p := range t {
			size += len(p.data)
		}
	}
	be.PutUint32(head, uint32(size)) //nolint:gosec // some MiB
	for _, t := range topics {
		name := t[0].place.topic
		head = be.AppendUint16(head, uint16(len(name))) //nolint:gosec // Kafka's names have 249 bytes at most
		head = append(head, name...)
		head = be.AppendUint32(head, uint32(len(t))) //nolint:gosec // some
		if _, err := w.Write(head); err != nil {
			return err
		}
		for _, p := range t {
			if _, err := w.Write(p.data); err != nil {
				return err
			}
		}
		head = head[:0]
	}
	return nil
}

// topicsOf cuts a sorted load into the parts of its topics.
func topicsOf(load []*parcel) (topics [][]*parcel) {
	for begin, end := 0, 1; end <= len(load); end++ {
		if end == len(load) || load[end].place.topic != load[begin].place.topic {
			topics = append(topics, load[begin:end])
			begin = end
		}
	}
	return topics
}

// read takes what became of each parcel from an answer.
func (r *produce) read(answer *produceapi.Response) {
	found := map[place]delivery{}
	for _, t := range answer.Topics {
		for _, p := range t.Partitions {
			d := delivery{offset: p.BaseOffset}
			if p.ErrorCode != 0 {
				d.err = kafkago.Error(p.ErrorCode)
				if p.ErrorMessage != "" {
					d.err = fmt.Errorf("%w: %s", d.err, p.ErrorMessage)
				}
			}
			found[place{t.Topic, p.Partition}] = d
		}
	}
	for _, p := range r.load {
		d, ok := found[p.place]
		if !ok {
			d.err = errMissing
		}
		r.deliveries = append(r.deliveries, d)
	}
}
