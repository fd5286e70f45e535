// SPDX-License-Identifier: Apache-2.0

package kafka

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/kube-eventbridge/kube-eventbridge/internal/kafka"
	"github.com/kube-eventbridge/kube-eventbridge/internal/kafka/batch"
	"github.com/kube-eventbridge/kube-eventbridge/internal/pause"
)

// topic is one that is published to.
type topic struct {
	name string
	// base is added to Kafka's partition numbers: the topics of a sink have no number in common.
	base int32
	// problem is why it must not be used.
	problem error
	// id is Kafka's for this incarnation of it; empty where brokers have none.
	id string
	// limit is the largest batch that the broker takes, as far as it is known.
	limit      atomic.Int64
	open       chan struct{} // closed when partitions is there
	partitions []*partition
	warned     bool // of partitions that came later; look's
	told       bool // what its settings lose; open's
}

// leastLimit is the smallest batch that is tried where the broker takes less than its settings say.
const leastLimit = 16 << 10

// takesLess remembers that a batch of n bytes was too large.
func (t *topic) takesLess(n int) {
	t.limit.Store(min(t.limit.Load(), max(int64(n/2), leastLimit)))
}

// admin finds and makes topics, and compares them with what they must be like and what they acknowledged.
type admin struct {
	cfg    *Config
	client *kafka.Client
}

// missingFor is how long a topic must have been missing to be believed: brokers hear of a new one at different times.
const missingFor = 3 * time.Second

// find returns what a topic's incarnation is called, and how many partitions it has. One that is missing is created if
// it may be.
func (a *admin) find(ctx context.Context, t *topic) (id string, n int, err error) {
	created := false
	for began := time.Now(); ; {
		_, id, err = a.client.Incarnation(ctx, t.name)
		if err == nil {
			n, err = a.client.Partitions(ctx, t.name)
		}
		late := time.Since(began) >= missingFor
		switch {
		case !errors.Is(err, kafka.ErrNoTopic), created && late:
			return id, n, err
		case a.cfg.Create != nil && !created:
			if err := a.create(ctx, t); err != nil {
				return "", 0, err
			}
			created = true
		case late:
			return "", 0, a.missing(ctx, t.name)
		}
		if err := pause.For(ctx, a.cfg.Wait); err != nil {
			return "", 0, err
		}
	}
}

func (a *admin) create(ctx context.Context, t *topic) error {
	c := a.cfg.Create
	err := a.client.CreateTopic(ctx, kafka.TopicSpec{
		Name: t.name, Partitions: c.Partitions, Replicas: c.Replicas,
		Settings: c.Settings,
	})
	if err == nil {
		a.cfg.Log.Info("topic created", "topic", t.name)
	}
	return err
}

// adviceToCreate names a command that the brokers which there are can do.
func (a *admin) adviceToCreate(ctx context.Context, name string) string {
	replicas, needed := 3, 2
	if n, err := a.client.Brokers(ctx); err == nil && n < replicas {
		replicas, needed = n, 1
	}
	return "create it, for example with kafka-topics.sh --bootstrap-server " + a.cfg.Brokers[0] + " --create --topic " +
		name +
		fmt.Sprintf(" --partitions 12 --replication-factor %d --config min.insync.replicas=%d", replicas, needed) +
		", or let it be created (create)"
}

// The settings of a topic that are looked at.
const (
	settingSize    = "max.message.bytes"
	settingCleanup = "cleanup.policy"
	settingISR     = "min.insync.replicas"
	settingUnclean = "unclean.leader.election.enable"
)

// check warns, once, of settings with which acknowledged records are lost, and returns the largest batch that the topic
// takes.
func (a *admin) check(ctx context.Context, t *topic) (limit int64, err error) {
	name := t.name
	settings, err := a.client.Settings(ctx, name, settingSize, settingCleanup, settingISR, settingUnclean)
	if kafka.Forbidden(err) {
		a.cfg.Log.Warn("the settings of a topic may not be read, so they are not checked", "topic", name, "err", err)
		return batch.DefaultLimit, nil
	}
	if err != nil {
		return 0, err
	}
	a.tellLosses(t, settings)
	limit, err = strconv.ParseInt(settings[settingSize], 10, 64)
	if err != nil || limit <= 0 { // not every broker tells
		return batch.DefaultLimit, nil
	}
	return limit, nil
}

// tellLosses warns of what a topic's settings lose, once however often it has to be opened.
func (a *admin) tellLosses(t *topic, settings map[string]string) {
	if t.told {
		return
	}
	t.told = true
	for _, problem := range losses(settings, a.cfg.Tombstones) {
		a.cfg.Log.Warn("a topic's settings lose events", "topic", t.name, "problem", problem)
	}
}

// losses names what a topic's settings lose.
func losses(settings map[string]string, tombstones bool) (problems []string) {
	if settings[settingUnclean] == "true" {
		problems = append(problems,
			settingUnclean+"=true: a replica that was left behind may become the leader, and what it does not have is lost")
	}
	if settings[settingISR] == "1" {
		problems = append(problems,
			settingISR+"=1: a record is acknowledged when one broker has it; with 2, and three replicas, it survives the loss "+
				"of that")
	}
	compacted := strings.Contains(settings[settingCleanup], "compact")
	if compacted {
		problems = append(problems,
			settingCleanup+"="+settings[settingCleanup]+": only the newest event of each object is kept")
	}
	if compacted && !tombstones {
		problems = append(problems,
			settingCleanup+"="+settings[settingCleanup]+" without tombstones: the last event of each deleted object is never "+
				"removed")
	}
	return problems
}
