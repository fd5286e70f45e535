// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kube-eventbridge/kube-eventbridge/integration/internal/rig"
	"github.com/stretchr/testify/require"
)

// The broker comes back with a copy of its store from before a resource went, and a namespace left the selection. The checkpoint knows neither of them any more.
func TestBridge_ends_again_what_the_log_has_lost_the_end_of(t *testing.T) {
	t.Parallel()
	rig.Tier(t, rig.All)
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
			r.broker.stop()
			copyOf := filepath.Join(t.TempDir(), "copy")
			require.NoError(t, os.CopyFS(copyOf, os.DirFS(r.broker.Dir)))
			r.broker.start()

			c.undefine("gadgets")
			left := r.team("one", "b")
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
			r.broker.stop()
			require.NoError(t, os.RemoveAll(r.broker.Dir))
			require.NoError(t, os.CopyFS(r.broker.Dir, os.DirFS(copyOf)))
			r.broker.start()
			if !running {
				b = r.run()
			}
			for key, want := range map[string]string{"default/a": ".deleted.r1", "one/c": ".deleted.s" + left + ".r1"} {
				log := r.awaitStory(key, "added deleted")
				if got := ids(log, key); !strings.HasSuffix(got, " "+want) {
					t.Errorf("the ids of %s are %s, want the last to be %s", key, got, want)
				}
			}
			r.poll("the streams to be forgotten again", func() (bool, string) {
				_, page := r.status("/")
				return !strings.Contains(page, "gadgets") && !strings.Contains(page, "configmaps.v1/one"), page
			})
			b.stop()
			log := r.entries()
			for _, e := range log {
				if e.op == "deleted" && e.reason != "repair" {
					t.Errorf("%s has reason %s", e.id, e.reason)
				}
			}
			mustBeUnique(t, log)
			if _, out, _ := r.command("checkpoint", "list", "--config", r.config); strings.Contains(out, "gadgets") || strings.Contains(out, "configmaps") {
				t.Errorf("the checkpoint has them still: %s", out)
			}
		})
	}
}
