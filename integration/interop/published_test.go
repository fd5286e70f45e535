// SPDX-License-Identifier: Apache-2.0

package interop

import (
	"testing"

	"github.com/kube-eventbridge/kube-eventbridge/integration/internal/rig"
)

// published is what the four logs have, as a plain reader finds it.
type published struct {
	*world
	logs map[string][]*event
}

// publish plays what the tests are about, and waits until all of it is in all logs.
func publish(t *testing.T) *published {
	t.Helper()
	r := newWorld(t)
	r.before()
	w := r.watch()
	r.run()
	r.play(w)
	p := &published{world: r, logs: map[string][]*event{}}
	for _, log := range logs {
		rig.Try(t, "everything to be in "+log, func() (err error) {
			if p.logs[log], err = r.raw(log); err != nil {
				return err
			}
			return w.missing(p.logs[log])
		})
		report(t, w.contradictions(p.logs[log]))
	}
	return p
}

// report fails the test for the first of what is wrong.
func report(t *testing.T, wrong []string) {
	t.Helper()
	for i, w := range wrong {
		if i == 5 {
			t.Errorf("and %d more", len(wrong)-i)
			return
		}
		t.Error(w)
	}
}

// lacks says which kinds of event the test wants to be about, and are not there.
func lacks(log string, events []*event) (lacking []string) {
	has := map[string]bool{}
	for _, e := range events {
		has[e.op()] = true
		has["tombstone"] = has["tombstone"] || e.gone != ""
		has["folded"] = has["folded"] || e.attributes["sampledrate"] != ""
		has["named"] = has["named"] || e.attributes["fieldmanager"] == manager
	}
	wanted := []string{
		"added", "updated", "deleted", "rejected", "snapshot-started", "snapshot-completed", "folded",
		"named",
	}
	if onKafka(log) {
		wanted = append(wanted, "started", "tombstone")
	}
	for _, kind := range wanted {
		if !has[kind] {
			lacking = append(lacking, kind)
		}
	}
	return lacking
}

func TestEvents_are_read_by_clients_that_were_written_elsewhere(t *testing.T) {
	t.Parallel()
	p := publish(t)
	for _, log := range logs {
		if lacking := lacks(log, p.logs[log]); len(lacking) > 0 {
			t.Fatalf("%s has no %v: %v", log, lacking, p.logs[log])
		}
	}
	p.buildClients()
	t.Run("clients", func(t *testing.T) { p.areRead(t) }) // a group, since its tests run side by side
	for _, log := range logs[:2] {
		t.Run("kcat/"+log, func(t *testing.T) { p.kcat(t, log) })
		t.Run("console consumer/"+log, func(t *testing.T) { p.consoleConsumer(t, log) })
	}
	t.Run("AsyncAPI", p.areDescribed)
	t.Run("compacted", p.compacted)
}

// areRead checks that each client reads the logs as they are, applies what is newer in one that repeats itself, and
// says so if the beginning of a log is missing.
func (p *published) areRead(t *testing.T) {
	for _, c := range clients {
		for _, log := range logs {
			t.Run(c.name+"/"+log, func(t *testing.T) {
				t.Parallel()
				want := withoutNull(p.logs[log])
				got := read(t, c.on(t, p.world, log, target(log), "all", stateFile(t)), len(want))
				report(t, differences(want, got))
			})
		}
	}
	for _, c := range clients {
		t.Run(c.name+" forgets no deletion too soon", func(t *testing.T) {
			t.Parallel()
			p.spreads(t, c, p.logs["kafka-binary"])
		})
	}
	for _, log := range []string{"kafka-binary", "nats-binary"} {
		repeated, once := repeat(p.logs[log])
		left := repeated[len(repeated)-2:]
		p.create(log, trimmed)
		shortened := p.store(log, trimmed, repeated)
		p.trim(log, trimmed, len(repeated)-len(left))
		for _, c := range clients {
			t.Run(c.name+" applies what is newer/"+log, func(t *testing.T) {
				t.Parallel()
				p.goesOn(t, c, log, repeated, once)
			})
			t.Run(c.name+" says what is missing/"+log, func(t *testing.T) {
				t.Parallel()
				p.notices(t, c, log, shortened, left)
			})
		}
	}
}

// withoutNull returns a log without the records that consumers skip.
func withoutNull(log []*event) (events []*event) {
	for _, e := range log {
		if e.gone == "" {
			events = append(events, e)
		}
	}
	return events
}
