// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/kube-eventbridge/kube-eventbridge/integration/internal/pause"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestReplicas_restarted_one_after_the_other_lose_and_repeat_nothing(t *testing.T) {
	r := shared.get(t).newRelease(t, "restarted")
	r.values["replicas"] = 2
	r.set(map[string]any{}, "config", "leaderElection")
	r.helm("install")
	before := r.pods()
	r.awaitVersion("early", r.configMap("early", "green"))
	written := r.write(func() {
		r.kubectl("rollout", "restart", "deployment/kube-eventbridge")
		r.kubectl("rollout", "status", "deployment/kube-eventbridge", "--timeout=90s")
	})
	r.awaitVersion("late", r.configMap("late", "blue"))
	for _, old := range before {
		for _, p := range r.pods() {
			assert.NotEqual(t, old.UID, p.UID, "%s was not restarted", p.Name)
		}
	}
	r.hasEach(written)
	r.takeovers()
}

// write changes ConfigMaps while something is done, and returns the versions that it has made of each, in order.
func (r *release) write(while func()) map[string][]string {
	r.t.Helper()
	ctx, cancel := context.WithCancel(r.t.Context())
	defer cancel()
	written := map[string][]string{}
	var g errgroup.Group
	g.Go(func() error {
		for i := 0; ; i++ {
			name := "written-" + strconv.Itoa(i%5)
			version, err := r.putConfigMap(context.WithoutCancel(ctx), name, strconv.Itoa(i))
			if err != nil {
				return err
			}
			written[name] = append(written[name], version)
			if pause.For(ctx, 50*time.Millisecond) != nil {
				return nil
			}
		}
	})
	defer func() {
		cancel()
		assert.NoError(r.t, g.Wait(), "write")
	}()
	while()
	cancel()
	require.NoError(r.t, g.Wait())
	return written
}

// hasEach checks that the log has every version once and in order, and no event twice.
func (r *release) hasEach(written map[string][]string) {
	r.t.Helper()
	got, seen, total := map[string][]string{}, map[string]bool{}, 0
	for _, e := range r.events() {
		assert.False(r.t, seen[e.kind+e.id], "the log has %s %s twice", e.kind, e.id)
		seen[e.kind+e.id] = true
		if e.kind == "ConfigMap" {
			got[e.key] = append(got[e.key], e.version)
		}
	}
	for name, want := range written {
		total += len(want)
		if len(got[name]) != len(want) {
			r.t.Errorf("of %s the log has %d versions of %d", name, len(got[name]), len(want))
			continue
		}
		for i := range want {
			assert.Equal(r.t, want[i], got[name][i], "of %s the log has %s as number %d", name, got[name][i], i)
		}
	}
	r.t.Logf("%d changes were written, and are in the log once", total)
}

// takeovers checks that writers follow each other, and that none had to wait until a Lease expired.
func (r *release) takeovers() {
	r.t.Helper()
	var last event
	changed := 0
	for _, e := range r.events() {
		if e.kind != "ConfigMap" {
			continue
		}
		if last.epoch != "" && e.epoch != last.epoch {
			changed++
			silence := e.stored.Sub(last.stored).Round(time.Millisecond)
			r.t.Logf("writer %s follows %s after %s without an event in the log", e.epoch, last.epoch, silence)
			assert.Greater(r.t, number(r.t, e.epoch), number(r.t, last.epoch),
				"writer %s follows %s", e.epoch, last.epoch)
			assert.LessOrEqual(r.t, silence, 10*time.Second,
				"writer %s follows %s after; a Lease that is handed over takes no 15 s", e.epoch, last.epoch)
		}
		last = e
	}
	assert.NotEqual(r.t, 0, changed, "both Pods were restarted, but there was one writer")
}

func number(t *testing.T, text string) int {
	t.Helper()
	n := must.Get(strconv.Atoi(text))(t)
	return n
}
