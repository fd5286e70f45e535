// SPDX-License-Identifier: Apache-2.0

package kafkabroker

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/segmentio/kafka-go"
)

// adminTimeout ends what would be tried without end.
const adminTimeout = time.Minute

// Admin returns a client that may do everything. It is closed with the cluster; a broker that is paused may hold it up.
func (c *Cluster) Admin() *kafka.Client {
	var addresses []string
	for _, n := range c.brokers() {
		addresses = append(addresses, n.address(internalListener))
	}
	return &kafka.Client{Addr: kafka.TCP(addresses...), Transport: c.transport, Timeout: tryTimeout}
}

// ask polls with a client of the brokers that serve, until try returns nil or an error for which asking again is no
// help.
func (c *Cluster) ask(ctx context.Context, what string, try func(context.Context, *kafka.Client) error) error {
	ctx, cancel := context.WithTimeout(ctx, adminTimeout)
	defer cancel()
	return poll(ctx, what, func(ctx context.Context) error {
		up := c.serving()
		if len(up) == 0 {
			return final{errNoBroker}
		}
		cl, done := client(up...)
		defer done()
		err := try(ctx, cl)
		// That is kafka-go's word for a leader that just died.
		if k, ok := errors.AsType[kafka.Error](err); ok && !k.Temporary() && k != kafka.BrokerNotAvailable {
			return final{err}
		}
		return err
	})
}

// CreateTopic creates a topic and returns once all its partitions have leaders that serve them. With replication 0 it
// has as many replicas as [Config] says. A topic that exists is an error.
func (c *Cluster) CreateTopic(
	ctx context.Context, name string, partitions, replication int, configs map[string]string,
) error {
	topic := kafka.TopicConfig{Topic: name, NumPartitions: partitions, ReplicationFactor: replication}
	if replication == 0 {
		topic.ReplicationFactor = -1
	}
	for _, key := range slices.Sorted(maps.Keys(configs)) {
		topic.ConfigEntries = append(topic.ConfigEntries, kafka.ConfigEntry{ConfigName: key, ConfigValue: configs[key]})
	}
	unanswered := false
	err := c.ask(ctx, "create topic "+name, func(ctx context.Context, cl *kafka.Client) error {
		res, err := cl.CreateTopics(ctx, &kafka.CreateTopicsRequest{Topics: []kafka.TopicConfig{topic}})
		if err != nil {
			unanswered = true
			return err
		}
		switch err := res.Errors[name]; {
		case unanswered && errors.Is(err, kafka.TopicAlreadyExists):
			return nil // it was created by the attempt without an answer
		case replication <= c.cfg.Brokers && errors.Is(err, kafka.InvalidReplicationFactor):
			return fmt.Errorf("a broker is fenced: %v", err) //nolint:errorlint // it passes: a heartbeat was late
		default:
			return err
		}
	})
	if err != nil {
		return err
	}
	ends := make([]kafka.OffsetRequest, partitions)
	for i := range ends {
		ends[i] = kafka.LastOffsetOf(i)
	}
	return c.ask(ctx, "wait for topic "+name, func(ctx context.Context, cl *kafka.Client) error {
		res, err := cl.ListOffsets(ctx, &kafka.ListOffsetsRequest{Topics: map[string][]kafka.OffsetRequest{name: ends}})
		if err != nil {
			return err
		}
		for _, p := range res.Topics[name] {
			if p.Error != nil {
				return p.Error
			}
		}
		return nil
	})
}

// Allow lets a user do something with a resource of this name, from now on for every broker that runs. Cluster-wide
// operations have the resource [kafka.ResourceTypeCluster] with the name "kafka-cluster".
func (c *Cluster) Allow(
	ctx context.Context, user string, resource kafka.ResourceType, name string, operations ...kafka.ACLOperationType,
) error {
	var entries []kafka.ACLEntry
	for _, o := range operations {
		entries = append(entries, kafka.ACLEntry{
			ResourceType: resource, ResourceName: name, ResourcePatternType: kafka.PatternTypeLiteral,
			Principal: "User:" + user, Host: "*", Operation: o, PermissionType: kafka.ACLPermissionTypeAllow,
		})
	}
	what := fmt.Sprintf("allow %v of %s to %s", operations, name, user)
	err := c.ask(ctx, what, func(ctx context.Context, cl *kafka.Client) error {
		res, err := cl.CreateACLs(ctx, &kafka.CreateACLsRequest{ACLs: entries})
		if err != nil {
			return err
		}
		return errors.Join(res.Errors...)
	})
	if err != nil {
		return err
	}
	for _, n := range c.serving() {
		for _, e := range entries {
			if err := n.applies(ctx, what, e); err != nil {
				return err
			}
		}
	}
	return nil
}

