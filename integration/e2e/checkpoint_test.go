// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	"github.com/kube-eventbridge/kube-eventbridge/checkpoint/file"
)

// checkpoint runs a subcommand, which has to end with a code, and returns what it prints.
func (r *rig) checkpoint(code int, args ...string) (out string) {
	r.t.Helper()
	got, out, said := r.command(append([]string{"checkpoint", "--config", r.config}, args...)...)
	if got != code {
		r.t.Fatalf("checkpoint %v ended with %d, want %d: %s%s", args, got, code, out, said)
	}
	return out + said
}

// held is what checkpoint show says.
type held struct {
	Exists  bool
	Streams []struct {
		Name, Position string
		Objects        int
	}
}

func (r *rig) held() (h held) {
	r.t.Helper()
	must(r.t, json.Unmarshal([]byte(r.checkpoint(0, "show", "test", "-o", "json")), &h))
	return h
}

// lives makes objects that stay, change and go, and returns the version before.
func (r *rig) lives() (before string) {
	r.t.Helper()
	before = r.configMap("default", "stays", nil).ResourceVersion
	r.configMap("default", "changes", nil)
	r.configMap("default", "goes", nil)
	r.patch("default", "changes", `{"data":{"a":"1"}}`)
	r.patch("default", "goes", `{"data":{"a":"1"}}`)
	r.remove("default", "goes")
	return before
}

// awaitSaved waits until the checkpoint has n objects, and a position.
func (r *rig) awaitSaved(n int) {
	r.t.Helper()
	r.poll("the checkpoint", func() (bool, string) {
		h := r.held()
		return len(h.Streams) == 1 && h.Streams[0].Position != "" && h.Streams[0].Objects == n, fmt.Sprintf("%+v", h)
	})
}

// Also where the log cannot be asked for the last event of an object, as on Kafka, and the checkpoint knows nothing of the dead.
func testRewindRepeatsNothing(r *rig) {
	b := r.run()
	r.awaitStatus(http.StatusOK, "ok")
	before := r.lives()
	r.awaitStory("default/goes", "added updated deleted")
	r.configMap("default", "last", nil)
	r.awaitStory("default/last", "added")
	r.checkpoint(0, "list")
	b.stop()
	want := objects(r.entries())
	if said := r.checkpoint(0, "rewind", "test", "--to", before); !strings.Contains(said, "configmaps.v1/default: position "+before+", was ") {
		r.t.Errorf("rewind says %q", said)
	}
	if h := r.held(); h.Streams[0].Position != before {
		r.t.Errorf("after it the checkpoint holds %+v", h)
	}
	b = r.run()
	r.awaitStatus(http.StatusOK, "ok")
	r.configMap("default", "next", nil)
	log := r.awaitStory("default/next", "added")
	b.stop()
	if got := objects(log); got != want+1 {
		r.t.Errorf("the log has %d events of objects, want %d", got, want+1)
	}
	mustBeUnique(r.t, log)
}

// objects counts the events that are about any.
func objects(log []entry) (n int) {
	for _, e := range log {
		if e.key != "" {
			n++
		}
	}
	return n
}

func TestCheckpoint_rewind_repeats_nothing(t *testing.T) {
	testRewindRepeatsNothing(newRig(t, `[{resource: configmaps, namespaces: [default]}]`))
}

// A position that is ahead stands for whatever made the bridge pass over something.
func TestCheckpoint_rewind_brings_what_was_passed_over(t *testing.T) {
	r := newRig(t, `[{resource: configmaps, namespaces: [default]}]`)
	b := r.run()
	r.awaitStatus(http.StatusOK, "ok")
	b.stop()
	before := r.lives()
	r.configMap("default", "known", nil)
	last := r.patch("default", "known", `{"data":{"a":"1"}}`)
	r.pass(last.ResourceVersion, map[string]checkpoint.Row{"default/known": {UID: string(last.UID), ResourceVersion: last.ResourceVersion}})
	b = r.run()
	r.awaitStatus(http.StatusOK, "ok")
	r.configMap("default", "next", nil)
	if log := r.awaitStory("default/next", "added"); story(log, "default/goes") != "" {
		t.Error("it was not passed over")
	}
	b.stop()
	r.checkpoint(0, "rewind", "test", "--to", before)
	b = r.run()
	r.awaitStory("default/goes", "added updated deleted")
	log := r.awaitStory("default/changes", "added updated")
	b.stop()
	if got := story(log, "default/known"); got != "" {
		t.Errorf("known: the log says %q, and was to have nothing behind what it is known to have", got)
	}
	mustBeUnique(t, log)
}

