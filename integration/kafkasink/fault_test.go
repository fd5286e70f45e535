// SPDX-License-Identifier: Apache-2.0

package kafkasink

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/produce"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/kube-eventbridge/kube-eventbridge/integration/internal/rig"
	"github.com/kube-eventbridge/kube-eventbridge/integration/kafkabroker"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
	"github.com/kube-eventbridge/kube-eventbridge/internal/pause"
	"github.com/kube-eventbridge/kube-eventbridge/sink"
)

// chains publishes, for each of some keys, one message after the other until enough says so.
type chains struct {
	topic     *testTopic
	sink      sink.Publisher
	published atomic.Int64
	longest   atomic.Int64
	counts    []int
	work      sync.WaitGroup
}

func (r *testTopic) publish(t *testing.T, s sink.Publisher, keys int, enough func(published int64) bool) *chains {
	c := &chains{topic: r, sink: s, counts: make([]int, keys)}
	for k := range keys {
		c.work.Go(func() {
			for n := 1; !enough(c.published.Load()); n++ {
				began := time.Now()
				a := <-send(t, s, message(r.topic, fmt.Sprintf("key-%d", k), n))
				if a.err != nil {
					t.Errorf("key-%d.%d: %v", k, n, a.err)
					return
				}
				took := int64(time.Since(began))
				for was := c.longest.Load(); took > was && !c.longest.CompareAndSwap(was, took); was = c.longest.Load() {
				}
				c.counts[k] = n
				c.published.Add(1)
			}
		})
	}
	return c
}

// check reads the topic with a client that shares nothing with the sink, and looks for what is lost, doubled or out of
// order.
func (c *chains) check(t *testing.T, total int) {
	t.Helper()
	cl := must.Get(kgo.NewClient(kgo.SeedBrokers(c.topic.AddressesOf(direct)...), kgo.ConsumeTopics(c.topic.topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart())))(t)
	defer cl.Close()
	ctx := must.Within(t, 2*time.Minute)
	last := make([]int, len(c.counts))
	var read, lost, doubled, inverted int
	for read < total && ctx.Err() == nil {
		cl.PollFetches(ctx).EachRecord(func(rec *kgo.Record) {
			read++
			key, is := strings.CutPrefix(string(rec.Key), "key-")
			if !is {
				return
			}
			k := must.Get(strconv.Atoi(key))(t)
			var id string
			for _, h := range rec.Headers {
				if h.Key == "ce_id" {
					id = string(h.Value)
				}
			}
			n := must.Get(strconv.Atoi(strings.TrimPrefix(id, string(rec.Key)+".")))(t)
			switch {
			case n == last[k]:
				doubled++
			case n < last[k]:
				inverted++
			default:
				lost += n - last[k] - 1
				last[k] = n
			}
		})
	}
	for k, n := range c.counts {
		lost += n - last[k]
	}
	assert.True(t, read == total && lost == 0 && doubled == 0 && inverted == 0,
		"%d lost, %d doubled, %d out of order; %d records of %d", lost, doubled, inverted, read, total)
}

// total is how many records there are.
func (r *testTopic) total(t *testing.T, s sink.Log) (n int) {
	t.Helper()
	b := must.Get(s.Bounds(t.Context(), nil))(t)
	for _, p := range b.Partitions {
		n += int(p.Last + 1 - p.First)
	}
	return n
}