// applies waits until a broker has heard of an entry.
func (n *node) applies(ctx context.Context, what string, e kafka.ACLEntry) error {
	ctx, cancel := context.WithTimeout(ctx, adminTimeout)
	defer cancel()
	return poll(ctx, what, func(ctx context.Context) error {
		cl, done := client(n)
		defer done()
		res, err := cl.DescribeACLs(ctx, &kafka.DescribeACLsRequest{Filter: kafka.ACLFilter{
			ResourceTypeFilter: e.ResourceType, ResourceNameFilter: e.ResourceName,
			ResourcePatternTypeFilter: e.ResourcePatternType,
			PrincipalFilter:           e.Principal, HostFilter: e.Host, Operation: e.Operation, PermissionType: e.PermissionType,
		}})
		switch {
		case err != nil:
			return err
		case res.Error != nil:
			return res.Error
		case len(res.Resources) == 0:
			return fmt.Errorf("%s has not heard of it", n.name)
		}
		return nil
	})
}

// Leader returns the broker that leads a partition, as far as the brokers that serve know; right after one died they
// may not know that yet.
func (c *Cluster) Leader(ctx context.Context, topic string, partition int) (int, error) {
	p, err := c.partition(ctx, topic, partition)
	return p.Leader.ID, err
}

// partition waits until a partition has a leader.
func (c *Cluster) partition(ctx context.Context, topic string, partition int) (found kafka.Partition, err error) {
	what := fmt.Sprintf("look for the leader of %s/%d", topic, partition)
	err = c.ask(ctx, what, func(ctx context.Context, cl *kafka.Client) error {
		res, err := cl.Metadata(ctx, &kafka.MetadataRequest{Topics: []string{topic}})
		if err != nil {
			return err
		}
		i := slices.IndexFunc(res.Topics[0].Partitions, func(p kafka.Partition) bool { return p.ID == partition })
		switch {
		case res.Topics[0].Error != nil:
			return res.Topics[0].Error
		case i < 0:
			return final{errors.New("there is no such partition")}
		}
		found = res.Topics[0].Partitions[i]
		return found.Error
	})
	return found, err
}

// MoveLeader makes a broker, which must have a replica of the partition, its leader, and returns once it is.
func (c *Cluster) MoveLeader(ctx context.Context, topic string, partition, broker int) error {
	p, err := c.partition(ctx, topic, partition)
	if err != nil {
		return err
	}
	order := []int{broker}
	for _, r := range p.Replicas {
		if r.ID != broker {
			order = append(order, r.ID)
		}
	}
	if len(order) != len(p.Replicas) {
		return fmt.Errorf("move %s/%d: broker %d has no replica of it", topic, partition, broker)
	}
	what := fmt.Sprintf("move %s/%d to broker %d", topic, partition, broker)
	return c.ask(ctx, what, func(ctx context.Context, cl *kafka.Client) error {
		if now, err := c.Leader(ctx, topic, partition); err != nil || now == broker {
			return err
		}
		assigned, err := cl.AlterPartitionReassignments(ctx, &kafka.AlterPartitionReassignmentsRequest{
			Topic: topic, Timeout: tryTimeout,
			Assignments: []kafka.AlterPartitionReassignmentsRequestAssignment{{PartitionID: partition, BrokerIDs: order}},
		})
		if err != nil {
			return err
		}
		elected, err := cl.ElectLeaders(ctx, &kafka.ElectLeadersRequest{
			Topic: topic, Partitions: []int{partition},
			Timeout: tryTimeout,
		})
		if err != nil {
			return err
		}
		// The next attempt looks up whether it does.
		return errors.Join(errors.New("it does not lead yet"), assigned.Error, elected.Error)
	})
}
