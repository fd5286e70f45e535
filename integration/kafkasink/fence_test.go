// SPDX-License-Identifier: Apache-2.0

package kafkasink

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kube-eventbridge/kube-eventbridge/integration/internal/rig"
	internal "github.com/kube-eventbridge/kube-eventbridge/internal/kafka"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
	"github.com/kube-eventbridge/kube-eventbridge/internal/testlog"
	"github.com/kube-eventbridge/kube-eventbridge/sink"
	"github.com/kube-eventbridge/kube-eventbridge/sink/kafka"
)

// fenced checks that a sink ended because a newer one came.
func fenced(t *testing.T, err error, pipeline string) {
	t.Helper()
	var unusable *sink.UnusableError
	require.True(t, errors.As(err, &unusable), "Run: %v, want an UnusableError", err)
	require.Contains(t, unusable.Reason, "pipeline "+pipeline, "it says %v", unusable)
	assert.Contains(t, unusable.Advice, "run one process for a pipeline", "it says %v", unusable)
}

func TestSink_is_refused_once_a_newer_one_has_come(t *testing.T) {
	r := newTopic(t, shared.ForTest(t), 4, nil)
	old := start(t, r.config(direct))
	publish(t, old, message(r.topic, "key", 1))
	newer := start(t, r.config(direct))
	a := wait(t, send(t, old, message(r.topic, "key", 2)))
	assert.True(t, a.err != nil && !sink.IsPermanent(a.err), "the older one: %v", a.err)
	fenced(t, old.end(t), r.topic)
	assert.ErrorIs(t, wait(t, send(t, old, message(r.topic, "key", 3))).err, sink.ErrNotRunning, "after its end")
	publish(t, newer, message(r.topic, "key", 4))
	var ids []string
	for _, rec := range r.records(t, r.topic) {
		if !rec.own() {
			ids = append(ids, rec.header("ce_id"))
		}
	}
	assert.Equal(t, "[key.1 key.4]", fmt.Sprint(ids), "the log has %v", ids)
}

// afterBarriers returns the ids of records of a pid and epoch other than the newest that come after a newer barrier in
// their partition.
func afterBarriers(all []record) (late []string) {
	barriers := map[int32]int{}
	for _, rec := range all {
		switch {
		case rec.own():
			barriers[rec.partition]++
		case strings.HasPrefix(rec.header("ce_id"), "old") && barriers[rec.partition] > 1:
			late = append(late, rec.header("ce_id"))
		}
	}
	return late
}

// A request of a process that has died may still be under way, and arrive after the new one's barrier.
func TestSink_lets_nothing_of_a_dead_process_follow_its_barrier(t *testing.T) {
	r := newTopic(t, shared.ForTest(t), 2, nil)
	p := proxiesOf(r.Cluster)[0]
	old := start(t, r.config(proxied))
	publish(t, old, message(r.topic, "old-a", 1))
	p.hold(func(api int16, _ []byte) bool { return api == apiProduce })
	for n := range 8 {
		send(t, old, message(r.topic, fmt.Sprintf("old-%d", n), 1))
	}
	rig.Try(t, "requests are held back", func() error {
		if n := p.waiting.Load(); n < 2 {
			return fmt.Errorf("%d", n)
		}
		return nil
	})
	old.stop() // its requests stay under way
	require.NoError(t, old.end(t))
	newer := start(t, r.config(direct))
	bounds := must.Get(newer.Bounds(t.Context(), nil))(t)
	seen := 0
	require.NoError(t, newer.Read(t.Context(), sink.Query{}, func(*sink.Stored) error { seen++; return nil }))
	p.release()
	rig.Try(t, "they have arrived", func() error {
		if n := p.waiting.Load(); n > 0 {
			return fmt.Errorf("%d have not", n)
		}
		return nil
	})
	for n := range 8 {
		publish(t, newer, message(r.topic, fmt.Sprintf("new-%d", n), 1))
	}
	all := r.records(t, r.topic)
	assert.Empty(t, afterBarriers(all), "after the barrier")
	last := 0
	for _, b := range bounds.Partitions {
		last += int(b.Last)
	}
	assert.Equal(t, last, seen, "read up to the bounds %v", bounds.Partitions)
	assert.Len(t, all, last+8, "read up to the bounds %v", bounds.Partitions)
}

// This is why there are barriers.
func TestBroker_takes_an_older_epoch_until_the_partition_has_seen_the_newer_one(t *testing.T) {
	r := newTopic(t, shared.ForTest(t), 1, nil)
	old := start(t, r.config(direct))
	publish(t, old, message(r.topic, "old", 1))
	c := must.Get(internal.NewClient(internal.Config{Brokers: r.AddressesOf(direct)}))(t)
	defer c.Close()
	must.Get(c.InitProducer(t.Context(), "kube-eventbridge.test."+r.topic+"."+r.topic, nil))(t)
	publish(t, old, message(r.topic, "old", 2))
}

const childVariable = "KUBE_EVENTBRIDGE_KAFKASINK_CHILD"

// child publishes until its sink ends, and ends this process: with 0 if the sink was fenced.
func child(t *testing.T, where []string) {
	s := newSink(t, kafka.Config{
		Brokers: where[:1], Topic: where[1], Cluster: "test", Pipeline: where[1], Wait: 10 * time.Millisecond,
		Timeout: 5 * time.Second,
	})
	say := func(what any) { _, _ = fmt.Fprintln(os.Stdout, what) }
	ended := make(chan error, 1)
	go func() { ended <- s.Run(t.Context()) }()
	for n := 1; ; n++ {
		for k := range 8 {
			send(t, s, message(where[1], fmt.Sprintf("old-%d", k), n))
		}
		if n == 20 {
			say("publishing")
		}
		select {
		case err := <-ended:
			say(err)
			var unusable *sink.UnusableError
			if errors.As(err, &unusable) {
				os.Exit(0)
			}
			os.Exit(1)
		case <-time.After(time.Millisecond):
		}
	}
}

func TestSink_lets_nothing_of_a_stopped_process_that_wakes_follow_its_barrier(t *testing.T) {
	if where := os.Getenv(childVariable); where != "" {
		child(t, strings.Split(where, " "))
	}
	r := newTopic(t, shared.ForTest(t), 4, nil)
	cmd := exec.Command(os.Args[0], "-test.run", "^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), childVariable+"="+r.AddressesOf(direct)[0]+" "+r.topic)
	out := &testlog.Text{}
	cmd.Stdout, cmd.Stderr = out, out
	require.NoError(t, cmd.Start())
	defer cmd.Process.Kill() //nolint:errcheck // it has ended if all is well
	rig.Try(t, "the child publishes", func() error {
		if !strings.Contains(out.String(), "publishing") {
			return errors.New(out.String())
		}
		return nil
	})
	require.NoError(t, cmd.Process.Signal(syscall.SIGSTOP))
	newer := start(t, r.config(direct))
	before := must.Get(newer.Bounds(t.Context(), nil))(t)
	require.NoError(t, cmd.Process.Signal(syscall.SIGCONT))
	err := cmd.Wait()
	assert.NoError(t, err, "the child: %v\n%s", err, out)
	for n := range 8 {
		publish(t, newer, message(r.topic, fmt.Sprintf("new-%d", n), 1))
	}
	all := r.records(t, r.topic)
	assert.Empty(t, afterBarriers(all), "after the barrier")
	last := 8
	for _, b := range before.Partitions {
		last += int(b.Last)
	}
	assert.Len(t, all, last, "records")
	t.Logf("%s, %d records of it", strings.TrimSpace(out.String()), last)
}