func TestSink_loses_doubles_and_reorders_nothing_while_leaders_move_and_brokers_die(t *testing.T) {
	rig.Parallel(t, rig.All)
	const (
		partitions, keys, least = 6, 200, 20_000
		rounds                  = 2
	)
	c := kafkabroker.ForTest(t, kafkabroker.Config{
		// On a busy machine no broker answers within two.
		Brokers: 3, Listeners: listeners(), Properties: map[string]string{"broker.session.timeout.ms": "4000"},
	})
	r := newTopic(t, c, partitions, nil)
	cfg := r.config(proxied)
	cfg.Timeout = 2 * time.Second
	var retries, cuts, moves atomic.Int64
	cfg.OnRetry = func(string, int32, error) { retries.Add(1) }
	s := start(t, cfg)
	var over atomic.Bool
	all := r.publish(t, s, keys, func(published int64) bool { return over.Load() && published >= least || t.Failed() })

	ctx, cancel := context.WithCancel(t.Context())
	var background sync.WaitGroup
	background.Go(func() { // connections are cut all the time
		for pause.For(ctx, 250*time.Millisecond) == nil {
			for _, p := range proxiesOf(c) {
				p.Cut()
			}
			cuts.Add(1)
		}
	})
	for round := range rounds {
		victim := round % 3
		for p := range partitions {
			if err := c.MoveLeader(ctx, r.topic, p, victim); err == nil {
				moves.Add(1)
			}
		}
		require.NoError(t, c.Kill(victim))
		require.NoError(t, pause.For(ctx, 3*time.Second))
		require.NoError(t, c.Restart(ctx, victim))
		frozen := (round + 1) % 3
		require.NoError(t, c.Pause(frozen)) // it keeps its connections
		require.NoError(t, pause.For(ctx, 2*cfg.Timeout))
		require.NoError(t, c.Resume(frozen))
		before := all.published.Load()
		rig.Try(t, "it goes on", func() error {
			if n := all.published.Load() - before; n < 500 {
				return fmt.Errorf("%d", n)
			}
			return nil
		})
	}
	over.Store(true)
	cancel()
	background.Wait()
	all.work.Wait()
	total := r.total(t, s)
	all.check(t, total)
	t.Logf("%d records, %d kills, %d freezes, %d leaders moved, %d times all connections cut, %d retries, longest %v",
		all.published.Load(), rounds, rounds, moves.Load(), cuts.Load(), retries.Load(),
		time.Duration(all.longest.Load()).Round(time.Millisecond))
	assert.Equal(t, all.published.Load()+partitions, int64(total),
		"%d records for %d messages and %d barriers", total, all.published.Load(), partitions)
	rig.Try(t, "it is ready", s.Ready)
}

// A broker that was stopped for a while, and cannot reach the controller behind that, leads on as far as it knows. It
// has nothing of what its successor took.
func TestSink_believes_no_broker_that_was_replaced(t *testing.T) {
	rig.Parallel(t, rig.All)
	c := kafkabroker.ForTest(t, kafkabroker.Config{
		Brokers: 3, Listeners: listeners(), Properties: map[string]string{"broker.session.timeout.ms": "4000"},
	})
	r := newTopic(t, c, 1, nil)
	require.NoError(t, c.MoveLeader(t.Context(), r.topic, 0, 0))
	cfg := r.config(proxied)
	s := start(t, cfg)
	publish(t, s, message(r.topic, "a", 1))
	require.NoError(t, c.Pause(0))
	publish(t, s, message(r.topic, "a", 2)) // its successor takes this
	require.NoError(t, c.PauseController())
	require.NoError(t, c.Resume(0))

	replaced, successors := proxiesOf(c)[0], proxiesOf(c)[1:]
	var asked atomic.Int64
	replaced.watch(func(api int16, _ []byte) bool {
		if api == int16(protocol.Metadata) {
			asked.Add(1)
		}
		return false
	})
	defer replaced.watch(nil)
	for _, p := range successors {
		p.Sever()
	}
	rig.Try(t, "the replaced broker tells who leads", func() error {
		if asked.Load() == 0 {
			return errors.New("it was not asked")
		}
		return nil
	})
	for _, p := range successors {
		p.Open()
	}
	const believed = 2 * time.Second // how long a loss is seen before it is believed
	require.NoError(t, pause.For(t.Context(), 2*believed))
	publish(t, s, message(r.topic, "a", 3))
	rig.Try(t, "it is ready", s.Ready)
	require.NoError(t, c.Kill(0)) // it would tell of one record
	assert.Len(t, others(r.records(t, r.topic)), 3, "records")
}

