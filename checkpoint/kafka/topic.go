// SPDX-License-Identifier: Apache-2.0

package kafka

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kube-eventbridge/kube-eventbridge/internal/kafka"
	"github.com/kube-eventbridge/kube-eventbridge/internal/kafka/batch"
)

// topics is what the topic is found, made and checked with.
type topics interface {
	Partitions(ctx context.Context, topic string) (int, error)
	CreateTopic(ctx context.Context, t kafka.TopicSpec) error
	Settings(ctx context.Context, topic string, names ...string) (map[string]string, error)
}

const (
	settingCleanup   = "cleanup.policy"
	settingTombstone = "delete.retention.ms"
	settingSize      = "max.message.bytes"

	compact = "compact"
	// shortestTombstone is the least time for which a record without a value stays: who reads meanwhile must not miss
	// it.
	shortestTombstone = time.Minute
)

// settings are those of a topic that is created. Only whole segments are compacted, never the one that is written to,
// so they are small: what is to be read at a start is what holds, and some segments. It is their records that take
// time, not their bytes. A reader needs seconds, so that a row is gone is forgotten after an hour, not a day.
func (c *Config) settings() map[string]string {
	s := map[string]string{
		settingCleanup: compact, settingTombstone: "3600000", "segment.bytes": "16777216",
		"segment.ms": "21600000",
	}
	if c.Compression != "" && c.Compression != batch.None {
		s["segment.bytes"] = "4194304"
	}
	if c.Replicas >= 3 {
		s["min.insync.replicas"] = "2"
	}
	return s
}

// find returns how many partitions the topic has; one that is missing is created.
func (c *Config) find(ctx context.Context, t topics) (n int, err error) {
	n, err = c.partitions(ctx, t)
	if !errors.Is(err, kafka.ErrNoTopic) {
		return n, err
	}
	spec := kafka.TopicSpec{Name: c.Topic, Partitions: c.Partitions, Replicas: c.Replicas, Settings: c.settings()}
	err = again(ctx, c.Patience, func() error { return t.CreateTopic(ctx, spec) })
	switch {
	case kafka.Forbidden(err):
		return 0, &SettingsError{
			Topic:   c.Topic,
			Problem: fmt.Sprintf("it is missing, or may not be seen, and must not be created (%v)", err),
			Command: c.createCommand(),
		}
	case err != nil:
		return 0, err
	}
	c.Log.Info("topic for checkpoints created", "topic", c.Topic)
	// Brokers hear of it one after the other.
	err = again(ctx, c.Patience, func() error { n, err = t.Partitions(ctx, c.Topic); return err })
	return n, err
}

// partitions is patient with everything but that there is no such topic.
func (c *Config) partitions(ctx context.Context, t topics) (n int, err error) {
	missing := false
	err = again(ctx, c.Patience, func() (err error) {
		n, err = t.Partitions(ctx, c.Topic)
		if missing = errors.Is(err, kafka.ErrNoTopic); missing {
			return nil
		}
		return err
	})
	if missing {
		return 0, kafka.ErrNoTopic
	}
	return n, err
}

// check refuses settings with which checkpoints are lost, and returns the largest batch that the topic takes.
func (c *Config) check(ctx context.Context, t topics) (limit int, err error) {
	var settings map[string]string
	err = again(ctx, c.Patience, func() (err error) {
		settings, err = t.Settings(ctx, c.Topic, settingCleanup, settingTombstone, settingSize)
		return err
	})
	switch {
	case kafka.Forbidden(err):
		c.Log.Warn("the settings of the checkpoint's topic may not be read (DescribeConfigs), so they are not checked",
			"topic", c.Topic, "err", err)
		return batch.DefaultLimit, nil
	case err != nil:
		return 0, err
	}
	if policy := settings[settingCleanup]; policy != compact {
		return 0, c.unfit(settingCleanup+"="+policy+" deletes what is old, whether it holds or not",
			settingCleanup+"="+compact)
	}
	if ms, err := strconv.ParseInt(settings[settingTombstone], 10, 64); err == nil &&
		ms < shortestTombstone.Milliseconds() {
		return 0, c.unfit(settingTombstone+"="+settings[settingTombstone]+" may remove the word that a row is gone before "+
			"a reader has come to it", settingTombstone+"=3600000")
	}
	limit, err = strconv.Atoi(settings[settingSize])
	if err != nil {
		return 0, fmt.Errorf("%s of topic %s: %w", settingSize, c.Topic, err)
	}
	return min(limit, batch.DefaultLimit), nil
}

func (c *Config) unfit(problem, setting string) error {
	return &SettingsError{
		Topic: c.Topic, Problem: problem,
		Command: "kafka-configs.sh --bootstrap-server " + c.Brokers[0] +
			" --alter --entity-type topics --entity-name " + c.Topic + " --add-config " + setting,
	}
}

// createCommand is what makes the topic as find does.
func (c *Config) createCommand() string {
	var b strings.Builder
	fmt.Fprintf(&b, "kafka-topics.sh --bootstrap-server %s --create --topic %s --partitions %d", c.Brokers[0], c.Topic,
		c.Partitions)
	if c.Replicas > 0 {
		fmt.Fprintf(&b, " --replication-factor %d", c.Replicas)
	}
	settings := c.settings()
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		fmt.Fprintf(&b, " --config %s=%s", name, settings[name])
	}
	return b.String()
}
