// SPDX-License-Identifier: Apache-2.0

package kafkatail

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kube-eventbridge/kube-eventbridge/integration/internal/rig"
	"github.com/kube-eventbridge/kube-eventbridge/internal/event"
	"github.com/kube-eventbridge/kube-eventbridge/internal/event/kafkalog"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
)

// replica reads a topic as a replicator does, until the test ends it.
type replica struct {
	log *kafkalog.Log

	mu                 sync.Mutex
	given              []event.Message
	marks              event.Marks
	caughtUp, replaced int
	// hold stops reading before the message of that number, until the channel is closed.
	hold    int
	release chan struct{}
}

func (r *testTopic) replica(t *testing.T, hold int) *replica {
	t.Helper()
	log := must.Get(kafkalog.New(kafkalog.Config{
		Brokers: r.AddressesOf(plain), Topic: r.topic, Group: "replica-" + r.topic,
	}))(t)
	p := &replica{log: log, marks: event.Marks{}, hold: hold, release: make(chan struct{})}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		err := log.Read(ctx, event.Reading{
			Span: event.Span{Start: event.Start{Newest: true}, Follow: true},
			Each: p.each, Counts: func(event.Message) bool { return true },
			Replaced: func() { p.change(func() { p.replaced++; p.given, p.marks = nil, event.Marks{} }) },
			CaughtUp: func() { p.change(func() { p.caughtUp++ }) },
		})
		assert.ErrorIs(t, err, context.Canceled)
	})
	t.Cleanup(func() { cancel(); running.Wait(); log.Close() })
	return p
}

func (p *replica) change(do func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	do()
}

