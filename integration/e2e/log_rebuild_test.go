// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kube-eventbridge/kube-eventbridge/integration/internal/rig"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// lostCheckpoints are the ways to lose what a bridge remembers.
var lostCheckpoints = map[string]struct {
	checkpoint string
	lose       func(t *testing.T, r *fixture)
}{
	"a bucket": {"checkpoint: {nats: {}}", func(t *testing.T, r *fixture) { require.NoError(t, r.js.DeleteKeyValue(t.Context(), bucket)) }},
	"a file":   {"checkpoint: {file: {}}", func(t *testing.T, r *fixture) { require.NoError(t, os.RemoveAll(filepath.Join(r.dir, "data"))) }},
}

// What the log has is found in the log: nothing of it is published again, and what went while nobody knew of it is deleted.
func TestBridge_whose_checkpoint_is_lost_goes_on_from_the_log(t *testing.T) {
	t.Parallel()
	rig.Tier(t, rig.All)
	for name, of := range lostCheckpoints {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, "[]")
			r.configureSink(`[{resource: cm, namespaces: [default]}, {resource: secrets, namespaceSelector: team=a}, {resource: "*.example.com"}]`,
				fmt.Sprintf("sink: {nats: {servers: [%q]}}\n    %s", r.broker.url(), of.checkpoint))
			c := r.custom()
			c.define("gadgets", "v1")
			r.namespace("one")
			r.team("one", "a")
			for _, name := range []string{"stays", "changes", "goes", "went"} {
				r.configMap("default", name, nil)
				_, err := r.kube.CoreV1().Secrets("one").Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
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
				if e.op == "gap" && strings.HasSuffix(e.attribute("source"), "/configmaps") && !strings.Contains(e.id, "."+complete+"-") {
					t.Errorf("the gap %s does not begin at %s", e.id, complete)
				}
			}
			if n := count(log, "gap"); n != 3 {
				t.Errorf("there are %d gaps, want one of each resource", n)
			}
			assert.Equal(t, "added", story(log, "default/stays"), "what has not changed")
		})
	}
}
