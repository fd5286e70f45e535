// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"slices"
	"testing"
	"time"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
)

func TestAudit_finds_what_the_log_has_and_does_not_exist(t *testing.T) {
	api, log, store := newAPIServer(t, 10), newReadableLog(), &memoryStore{}
	api.add(3)
	b := runBridge(t, api, log, store, func(c *Config) { c.Audit = 20 * time.Millisecond })
	s := b.only(t)
	waitFor(t, "the watch", func() bool { return s.status.watching() && s.safe() == "4" })
	waitFor(t, "an audit", func() bool { return value(t, b.registry, "audits_total") > 0 })
	if n := value(t, b.registry, "audit_differences_total"); n != 0 {
		t.Fatalf("%v objects differ where all is well", n)
	}
	s.mu.Lock()
	s.ledger.Put("default/ghost", checkpoint.Row{UID: "u", ResourceVersion: "2"})
	s.mu.Unlock()
	waitFor(t, "the ghost's end", func() bool { return slices.Contains(log.lines(), "deleted default/ghost u 2 relist") })
	if n := value(t, b.registry, "audit_differences_total"); n < 1 {
		t.Errorf("%v objects differ", n)
	}
	if err := b.stop(); err != nil {
		t.Error(err)
	}
}

func TestAudit_is_not_confused_by_what_is_under_way(t *testing.T) {
	api, log, store := newAPIServer(t, 10), newReadableLog(), &memoryStore{}
	b := runBridge(t, api, log, store, func(c *Config) { c.Audit = time.Millisecond })
	s := b.only(t)
	waitFor(t, "the watch", func() bool { return s.status.watching() })
	for n := range 200 {
		api.add(1)
		waitFor(t, "an audit", func() bool { return value(t, b.registry, "audits_total") >= float64(n)/20 })
	}
	waitFor(t, "all events", func() bool { return len(log.lines()) == 202 })
	if n := value(t, b.registry, "audit_differences_total"); n != 0 {
		t.Errorf("%v objects differ", n)
	}
	if err := b.stop(); err != nil {
		t.Error(err)
	}
}
