// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kube-eventbridge/kube-eventbridge/integration/internal/rig"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
)

// What docs/operations.md says of a checkpoint that is moved, and of one that is older than the log.
func TestOperations_a_checkpoint_is_moved_and_an_old_one_repeats_nothing(t *testing.T) {
	t.Parallel()
	r := newRig(t, `[{resource: configmaps, namespaces: [default]}]`)
	b := r.runReady()
	r.lives()
	r.awaitStory("default/goes", "added updated deleted")
	b.stop()
	was, before := filepath.Join(r.dir, "data", "test.db"), fmt.Sprintf("%+v", r.held())
	now := filepath.Join(r.dir, "elsewhere", "data", "test.db")
	require.NoError(t, os.MkdirAll(filepath.Dir(now), 0o755))
	require.NoError(t, os.Rename(was, now))
	replaced(t, r.config, r.config, filepath.Join(r.dir, "data"), filepath.Join(r.dir, "elsewhere", "data"))
	assert.Equal(t, before, fmt.Sprintf("%+v", r.held()), "the moved checkpoint shows")
	r.remove("default", "stays")
	old := must.Get(os.ReadFile(now))(t)
	b = r.run()
	r.awaitStory("default/stays", "added deleted")
	r.patch("default", "changes", `{"data":{"a":"2"}}`)
	r.configMap("default", "comes", nil)
	r.awaitStory("default/comes", "added")
	b.stop()

	require.NoError(t, os.WriteFile(now, old, 0o600))
	b = r.runReady()
	r.configMap("default", "last", nil)
	log := r.awaitStory("default/last", "added")
	b.stop()
	for key, want := range map[string]string{
		"default/stays": "added deleted", "default/changes": "added updated updated",
		"default/comes": "added", "default/goes": "added updated deleted",
	} {
		assert.Equal(t, want, story(log, key), "%s: the log", key)
	}
	mustBeUnique(t, log)
	gaps := count(log, "gap")
	assert.EqualValues(t, 0, gaps, "there are %d gaps", gaps)
}

// A password in a file is read at the start: who has another one goes on with a restart, and publishes what has waited.
func TestOperations_a_password_is_rotated(t *testing.T) {
	t.Parallel()
	r := newRig(t, "[]")
	password := "old"
	guarded := rig.NATSForTest(t, func(o *server.Options) {
		o.Users = []*server.User{{Username: "bridge", Password: password}}
	})
	file := filepath.Join(r.dir, "password")
	require.NoError(t, os.WriteFile(file, []byte("old"), 0o600))
	r.configureSink(`[{resource: configmaps, namespaces: [default]}]`,
		fmt.Sprintf("sink: {nats: {servers: [%q], user: bridge, passwordFile: %q}}", guarded.URL(), file))
	b := r.runReady()
	require.NoError(t, os.WriteFile(file, []byte("new"), 0o600))
	password = "new"
	require.NoError(t, guarded.Reload())
	r.configMap("default", "waits", nil)
	r.poll("the status to say why nothing is published", func() (bool, string) {
		_, said := r.status("/api/status") // at once; /readyz does not before half a minute
		return strings.Contains(said, "refuses the credentials"), said
	})
	b.signal(syscall.SIGTERM)
	r.poll("the bridge to drain", func() (bool, string) { return strings.Contains(b.stderr(), "stopping"), b.stderr() })
	b.signal(syscall.SIGTERM) // it would wait for the broker
	b.exit(128 + int(syscall.SIGTERM))
	b = r.runReady()
	r.js = guarded.Connect(t, nats.UserInfo("bridge", "new"))
	mustBeUnique(t, r.awaitStory("default/waits", "added"))
	b.stop()
}

// The broker permits an object's subject to no client, not even for a rejection. Everything else goes on, across a
// kill, and the object follows when it is permitted.
func TestBridge_goes_on_without_an_object_whose_subject_is_forbidden(t *testing.T) {
	t.Parallel()
	r := newRig(t, "[]")
	forbidden := []string{"k8s.*.core.configmaps.default.forbidden"}
	guarded := rig.NATSForTest(t, func(o *server.Options) {
		o.Users = []*server.User{
			{
				Username: "bridge", Password: "pw",
				Permissions: &server.Permissions{Publish: &server.SubjectPermission{Deny: forbidden}},
			},
			{Username: "reader", Password: "pw"},
		}
	})
	file := filepath.Join(r.dir, "password")
	require.NoError(t, os.WriteFile(file, []byte("pw"), 0o600))
	r.configureSink(`[{resource: configmaps, namespaces: [default]}]`,
		fmt.Sprintf("sink: {nats: {servers: [%q], user: bridge, passwordFile: %q}}", guarded.URL(), file))
	r.configMap("default", "forbidden", nil)
	b := r.runReady()
	r.js = guarded.Connect(t, nats.UserInfo("reader", "pw"))
	r.configMap("default", "permitted", nil)
	r.awaitStory("default/permitted", "added")
	r.poll("the status to name the object", func() (bool, string) {
		_, said := r.status("/api/status")
		return strings.Contains(said, "default/forbidden"), said
	})
	b.kill()
	r.patch("default", "forbidden", `{"data":{"a":"b"}}`)
	b = r.runReady()
	r.configMap("default", "later", nil)
	r.awaitStory("default/later", "added")
	require.Empty(t, story(r.entries(), "default/forbidden"))
	forbidden = nil
	require.NoError(t, guarded.Reload())
	mustBeUnique(t, r.awaitStory("default/forbidden", "added"))
	b.stop()
}
