// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kube-eventbridge/kube-eventbridge/integration/internal/rig"
)

// checkpoint runs a subcommand, which has to end with a code, and returns what it prints.
func (r *fixture) checkpoint(code int, args ...string) (out string) {
	r.t.Helper()
	got, out, said := r.command(append([]string{"checkpoint", "--config", r.config}, args...)...)
	require.Equal(r.t, code, got, "checkpoint %v ended, want %d: %s%s", args, code, out, said)
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

func (r *fixture) held() (h held) {
	r.t.Helper()
	require.NoError(r.t, json.Unmarshal([]byte(r.checkpoint(0, "show", "test", "-o", "json")), &h))
	return h
}

// lives makes objects that stay, change and go.
func (r *fixture) lives() {
	r.t.Helper()
	r.configMap("default", "stays", nil)
	r.configMap("default", "changes", nil)
	r.configMap("default", "goes", nil)
	r.patch("default", "changes", `{"data":{"a":"1"}}`)
	r.patch("default", "goes", `{"data":{"a":"1"}}`)
	r.remove("default", "goes")
}

// awaitSaved waits until the checkpoint has n objects, and a position.
func (r *fixture) awaitSaved(n int) {
	r.t.Helper()
	r.poll("the checkpoint", func() (bool, string) {
		h := r.held()
		return len(h.Streams) == 1 && h.Streams[0].Position != "" && h.Streams[0].Objects == n, fmt.Sprintf("%+v", h)
	})
}

func TestCheckpoint_of_a_running_bridge_is_shown_and_not_changed(t *testing.T) {
	t.Parallel()
	r := newRig(t, `[{resource: configmaps, namespaces: [default]}]`)
	b := r.runReady()
	r.lives()
	r.awaitSaved(2)
	if said := r.checkpoint(1, "reset", "test", "--yes"); !strings.Contains(said,
		"a kube-eventbridge runs with the checkpoint in file "+filepath.Join(r.dir, "data", "test.db")+": stop it first") {
		t.Errorf("it says %q", said)
	}
	r.configMap("default", "next", nil)
	r.awaitSaved(3)
	b.stop()
}

func TestCheckpoint_reset_is_followed_by_a_snapshot(t *testing.T) {
	t.Parallel()
	r := newRig(t, `[{resource: configmaps, namespaces: [default]}]`)
	b := r.runReady()
	r.lives()
	r.awaitStory("default/goes", "added updated deleted")
	b.stop()
	r.remove("default", "stays") // a deletion that no watch reports
	r.checkpoint(0, "reset", "test", "--yes")
	r.runReady()
	log := r.awaitOp("snapshot-completed", 2)
	r.bridge.stop()
	for key, want := range map[string]string{
		"default/stays": "added", "default/changes": "added updated",
		"default/goes": "added updated deleted",
	} {
		if got := story(log, key); got != want { // a subject for each object tells what is there already
			t.Errorf("%s: the log says %q, want %q", key, got, want)
		}
	}
	mustBeUnique(t, log)
}

func TestCheckpoint_rewind_is_followed_by_what_happened_since(t *testing.T) {
	t.Parallel()
	r := newRig(t, `[{resource: configmaps, namespaces: [default]}]`)
	r.configMap("default", "old", nil)
	b := r.runReady()
	from := r.configMap("default", "from", nil).ResourceVersion
	r.lives()
	r.awaitStory("default/goes", "added updated deleted")
	b.stop()
	if said := r.checkpoint(2, "rewind", "test", "--to", from); !strings.Contains(said, "position "+from+", was ") ||
		!strings.Contains(said, "nothing was changed") {
		t.Errorf("without --yes it says %q", said)
	}
	r.checkpoint(0, "rewind", "test", "--to", from, "--yes")
	r.run().kill()
	r.run()
	r.awaitStory("default/goes", "added updated deleted added updated deleted")
	r.patch("default", "changes", `{"data":{"a":"2"}}`)
	r.awaitStory("default/changes", "added updated added updated updated")
	r.bridge.stop() // what was read is published first
	log := r.entries()
	for key, want := range map[string]string{
		"default/stays": "added added", "default/goes": "added updated deleted added updated deleted",
		"default/from": "added", "default/old": "added",
	} {
		assert.Equal(t, want, story(log, key), "%s: the log", key)
	}
	mustBeUnique(t, log)
	for _, e := range log {
		assert.Equal(t, e.again(), e.reason == "resync",
			"the id of what is published by %s is %s", e.reason, e.id)
	}
	gaps := count(log, "gap")
	assert.EqualValues(t, 0, gaps, "there are %d gaps", gaps)
}

func TestCheckpoint_in_Kafka_is_shown_and_reset(t *testing.T) {
	rig.Parallel(t, rig.All)
	r := newKafkaRig(t, watched)
	assert.Contains(t, r.checkpoint(0, "list"), "never", "before the first start")
	b := r.runReady()
	r.lives()
	r.awaitStory("default/goes", "added updated deleted")
	r.awaitSaved(2)
	b.stop()
	r.checkpoint(0, "reset", "test", "--yes")
	h := r.held()
	assert.True(t, h.Exists && len(h.Streams) <= 0, "after it the checkpoint holds %+v", h)
	r.run()
	r.awaitOp("snapshot-completed", 2)
	log := r.awaitStory("default/changes", "added updated added") // the state between cannot be read
	assert.Equal(t, "added updated deleted", story(log, "default/goes"), "what is gone: the log")
	r.bridge.stop()
}

func TestCheckpoint_in_Kafka_of_a_bridge_that_commits_is_left_to_it(t *testing.T) {
	rig.Parallel(t, rig.All)
	r := newKafkaRig(t, watched)
	r.run()
	r.awaitStatus(http.StatusOK, "")
	ctx, stop := context.WithCancel(t.Context())
	var driving sync.WaitGroup
	driving.Go(func() {
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		for i := 0; ctx.Err() == nil; i++ {
			if _, err := r.kube.CoreV1().ConfigMaps("default").Create(ctx,
				&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("c", i)}}, metav1.CreateOptions{}); err != nil &&
				ctx.Err() == nil {
				t.Error(err)
				return
			}
			<-tick.C
		}
	})
	r.awaitStory("default/c1", "added")
	said := r.checkpoint(1, "reset", "test", "--yes")
	if !strings.Contains(said,
		"a kube-eventbridge runs with the checkpoint in topic "+r.kafka.topic+"-checkpoints: stop it first; nothing was "+
			"changed") {
		t.Errorf("it says %q", said)
	}
	stop()
	driving.Wait()
	r.bridge.stop()
	log := r.entries()
	mustBeUnique(t, log)
}