func (p *replica) each(ctx context.Context, m event.Message) error {
	p.mu.Lock()
	hold := p.hold == len(p.given)+1
	p.mu.Unlock()
	if hold {
		select {
		case <-p.release:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	p.change(func() { p.given = append(p.given, m); p.marks.Take(&m) })
	return nil
}

func (p *replica) state() (given []event.Message, caughtUp, replaced int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.given), p.caughtUp, p.replaced
}

// awaitCaughtUp waits until the replica has caught up n times, and returns what it was given.
func (p *replica) awaitCaughtUp(t *testing.T, n int) []event.Message {
	t.Helper()
	rig.Poll(t, "the replica has caught up", func() (bool, string) {
		given, caughtUp, replaced := p.state()
		return caughtUp == n, fmt.Sprintf("%d times, %d messages, replaced %d times", caughtUp, len(given), replaced)
	})
	given, _, _ := p.state()
	return given
}

// acknowledge commits everything. The first group of a cluster has no coordinator for some seconds.
func (p *replica) acknowledge(t *testing.T) {
	t.Helper()
	rig.Poll(t, "the offsets are committed", func() (bool, string) {
		err := p.log.Acknowledge(t.Context(), p.marks)
		return err == nil, fmt.Sprint(err)
	})
}

func decoded(t *testing.T, all []event.Message) (events []*event.Event) {
	t.Helper()
	for _, m := range all {
		events = append(events, must.Get(event.Decode(m))(t))
	}
	return events
}

func TestReplica_catches_up_across_a_crash_of_the_broker_reads_bodies_again_and_commits(t *testing.T) {
	c := shared.ForTest(t)
	r := newTopic(t, c, 4, nil)
	all := r.write(t, false)
	p := r.replica(t, len(all)/2)
	rig.Poll(t, "half of the log", func() (bool, string) {
		given, _, _ := p.state()
		return len(given) == len(all)/2-1, fmt.Sprint(len(given))
	})
	require.NoError(t, c.Kill(0))
	require.NoError(t, c.Restart(t.Context(), 0))
	close(p.release)
	given := p.awaitCaughtUp(t, 1)
	all.judge(t, decoded(t, given))

	begin := time.Now()
	for _, m := range given {
		again, err := p.log.At(t.Context(), m.Position)
		require.NoError(t, err)
		require.NotNil(t, again, m.Place)
		require.Equal(t, m, *again)
	}
	t.Logf("%d bodies in %v", len(given), time.Since(begin))

	p.acknowledge(t)
	assert.Equal(t, uint64(0), must.Get(p.log.Behind(t.Context(), p.marks))(t))
	res, err := c.Admin().OffsetFetch(t.Context(), &kafkago.OffsetFetchRequest{
		GroupID: "replica-" + r.topic, Topics: map[string][]int{r.topic: {0, 1, 2, 3}},
	})
	require.NoError(t, err)
	committed := int64(0)
	for _, o := range res.Topics[r.topic] {
		require.NoError(t, o.Error)
		committed += o.CommittedOffset
	}
	behind := must.Get(p.log.Behind(t.Context(), nil))(t)
	assert.Equal(t, behind, uint64(committed), "all records of the topic") //nolint:gosec // a count
}

func TestReplica_of_a_compacted_topic(t *testing.T) {
	t.Parallel()
	c := shared.ForTest(t)
	r := newTopic(t, c, 1, map[string]string{
		"cleanup.policy": "compact", "segment.ms": "200", "min.cleanable.dirty.ratio": "0.01",
		"max.compaction.lag.ms": "200", "delete.retention.ms": "0",
	})
	s, _ := r.sink(t, r.topic, nil)
	p := r.replica(t, 0)
	p.awaitCaughtUp(t, 1)
	for v := range 3 {
		publish(t, s, change(r.topic, event.Updated, "web", v, v))
	}
	var first event.Message
	rig.Poll(t, "three messages", func() (bool, string) {
		given, _, _ := p.state()
		if len(given) == 3 {
			first = given[0]
		}
		return len(given) == 3, fmt.Sprint(len(given))
	})
	version := 3
	rig.Poll(t, "the first message was compacted away", func() (bool, string) {
		publish(t, s, change(r.topic, event.Updated, "web", version, version)) // a segment ends when there is more
		version++
		// A log that has fetched nothing yet.
		fresh := r.replica(t, 0)
		fresh.awaitCaughtUp(t, 1)
		m, err := fresh.log.At(t.Context(), first.Position)
		return m == nil && err == nil, fmt.Sprint(m, err)
	})
	given := r.replica(t, 0).awaitCaughtUp(t, 1)
	assert.Less(t, len(given), version)
	last := must.Get(event.Decode(given[len(given)-1]))(t)
	assert.Equal(t, fmt.Sprint(version-1), last.Attr("resourceversion"))
}

func TestReplica_begins_again_with_a_topic_that_was_replaced(t *testing.T) {
	t.Parallel()
	c := shared.ForTest(t)
	r := newTopic(t, c, 2, nil)
	s, stop := r.sink(t, r.topic, nil)
	publish(t, s, change(r.topic, event.Added, "web", 1, 1), change(r.topic, event.Added, "db", 1, 1))
	p := r.replica(t, 0)
	old := p.awaitCaughtUp(t, 1)
	assert.Len(t, old, 2)
	stop()
	c.DeleteTopic(t, r.topic)
	rig.Poll(t, "another topic of the name", func() (bool, string) {
		err := c.CreateTopic(t.Context(), r.topic, 2, 0, nil)
		return err == nil, fmt.Sprint(err)
	})
	s, _ = r.sink(t, r.topic, nil)
	publish(t, s, change(r.topic, event.Added, "new", 7, 1))
	given := p.awaitCaughtUp(t, 2)
	_, _, replaced := p.state()
	assert.Equal(t, 1, replaced)
	rig.Poll(t, "the new topic's message", func() (bool, string) {
		given, _, _ = p.state()
		return len(given) == 1, fmt.Sprint(len(given))
	})
	m, err := p.log.At(t.Context(), old[0].Position)
	assert.True(t, m == nil && err == nil, "got %v, %v", m, err)
	m = must.Get(p.log.At(t.Context(), given[0].Position))(t)
	assert.Equal(t, "new", must.Get(event.Decode(*m))(t).Attr("name"))
}

func TestReplica_may_commit_while_it_is_its_groups_only_user_and_not_while_others_are_members(t *testing.T) {
	t.Parallel()
	c := shared.ForTest(t)
	r := newTopic(t, c, 1, nil)
	s, _ := r.sink(t, r.topic, nil)
	publish(t, s, change(r.topic, event.Added, "web", 1, 1))
	p := r.replica(t, 0)
	p.awaitCaughtUp(t, 1)
	p.acknowledge(t)
	member := kafkago.NewReader(kafkago.ReaderConfig{
		Brokers: r.AddressesOf(plain), GroupID: "replica-" + r.topic, Topic: r.topic, MaxWait: 100 * time.Millisecond,
	})
	defer member.Close()
	publish(t, s, change(r.topic, event.Updated, "web", 2, 1))
	must.Get(member.FetchMessage(must.Within(t, rig.Patience())))(t)
	require.ErrorContains(t, p.log.Acknowledge(t.Context(), p.marks), "commit offsets of group replica-"+r.topic)
}
