// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kube-eventbridge/kube-eventbridge/encode"
	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge/delivery"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
	"github.com/kube-eventbridge/kube-eventbridge/internal/testlog"
	"github.com/kube-eventbridge/kube-eventbridge/sink"
	"github.com/kube-eventbridge/kube-eventbridge/source"
)

// The log ends with another event of the object, and the broker stores nothing under the id that it remembers.
func TestConflict_an_event_waits_with_pauses_while_the_broker_remembers_its_id(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log, logged := newFakeLog(), &testlog.Text{}
		var attempts atomic.Int32
		log.stored = func() { attempts.Add(1) }
		r, s := startStream(t, log, &memoryStore{})
		send(t, s, source.Added, "a", "u1", "5", source.ReasonWatch)
		r.settle()
		_ = r.stop()
		log.set(func() {
			_, err := log.append(&sink.Message{Subject: log.at[0], ID: "behind it"})
			require.NoError(t, err)
		})
		attempts.Store(0)

		r, s = startStream(t, log, &memoryStore{})
		r.cfg.Log, r.env.Log, r.delivery.Log = logged.Logger(), logged.Logger(), logged.Logger()
		send(t, s, source.Added, "a", "u1", "5", source.ReasonWatch)
		<-time.After(time.Minute)
		n := attempts.Load()
		assert.LessOrEqual(t, n, int32(1+delivery.PatientConflicts+time.Minute/delivery.ConflictDelay),
			"attempts in a minute")
		assert.GreaterOrEqual(t, n, int32(time.Minute/delivery.ConflictDelay/2), "attempts in a minute")
		assert.Equal(t, 0, logged.Count("another writer"), "it is taken for another writer's: %s", logged)
		assert.NotZero(t, logged.Count("the broker still knows the id"), "nothing is logged: %s", logged)
		assert.Len(t, log.lines(), 2, "events are in the log")
		log.forgetIDs()
		r.settle()
		assert.Len(t, log.lines(), 3, "events are in the log")
		assert.Equal(t, log.log[0].ID, log.log[2].ID, "the last event")
		_ = r.stop()
	})
}

// A subject without {cluster} is that of two objects.
func TestConflict_with_an_event_of_another_cluster_leaves_no_change_out(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := newFakeLog()
		r, s := startStream(t, log, &memoryStore{})
		send(t, s, source.Added, "a", "u1", "5", source.ReasonWatch)
		r.settle()
		m := eventBy("test", configMaps, func(c *encode.Config) { c.Cluster = "west" }) // it is a later state
		m.Subject = log.at[0]
		must.Get(log.append(m))(t)
		send(t, s, source.Updated, "a", "u1", "6", source.ReasonWatch)
		r.settle()
		assert.Len(t, log.lines(), 3, "the change is taken for one that the log has")
		_ = r.stop()
	})
}

// Two processes by mistake publish to one log as one pipeline, each with a checkpoint of its own.
func TestConflict_with_an_event_of_another_process_is_told(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log, logged := newFakeLog(), &testlog.Text{}
		r, s := startStream(t, log, &memoryStore{})
		r.cfg.Log, r.env.Log, r.delivery.Log = logged.Logger(), logged.Logger(), logged.Logger()
		send(t, s, source.Added, "a", "u1", "5", source.ReasonWatch)
		r.settle()
		<-time.After(2 * delivery.LateFor)
		other, of := startStream(t, log, &memoryStore{})
		send(t, of, source.Updated, "a", "u1", "6", source.ReasonWatch)
		other.settle()
		assert.Zero(t, value(t, other.registry, "foreign_events_total"), "it may be of the process before")
		assert.Zero(t, value(t, r.registry, "foreign_events_total"), "it has met nothing yet")
		send(t, s, source.Updated, "a", "u1", "7", source.ReasonWatch)
		r.settle()
		assert.EqualValues(t, 1, value(t, r.registry, "foreign_events_total"))
		assert.ErrorContains(t, r.now(time.Now()).Writer.Err, "another kube-eventbridge publishes as pipeline test")
		assert.Equal(t, 1, logged.Count("set leaderElection"), "it is said once: %s", logged)
		send(t, s, source.Updated, "a", "u1", "8", source.ReasonWatch)
		r.settle()
		assert.EqualValues(t, 1, value(t, r.registry, "foreign_events_total"), "what it has published itself is its own")
		_ = other.stop()
		_ = r.stop()
	})
}
