// SPDX-License-Identifier: Apache-2.0

package kafkabroker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/segmentio/kafka-go"
)

const (
	pollInterval = 50 * time.Millisecond
	tryTimeout   = 10 * time.Second // of one attempt of anything
	transaction  = "kube-eventbridge-test-ready"
)

// poll calls try until it returns nil. It gives up with ctx, and with the first error that is final.
func poll(ctx context.Context, what string, try func(context.Context) error) error {
	for {
		tryCtx, cancel := context.WithTimeout(ctx, tryTimeout)
		err := try(tryCtx)
		cancel()
		if err == nil {
			return nil
		}
		if f, ok := errors.AsType[final](err); ok {
			return fmt.Errorf("%s: %w", what, f.error)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s: %w: %w", what, context.Cause(ctx), err)
		case <-time.After(pollInterval):
		}
	}
}

// final is an error that no further attempt would mend.
type final struct{ error }

// client returns a client that begins with some brokers and knows nothing from before, and how to be rid of it.
func client(nodes ...*node) (*kafka.Client, func()) {
	var addresses []string
	for _, n := range nodes {
		addresses = append(addresses, n.address(internalListener))
	}
	transport := &kafka.Transport{DialTimeout: tryTimeout / 2}
	return &kafka.Client{Addr: kafka.TCP(addresses...), Transport: transport}, transport.CloseIdleConnections
}

// ready waits until each of some brokers knows all of them and serves a partition. If they are all of the cluster, it
// also waits for producer ids.
func (c *Cluster) ready(ctx context.Context, brokers []*node) error {
	topic := fmt.Sprintf("kube-eventbridge-test-ready-%x", time.Now().UnixNano())
	err := poll(ctx, "wait for Kafka", func(ctx context.Context) error {
		err := c.probe(ctx, topic, brokers)
		if err == nil {
			return nil
		}
		for _, n := range c.nodes {
			if slices.Contains(brokers, n) || !n.broker && len(brokers) == len(c.brokers()) {
				if died := n.died(); died != nil {
					return final{errors.Join(died, err)}
				}
			}
		}
		return err
	})
	if err != nil {
		return err
	}
	return poll(ctx, "remove the topic of the check", func(ctx context.Context) error {
		cl, done := client(brokers...)
		defer done()
		res, err := cl.DeleteTopics(ctx, &kafka.DeleteTopicsRequest{Topics: []string{topic}})
		// It may have been deleted by the attempt before.
		if err == nil && !errors.Is(res.Errors[topic], kafka.UnknownTopicOrPartition) {
			err = res.Errors[topic]
		}
		return err
	})
}

// probe makes one attempt at everything that a broker that is ready can do.
func (c *Cluster) probe(ctx context.Context, topic string, brokers []*node) error {
	for _, n := range brokers {
		if err := n.knows(ctx, brokers); err != nil {
			return err
		}
	}
	cl, done := client(brokers...)
	defer done()
	if len(brokers) == len(c.brokers()) {
		for _, id := range []string{"", transaction} {
			if err := askProducerID(ctx, cl, id); err != nil {
				return err
			}
		}
	}
	create := kafka.TopicConfig{
		Topic: topic, NumPartitions: -1, ReplicationFactor: -1,
		ConfigEntries: []kafka.ConfigEntry{{ConfigName: "min.insync.replicas", ConfigValue: "1"}},
	}
	for i, n := range brokers {
		create.ReplicaAssignments = append(create.ReplicaAssignments,
			kafka.ReplicaAssignment{Partition: i, Replicas: []int{n.id}})
	}
	created, err := cl.CreateTopics(ctx, &kafka.CreateTopicsRequest{Topics: []kafka.TopicConfig{create}})
	if err == nil && !errors.Is(created.Errors[topic], kafka.TopicAlreadyExists) { // by the attempt before
		err = created.Errors[topic]
	}
	if err != nil {
		return fmt.Errorf("create a topic: %w", err)
	}
	for i, n := range brokers {
		res, err := cl.Produce(ctx, &kafka.ProduceRequest{
			Topic: topic, Partition: i, RequiredAcks: kafka.RequireAll,
			Records: kafka.NewRecordReader(kafka.Record{Value: kafka.NewBytes([]byte("ready"))}),
		})
		if err == nil {
			err = res.Error
		}
		if err != nil {
			return fmt.Errorf("produce to %s: %w", n.name, err)
		}
	}
	return nil
}

func askProducerID(ctx context.Context, cl *kafka.Client, transaction string) error {
	res, err := cl.InitProducerID(ctx, &kafka.InitProducerIDRequest{
		TransactionalID: transaction, TransactionTimeoutMs: 10_000, ProducerID: -1, ProducerEpoch: -1,
	})
	if err == nil {
		err = res.Error
	}
	if err != nil {
		return fmt.Errorf("ask for a producer id (transactional id %q): %w", transaction, err)
	}
	return nil
}

// knows is nil once a broker takes part, and has heard of others.
func (n *node) knows(ctx context.Context, others []*node) error {
	cl, done := client(n)
	defer done()
	res, err := cl.Metadata(ctx, &kafka.MetadataRequest{Topics: []string{}})
	if err != nil {
		return fmt.Errorf("ask %s: %w", n.name, err)
	}
	for _, o := range others {
		if !slices.ContainsFunc(res.Brokers, func(b kafka.Broker) bool { return b.ID == o.id }) {
			return fmt.Errorf("%s does not know %s yet", n.name, o.name)
		}
	}
	return nil
}
