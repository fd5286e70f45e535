// SPDX-License-Identifier: Apache-2.0

package kafka

import (
	"context"
	"errors"
	"fmt"
	"slices"

	kafkago "github.com/segmentio/kafka-go"
)

// ErrNoTopic says that a topic does not exist, or may not be seen.
var ErrNoTopic = errors.New("there is no such topic, or it may not be seen")

// Topics returns the number of partitions of each topic that exists and may be seen.
func (c *Client) Topics(ctx context.Context) (partitions map[string]int, err error) {
	err = c.do(ctx, "ask for topics", "", func(ctx context.Context) error {
		res, err := c.client.Metadata(ctx, &kafkago.MetadataRequest{})
		if err != nil {
			return err
		}
		partitions = map[string]int{}
		for _, t := range res.Topics {
			if t.Error == nil && !t.Internal {
				partitions[t.Name] = len(t.Partitions)
			}
		}
		return nil
	})
	return partitions, err
}

// Partitions returns the number of partitions of a topic; the error is [ErrNoTopic] if there is none.
func (c *Client) Partitions(ctx context.Context, topic string) (n int, err error) {
	err = c.do(ctx, "ask for topic "+topic, "", func(ctx context.Context) error {
		res, err := c.client.Metadata(ctx, &kafkago.MetadataRequest{Topics: []string{topic}})
		switch {
		case err != nil:
			return err
		case len(res.Topics) != 1, errors.Is(res.Topics[0].Error, kafkago.UnknownTopicOrPartition):
			return ErrNoTopic
		case res.Topics[0].Error != nil:
			return res.Topics[0].Error
		}
		n = len(res.Topics[0].Partitions)
		return nil
	})
	return n, err
}

// TopicSpec is a topic to create. Zero partitions or replicas mean what the broker has for a default.
type TopicSpec struct {
	Name                 string
	Partitions, Replicas int
	Settings             map[string]string
}

// CreateTopic creates a topic. One that exists is left as it is, and is no error.
func (c *Client) CreateTopic(ctx context.Context, t TopicSpec) error {
	config := kafkago.TopicConfig{Topic: t.Name, NumPartitions: -1, ReplicationFactor: -1}
	if t.Partitions > 0 {
		config.NumPartitions = t.Partitions
	}
	if t.Replicas > 0 {
		config.ReplicationFactor = t.Replicas
	}
	for name, value := range t.Settings {
		config.ConfigEntries = append(config.ConfigEntries, kafkago.ConfigEntry{ConfigName: name, ConfigValue: value})
	}
	return c.do(ctx, "create topic "+t.Name, "operation Create on Topic "+t.Name+", or on the Cluster",
		func(ctx context.Context) error {
			res, err := c.client.CreateTopics(ctx, &kafkago.CreateTopicsRequest{Topics: []kafkago.TopicConfig{config}})
			if err != nil {
				return err
			}
			switch err := res.Errors[t.Name]; {
			case errors.Is(err, kafkago.TopicAlreadyExists):
				return nil
			case errors.Is(err, kafkago.InvalidReplicationFactor):
				return c.tooFew(ctx, t.Replicas, err)
			default:
				return err
			}
		})
}

// tooFew adds to the broker's refusal of a number of replicas how many there can be.
func (c *Client) tooFew(ctx context.Context, replicas int, refusal error) error {
	res, err := c.client.Metadata(ctx, &kafkago.MetadataRequest{Topics: []string{}})
	if err != nil {
		return refusal
	}
	asked := fmt.Sprintf("it was to have %d replicas", replicas)
	if replicas <= 0 {
		asked = "it was to have as many replicas as the brokers' default.replication.factor says"
	}
	return fmt.Errorf("%w: %s, and the number of brokers is %d: set replicas to at most that", refusal, asked,
		len(res.Brokers))
}

// Brokers returns how many there are.
func (c *Client) Brokers(ctx context.Context) (n int, err error) {
	err = c.do(ctx, "ask for brokers", "", func(ctx context.Context) error {
		res, err := c.client.Metadata(ctx, &kafkago.MetadataRequest{Topics: []string{}})
		if err == nil {
			n = len(res.Brokers)
		}
		return err
	})
	return n, err
}

// Settings returns those settings of a topic that are asked for, defaults included. What a broker does not know is
// missing.
func (c *Client) Settings(ctx context.Context, topic string, names ...string) (settings map[string]string, err error) {
	err = c.do(ctx, "read the settings of "+topic, "operation DescribeConfigs on Topic "+topic,
		func(ctx context.Context) error {
			res, err := c.client.DescribeConfigs(ctx,
				&kafkago.DescribeConfigsRequest{Resources: []kafkago.DescribeConfigRequestResource{{
					ResourceType: kafkago.ResourceTypeTopic, ResourceName: topic, ConfigNames: names,
				}}})
			if err != nil {
				return err
			}
			settings = map[string]string{}
			for _, r := range res.Resources {
				if r.Error != nil {
					return r.Error
				}
				for _, e := range r.ConfigEntries {
					if slices.Contains(names, e.ConfigName) {
						settings[e.ConfigName] = e.ConfigValue
					}
				}
			}
			return nil
		})
	return settings, err
}