const bucket = "kube-eventbridge-checkpoints"

// newBucketRig has a bridge that keeps nothing on a disk: its checkpoint is where its events are.
func newBucketRig(t *testing.T) *fixture {
	t.Helper()
	r := newRig(t, watched)
	r.configureSink(watched, fmt.Sprintf("sink: {nats: {servers: [%q]}}\n    checkpoint: {nats: {}}", r.broker.url()))
	return r
}

// mustKeepNothing fails if the bridge has left anything on the disk.
func (r *fixture) mustKeepNothing() {
	r.t.Helper()
	left, err := os.ReadDir(filepath.Join(r.dir, "data"))
	assert.True(r.t, errors.Is(err, fs.ErrNotExist) || len(left) <= 0, "on the disk are %v, %v", left, err)
}

func TestCheckpoint_in_NATS_is_shown_and_reset(t *testing.T) {
	t.Parallel()
	r := newBucketRig(t)
	assert.Contains(t, r.checkpoint(0, "list"), "never", "before the first start")
	code, out, said := r.command("validate", "--cluster", "--config", r.config)
	assert.Equal(t, 0, code, "validate ended with %d: %s%s", code, out, said)
	_, err := r.js.KeyValue(t.Context(), bucket)
	assert.ErrorIs(t, err, jetstream.ErrBucketNotFound, "who has only looked has made a bucket")
	b := r.runReady()
	r.lives()
	r.awaitStory("default/goes", "added updated deleted")
	r.awaitSaved(2)
	b.stop()
	assert.Contains(t, r.checkpoint(0, "list"), "bucket "+bucket)
	r.checkpoint(0, "reset", "test", "--yes")
	h := r.held()
	assert.True(t, h.Exists && len(h.Streams) <= 0, "after it the checkpoint holds %+v", h)
	r.run()
	log := r.awaitOp("snapshot-completed", 2)
	r.bridge.stop()
	for key, want := range map[string]string{
		"default/stays": "added", "default/changes": "added updated",
		"default/goes": "added updated deleted",
	} {
		if got := story(log, key); got != want { // a subject for each object tells what is there already
			t.Errorf("%s: the log says %q, want %q", key, got, want)
		}
	}
	mustBeUnique(t, log)
	r.mustKeepNothing()
}

// A bucket that forgets is refused before anything is published, by who only looks too.
func TestBridge_refuses_a_bucket_that_forgets(t *testing.T) {
	t.Parallel()
	r := newBucketRig(t)
	if _, err := r.js.CreateKeyValue(t.Context(), jetstream.KeyValueConfig{
		Bucket:  bucket,
		Storage: jetstream.MemoryStorage,
	}); err != nil {
		t.Fatal(err)
	}
	const want = "bucket " + bucket + " cannot keep checkpoints: it is kept in memory"
	code, out, said := r.command("validate", "--cluster", "--config", r.config)
	assert.True(t, code == 2 && strings.Contains(out+said, "pipelines[0].checkpoint.nats: "+want),
		"validate ended with %d: %s%s", code, out, said)
	b := r.run()
	b.exit(1)
	assert.Contains(t, b.stderr(), want)
	log := r.entries()
	assert.Empty(t, log, "it has published %d events", len(log))
}
