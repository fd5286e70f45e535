// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kube-eventbridge/kube-eventbridge/integration/internal/rig"
)

// A restarted API server refuses a watch from before its start; etcd still has what happened.
func TestBridge_reads_back_what_a_restarted_API_server_does_not_show(t *testing.T) {
	rig.Parallel(t, rig.All)
	const objects, updates = 50, 500
	r := newRig(t, `[{resource: configmaps, namespaces: [default]}]`)
	for i := range objects {
		r.configMap("default", fmt.Sprint("c", i), nil)
	}
	b := r.runReady()
	b.stop()
	want := map[string][]string{}
	for i := range updates {
		name := fmt.Sprint("c", i%objects)
		got := r.patch("default", name, fmt.Sprintf(`{"data":{"i":"%d"}}`, i))
		want["default/"+name] = append(want["default/"+name], got.ResourceVersion)
	}
	require.NoError(t, r.api.KillAPIServer())
	require.NoError(t, r.api.StartAPIServer(t.Context()))
	before := len(r.entries())
	b = r.run()
	r.await("the updates behind a gap", func(log []entry) bool { return len(log) > before+updates })
	r.awaitStatus(http.StatusOK, "ok")
	b.stop()
	log := r.entries()
	found, recovered := 0, 0
	for _, e := range log[before:] {
		if e.reason == "recovered" {
			recovered++
		}
		if left := want[e.key]; len(left) > 0 && left[0] == e.rv {
			want[e.key] = left[1:]
			found++
		} else if e.key != "" {
			t.Errorf("%s of %s at %s, want %v", e.op, e.key, e.rv, left)
		}
	}
	assert.Equal(t, updates, found, "of %d updates are in the log in their order", updates)
	t.Logf("%d of %d updates are in the log, %d of them read back", found, updates, recovered)
	assert.Equal(t, 1, count(log, "gap"), "gaps were announced, want 1")
	mustBeUnique(t, log)
}

func TestBridge_begins_an_epoch_when_etcd_was_restored(t *testing.T) {
	rig.Parallel(t, rig.All)
	for _, c := range []struct {
		name          string
		bump, running bool
	}{
		{"while it was away", false, false},
		{"while it ran", false, true},
		{"with a bump of the version while it ran", true, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, `[{resource: configmaps, namespaces: [default]}]`)
			for _, name := range []string{"stays", "changes", "goes"} {
				r.configMap("default", name, nil)
			}
			b := r.runReady()
			backup := filepath.Join(t.TempDir(), "backup")
			require.NoError(t, r.api.Snapshot(t.Context(), backup))
			r.patch("default", "changes", `{"data":{"a":"1"}}`)
			r.remove("default", "goes")
			r.configMap("default", "comes", nil)
			r.awaitStory("default/comes", "added")
			if !c.running {
				b.stop()
			}
			require.NoError(t, r.api.Restore(t.Context(), backup, c.bump))
			if !c.running {
				b = r.run()
			}
			r.await("the restore to be noticed", func(log []entry) bool { // a gap for another reason may precede it
				return slices.ContainsFunc(log, func(e entry) bool { return e.op == "gap" && e.gap().Cause == "restored" })
			})
			r.patch("default", "stays", `{"data":{"a":"2"}}`)
			r.awaitStory("default/stays", "added updated updated")
			b.stop() // what was read is published first
			log := r.entries()
			for key, want := range map[string]string{
				"default/changes": "added updated updated", "default/goes": "added deleted added", "default/comes": "added deleted",
			} {
				assert.Equal(t, want, story(log, key), "%s: the log", key)
			}
			var last gap
			for _, e := range log {
				if e.op == "gap" {
					last = e.gap()
				}
			}
			first, _, _ := log[slices.IndexFunc(log, func(e entry) bool { return e.uid != "" })].numbers()
			assert.True(t, last.Cause == "restored" && last.Epoch > first,
				"the last gap is %+v, and epoch %d was before", last, first)
			mustBeUnique(t, log)
		})
	}
}

// The broker comes back with an older copy of its store.
func TestBridge_repairs_a_log_that_lost_what_it_had_acknowledged(t *testing.T) {
	rig.Parallel(t, rig.All)
	for _, running := range []bool{true, false} {
		t.Run(fmt.Sprintf("running=%v", running), func(t *testing.T) {
			r := newRig(t, `[{resource: configmaps, namespaces: [default]}]`)
			for _, name := range []string{"stays", "changes", "goes"} {
				r.configMap("default", name, nil)
			}
			b := r.runReady()
			b.stop() // a stop saves
			b = r.runReady()
			putBack := r.copyBroker()
			r.patch("default", "changes", `{"data":{"a":"1"}}`)
			r.patch("default", "changes", `{"data":{"a":"2"}}`)
			r.remove("default", "goes")
			r.configMap("default", "comes", nil)
			r.awaitStory("default/comes", "added")
			if running {
				r.awaitCommits()
			} else {
				b.stop()
			}
			putBack()
			if !running {
				b = r.run()
			}
			for key, want := range map[string]string{
				"default/comes": "added", "default/changes": "added updated", "default/goes": "added deleted",
				"default/stays": "added updated",
			} {
				r.awaitStory(key, want)
			}
			r.configMap("default", "last", nil)
			log := r.awaitStory("default/last", "added")
			b.stop()
			// Everything that exists is in the log again, in the epoch of a gap and between the markers of a resync.
			repaired, lost, open := 0, gap{}, false
			for _, e := range log {
				switch {
				case e.op == "gap":
					lost = e.gap()
				case e.op == "resync-started", e.op == "resync-completed":
					open = e.op == "resync-started"
				case e.reason == "repair":
					repaired++
					epoch, _, _ := e.numbers()
					assert.True(t, lost.Cause == "log-lost" && lost.Epoch == epoch && open && !e.again(),
						"%s is a repair behind %+v", e.id, lost)
				}
			}
			assert.GreaterOrEqual(t, repaired, 4, "events have the reason repair, want those of 4 objects at least")
			mustBeUnique(t, log)
		})
	}
}

// copyBroker copies the broker's store. The function that it returns puts the copy in the place of the store.
func (r *fixture) copyBroker() (putBack func()) {
	copyOf := filepath.Join(r.t.TempDir(), "copy")
	stopped := func(steps func()) { r.broker.stop(); steps(); r.broker.start() }
	stopped(func() { require.NoError(r.t, os.CopyFS(copyOf, os.DirFS(r.broker.Dir))) })
	return func() {
		stopped(func() {
			require.NoError(r.t, os.RemoveAll(r.broker.Dir))
			require.NoError(r.t, os.CopyFS(r.broker.Dir, os.DirFS(copyOf)))
		})
	}
}

// awaitCommits waits until the checkpoint was saved twice: the second time it has what was there before.
func (r *fixture) awaitCommits() {
	r.t.Helper()
	before, n := -1.0, 2
	r.poll("the checkpoint to be saved", func() (bool, string) {
		age := 0.0
		for line := range strings.Lines(r.metrics()) {
			if _, err := fmt.Sscanf(line, `kube_eventbridge_checkpoint_age_seconds{pipeline="test"} %g`, &age); err == nil {
				break
			}
		}
		if age < before {
			n--
		}
		before = age
		return n == 0, fmt.Sprintf("it is %g s old", age)
	})
}
