// SPDX-License-Identifier: Apache-2.0

package replica

import (
	"errors"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kube-eventbridge/kube-eventbridge/internal/replica/keys"
	"github.com/kube-eventbridge/kube-eventbridge/internal/replica/replicatest"
)

// A comparison is run from scripts: it must not wait for a broker that is away, or a target that cannot be read.
func TestCompare_fails_if_nothing_comes_for_long(t *testing.T) {
	for name, c := range map[string]struct {
		arrange func(g *rig)
		want    []string
	}{
		"of the log": {
			func(*rig) {},
			[]string{"the log of cluster east told nothing for 30s", "does the broker of from answer?"},
		},
		"of the target": {
			func(g *rig) {
				close(g.begun)
				g.health.Set("configmaps.v1/shop", errors.New("forbidden"))
			},
			[]string{"the target told nothing for 30s", "configmaps.v1/shop: forbidden"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g, began := newRig(t, nil), time.Now()
				c.arrange(g)
				err := comparing{g.run}.stalls(t.Context())
				for _, want := range c.want {
					require.ErrorContains(t, err, want)
				}
				assert.Less(t, time.Since(began), time.Minute)
			})
		})
	}
}

// What the target does not answer is not told as something that it lacks.
func TestDifference_tells_what_the_target_answers(t *testing.T) {
	for code, want := range map[int]Difference{
		http.StatusForbidden: {Do: "wait", Why: "denied"}, http.StatusInternalServerError: {Do: "wait", Why: "failed"},
		http.StatusTooManyRequests: {Do: "wait", Why: "throttled"},
	} {
		api := replicatest.NewAPI(t, replicatest.ConfigMaps)
		api.Refuse = func(*http.Request) int { return code }
		g := newRig(t, targeting(api))
		g.tell(is("a", at(1, 7)))
		g.synced()
		_, id, _ := g.table.Find(keys.Key{Namespace: "shop", Name: "a"})
		want.Resource, want.Namespace, want.Name = "configmaps", "shop", "a"
		assert.Equal(t, &want, comparing{g.run}.difference(t.Context(), id, g.row("a")))
	}
}

func TestCompare_waits_while_something_comes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, ended := newRig(t, nil), make(chan error, 1)
		go func() { ended <- comparing{g.run}.stalls(t.Context()) }()
		for range 10 {
			time.Sleep(longestSilence / 2) //nolint:forbidigo // it is the time of a bubble
			g.messages.Add(1)
			select {
			case err := <-ended:
				t.Fatal("it ends: ", err)
			default:
			}
		}
		time.Sleep(2 * longestSilence) //nolint:forbidigo // it is the time of a bubble
		require.Error(t, <-ended)
	})
}