// pass makes the checkpoint say that all up to a version is in the log.
func (r *rig) pass(version string, rows map[string]checkpoint.Row) {
	r.t.Helper()
	path := filepath.Join(r.dir, "data", "test.db")
	state, err := file.Inspect(r.t.Context(), path)
	must(r.t, err)
	store, err := file.Open(path, state.Identity)
	must(r.t, err)
	const name = "configmaps.v1/default"
	saved := state.Streams[name]
	saved.Position = version
	must(r.t, store.Commit(r.t.Context(), &checkpoint.Batch{
		Identity: state.Identity, Streams: map[string]checkpoint.Stream{name: saved}, Put: map[string]map[string]checkpoint.Row{name: rows},
	}))
	must(r.t, store.Close())
}

func TestCheckpoint_of_a_running_bridge_is_shown_and_not_changed(t *testing.T) {
	r := newRig(t, `[{resource: configmaps, namespaces: [default]}]`)
	b := r.run()
	r.awaitStatus(http.StatusOK, "ok")
	before := r.lives()
	r.awaitSaved(2)
	for _, args := range [][]string{{"reset", "test", "--yes"}, {"rewind", "test", "--to", before}} {
		if said := r.checkpoint(1, args...); !strings.Contains(said, "a kube-eventbridge runs with the checkpoint in file "+filepath.Join(r.dir, "data", "test.db")+": stop it first") {
			t.Errorf("%v says %q", args, said)
		}
	}
	r.configMap("default", "next", nil)
	r.awaitSaved(3)
	b.stop()
}

func TestCheckpoint_reset_is_followed_by_a_snapshot(t *testing.T) {
	r := newRig(t, `[{resource: configmaps, namespaces: [default]}]`)
	b := r.run()
	r.awaitStatus(http.StatusOK, "ok")
	r.lives()
	r.awaitStory("default/goes", "added updated deleted")
	b.stop()
	r.remove("default", "stays") // which nobody will tell
	r.checkpoint(0, "reset", "test", "--yes")
	r.run()
	r.awaitStatus(http.StatusOK, "ok")
	log := r.awaitOp("snapshot-completed", 2)
	r.bridge.stop()
	for key, want := range map[string]string{"default/stays": "added", "default/changes": "added updated", "default/goes": "added updated deleted"} {
		if got := story(log, key); got != want { // a subject for each object tells what is there already
			t.Errorf("%s: the log says %q, want %q", key, got, want)
		}
	}
	mustBeUnique(t, log)
}

func TestCheckpoint_in_Kafka_is_shown_rewound_and_reset(t *testing.T) {
	r := newKafkaRig(t, 1)
	text, err := os.ReadFile(r.config)
	must(t, err)
	must(t, os.WriteFile(r.config, bytes.ReplaceAll(text, []byte(watched), []byte(`[{resource: configmaps, namespaces: [default]}]`)), 0o600))
	if said := r.checkpoint(0, "list"); !strings.Contains(said, "never") {
		t.Errorf("before the first start it says %q", said)
	}
	testRewindRepeatsNothing(r)
	r.checkpoint(0, "reset", "test", "--yes")
	if h := r.held(); !h.Exists || len(h.Streams) > 0 {
		t.Errorf("after it the checkpoint holds %+v", h)
	}
	r.run()
	r.awaitOp("snapshot-completed", 2)
	log := r.awaitStory("default/changes", "added updated added") // the same state again, as nobody can be asked for it
	if got := story(log, "default/goes"); got != "added updated deleted" {
		t.Errorf("what is gone: the log says %q", got)
	}
	r.bridge.stop()
}

func TestCheckpoint_in_Kafka_of_a_bridge_that_commits_is_left_to_it(t *testing.T) {
	r := newKafkaRig(t, 1)
	r.run()
	r.awaitStatus(http.StatusOK, "")
	ctx, stop := context.WithCancel(t.Context())
	var driving sync.WaitGroup
	driving.Go(func() {
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		for i := 0; ctx.Err() == nil; i++ {
			if _, err := r.kube.CoreV1().ConfigMaps("default").Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("c", i)}}, metav1.CreateOptions{}); err != nil && ctx.Err() == nil {
				t.Error(err)
				return
			}
			<-tick.C
		}
	})
	r.awaitStory("default/c1", "added")
	said := r.checkpoint(1, "reset", "test", "--yes")
	if !strings.Contains(said, "a kube-eventbridge runs with the checkpoint in topic kube-eventbridge-checkpoints: stop it first; nothing was changed") {
		t.Errorf("it says %q", said)
	}
	stop()
	driving.Wait()
	r.bridge.stop()
	log := r.entries()
	mustBeUnique(t, log)
}
