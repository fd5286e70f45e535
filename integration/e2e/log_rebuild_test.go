// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kube-eventbridge/kube-eventbridge/integration/internal/rig"
)

// lostCheckpoints are the ways to lose what a bridge remembers.
var lostCheckpoints = map[string]struct {
	checkpoint string
	lose       func(t *testing.T, r *fixture)
}{
	"a bucket": {"checkpoint: {nats: {}}", func(t *testing.T,
		r *fixture,
	) {
		require.NoError(t, r.js.DeleteKeyValue(t.Context(), bucket))
	}},
	"a file": {"checkpoint: {file: {}}", func(t *testing.T,
		r *fixture,
	) {
		require.NoError(t, os.RemoveAll(filepath.Join(r.dir, "data")))
	}},
}

// What the log has is found in the log: nothing of it is published again, and objects that went meanwhile are deleted.
func TestBridge_whose_checkpoint_is_lost_goes_on_from_the_log(t *testing.T) {
	rig.Parallel(t, rig.All)
	for name, of := range lostCheckpoints {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, "[]")
			r.configureSink(`[{resource: cm, namespaces: [default]}, {resource: secrets, namespaceSelector: team=a}, `+
				`{resource: "*.example.com"}]`,
				fmt.Sprintf("sink: {nats: {servers: [%q]}}\n    %s", r.broker.url(), of.checkpoint))
			c := r.custom()
			c.define("gadgets", "v1")
			r.namespace("one")
			r.team("one", "a")
			for _, name := range []string{"stays", "changes", "goes", "went"} {
				r.configMap("default", name, nil)
				_, err := r.kube.CoreV1().Secrets("one").Create(t.Context(),
					&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
				require.NoError(t, err)
				c.make("gadgets", "v1", "gadget-"+name)
			}
			b := r.run()
			log := r.awaitOp("snapshot-completed", 3)
			var complete string
			for _, e := range log {
				if e.op == "snapshot-completed" && strings.HasSuffix(e.attribute("source"), "/configmaps") {
					complete = e.rv
				}
			}
			r.remove("default", "went")
			r.awaitStory("default/went", "added deleted")
			b.kill()
			of.lose(t, r)

			r.remove("default", "goes")
			require.NoError(t, r.kube.CoreV1().Secrets("one").Delete(t.Context(), "goes", metav1.DeleteOptions{}))
			require.NoError(t, c.of("gadgets", "v1").Delete(t.Context(), "gadget-goes", metav1.DeleteOptions{}))
			r.patch("default", "changes", `{"data":{"a":"b"}}`)
			r.configMap("default", "new", nil)
			b = r.run()
			for _, key := range []string{"default/goes", "default/gadget-goes", "one/goes"} {
				r.awaitStory(key, "added deleted")
			}
			r.awaitStory("default/new", "added")
			log = r.awaitStory("default/changes", "added updated")
			b.stop()
			mustBeUnique(t, log)
			for _, e := range log {
				assert.True(t, e.op != "gap" || !strings.HasSuffix(e.attribute("source"), "/configmaps") ||
					e.gap().From == complete, "the gap %s does not begin at %s", e.data, complete)
			}
			n := count(log, "gap")
			assert.Equal(t, 3, n, "there are %d gaps, want one of each resource", n)
			assert.Equal(t, "added", story(log, "default/stays"), "what has not changed")
		})
	}
}

// The broker comes back with a copy of its store from before a resource went, and a namespace left the selection. The
// checkpoint knows neither of them any more.
func TestBridge_ends_again_what_the_log_has_lost_the_end_of(t *testing.T) {
	rig.Parallel(t, rig.All)
	for _, running := range []bool{true, false} {
		t.Run(fmt.Sprintf("running=%v", running), func(t *testing.T) {
			r := newRig(t, `[{resource: "*.example.com"}, {resource: configmaps, namespaceSelector: team=a}]`)
			c := r.custom()
			c.define("gadgets", "v1")
			c.make("gadgets", "v1", "a")
			r.namespace("one")
			r.team("one", "a")
			r.configMap("one", "c", nil)
			b := r.run()
			r.awaitStory("default/a", "added")
			r.awaitStory("one/c", "added")
			r.awaitStatus(http.StatusOK, "ok")
			r.awaitCommits()
			putBack := r.copyBroker()

			c.undefine("gadgets")
			r.team("one", "b")
			r.awaitStory("default/a", "added deleted")
			r.awaitStory("one/c", "added deleted")
			r.poll("the streams to be forgotten", func() (bool, string) {
				return strings.Count(b.stderr(), "stream has ended") == 2, b.stderr()
			})
			if running {
				r.awaitCommits()
			} else {
				b.stop()
			}
			putBack()
			if !running {
				b = r.run()
			}
			for _, key := range []string{"default/a", "one/c"} {
				mustRise(t, r.awaitStory(key, "added deleted"), key)
			}
			r.awaitPage("the streams to be forgotten again", "", "gadgets", "configmaps.v1/one")
			b.stop()
			log := r.entries()
			for _, e := range log {
				assert.True(t, e.op != "deleted" || e.reason == "relist" || e.reason == "deselected",
					"%s has reason %s", e.id, e.reason)
			}
			mustBeUnique(t, log)
			if _, out, _ := r.command("checkpoint", "list", "--config", r.config); strings.Contains(out, "gadgets") ||
				strings.Contains(out, "configmaps") {
				t.Errorf("the checkpoint has them still: %s", out)
			}
		})
	}
}
