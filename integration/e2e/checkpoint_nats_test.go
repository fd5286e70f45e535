// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"
)

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
	if left, err := os.ReadDir(filepath.Join(r.dir, "data")); !errors.Is(err, fs.ErrNotExist) && len(left) > 0 {
		r.t.Errorf("on the disk are %v, %v", left, err)
	}
}

func TestCheckpoint_in_NATS_is_shown_and_reset(t *testing.T) {
	t.Parallel()
	r := newBucketRig(t)
	assert.Contains(t, r.checkpoint(0, "list"), "never", "before the first start")
	if code, out, said := r.command("validate", "--cluster", "--config", r.config); code != 0 {
		t.Errorf("validate ended with %d: %s%s", code, out, said)
	}
	if _, err := r.js.KeyValue(t.Context(), bucket); !errors.Is(err, jetstream.ErrBucketNotFound) {
		t.Errorf("who has only looked has made a bucket: %v", err)
	}
	b := r.run()
	r.awaitStatus(200, "ok")
	r.lives()
	r.awaitStory("default/goes", "added updated deleted")
	r.awaitSaved(2)
	b.stop()
	assert.Contains(t, r.checkpoint(0, "list"), "bucket "+bucket)
	r.checkpoint(0, "reset", "test", "--yes")
	if h := r.held(); !h.Exists || len(h.Streams) > 0 {
		t.Errorf("after it the checkpoint holds %+v", h)
	}
	r.run()
	log := r.awaitOp("snapshot-completed", 2)
	r.bridge.stop()
	for key, want := range map[string]string{"default/stays": "added", "default/changes": "added updated", "default/goes": "added updated deleted"} {
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
	if _, err := r.js.CreateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: bucket, Storage: jetstream.MemoryStorage}); err != nil {
		t.Fatal(err)
	}
	const want = "bucket " + bucket + " cannot keep checkpoints: it is kept in memory"
	code, out, said := r.command("validate", "--cluster", "--config", r.config)
	if code != 2 || !strings.Contains(out+said, "pipelines[0].checkpoint.nats: "+want) {
		t.Errorf("validate ended with %d: %s%s", code, out, said)
	}
	b := r.run()
	b.exit(1)
	assert.Contains(t, b.stderr(), want)
	if log := r.entries(); len(log) > 0 {
		t.Errorf("it has published %d events", len(log))
	}
}