// A broker that has stored a batch, and whose answer is lost, is asked with the same bytes again.
func TestSink_sends_the_same_bytes_again(t *testing.T) {
	r := newTopic(t, shared.ForTest(t), 1, nil)
	p := proxiesOf(r.Cluster)[0]
	cfg := r.config(proxied)
	cfg.Timeout = time.Second
	s := start(t, cfg)
	var mu sync.Mutex
	var sent [][]byte
	lost := 0
	p.watch(func(api int16, request []byte) bool {
		if api != apiProduce {
			return false
		}
		mu.Lock()
		defer mu.Unlock()
		if batch := request[strings.Index(string(request), r.topic)+len(r.topic):]; len(sent) < 200 {
			sent = append(sent, append([]byte(nil), batch...))
		}
		if lost < 3 {
			lost++
			return true
		}
		return false
	})
	defer p.watch(nil)
	first := publish(t, s, message(r.topic, "a", 1))
	second := publish(t, s, message(r.topic, "a", 2))
	assert.EqualValues(t, 2, first.Sequence, "they are at %+v and %+v", first, second)
	assert.EqualValues(t, 3, second.Sequence, "they are at %+v and %+v", first, second)
	assert.Len(t, others(r.records(t, r.topic)), 2, "records")
	mu.Lock()
	defer mu.Unlock()
	require.Len(t, sent, 5, "requests, want 4 with the same bytes and one more")
	for n := range 4 {
		assert.Equal(t, string(sent[0]), string(sent[n]), "request %d is\n%q, the first\n%q", n, sent[n], sent[0])
	}
	assert.NotEqual(t, string(sent[0]), string(sent[4]), "the second message has the bytes of the first")
}

// Nothing is answered, so each batch that is handed over stays under way.
func TestSink_has_one_batch_under_way_in_each_partition(t *testing.T) {
	const partitions = 3
	r := newTopic(t, shared.ForTest(t), partitions, nil)
	p := proxiesOf(r.Cluster)[0]
	s := start(t, r.config(proxied))
	var mu sync.Mutex
	underWay := map[int32]int{}
	p.watch(func(api int16, request []byte) bool {
		if api == apiProduce {
			mu.Lock()
			defer mu.Unlock()
			for _, n := range partitionsOf(t, request) {
				underWay[n]++
			}
		}
		return false
	})
	defer p.watch(nil)
	p.hold(func(api int16, _ []byte) bool { return api == apiProduce })
	defer p.release()
	var answers []<-chan answer
	for n := range 500 {
		answers = append(answers, send(t, s, message(r.topic, fmt.Sprintf("key-%d", n), 1)))
	}
	rig.Try(t, "requests are under way", func() error {
		if n := p.waiting.Load(); n < 2 {
			return fmt.Errorf("%d", n)
		}
		return nil
	})
	for range 50 {
		n := p.waiting.Load()
		require.True(t, n <= 2, "%d requests to one broker", n)
		require.NoError(t, pause.For(t.Context(), 5*time.Millisecond))
	}
	mu.Lock()
	for n, batches := range underWay {
		assert.Equal(t, 1, batches, "batches for partition %d", n)
	}
	mu.Unlock()
	p.release()
	for _, a := range answers {
		require.NoError(t, wait(t, a).err)
	}
	assert.Equal(t, 500, len(others(r.records(t, r.topic))), "records")
}

// partitionsOf returns the partitions that a Produce request is for.
func partitionsOf(t *testing.T, request []byte) (all []int32) {
	sized := append(binary.BigEndian.AppendUint32(nil, uint32(len(request))), request...)
	_, _, _, m, err := protocol.ReadRequest(bytes.NewReader(sized))
	if err != nil {
		t.Errorf("read the request: %v", err)
		return nil
	}
	for _, topic := range m.(*produce.Request).Topics {
		for _, p := range topic.Partitions {
			all = append(all, p.Partition)
		}
	}
	return all
}
