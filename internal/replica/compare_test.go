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

	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
	"github.com/kube-eventbridge/kube-eventbridge/internal/replica/clean"
	"github.com/kube-eventbridge/kube-eventbridge/internal/replica/keys"
	"github.com/kube-eventbridge/kube-eventbridge/internal/replica/observed"
	"github.com/kube-eventbridge/kube-eventbridge/internal/replica/plan"
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

func TestDifference_tells_what_becomes_of_an_object_of_somebody_else(t *testing.T) {
	origin := map[string]any{"annotations": map[string]any{clean.Origin: "east/core/configmaps/shop/a"}}
	own := map[string]any{"annotations": map[string]any{"own": "1"}}
	for name, c := range map[string]struct {
		existing plan.Existing
		metadata map[string]any
		do, why  string
		removes  string
	}{
		"refused":                       {plan.Refuse, own, "wait", "exists", ""},
		"detached":                      {plan.Refuse, origin, "wait", "detached", ""},
		"overwritten":                   {plan.Overwrite, own, "change", "", "\n-    own: \"1\"\n"},
		"detached, and taken over":      {plan.Adopt, origin, "change", "", ""},
		"of somebody else, and adopted": {plan.Adopt, own, "change", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			api := replicatest.NewAPI(t, replicatest.ConfigMaps)
			api.Put("configmaps", "shop", "a", c.metadata)
			g := newRig(t, func(cfg *Config) { cfg.Target, cfg.Existing = api.Config(), c.existing })
			g.tell(is("a", at(1, 7)))
			g.synced()
			_, id, _ := g.table.Find(keys.Key{Namespace: "shop", Name: "a"})
			d := comparing{g.run}.difference(t.Context(), id, g.row("a"))
			require.NotNil(t, d)
			assert.Equal(t, []string{c.do, c.why}, []string{d.Do, d.Why})
			assert.Contains(t, d.Diff, c.removes)
		})
	}
}

func TestCompare_waits_while_something_comes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, ended := newRig(t, nil), make(chan error, 1)
		go func() { ended <- comparing{g.run}.stalls(t.Context()) }()
		for range 10 {
			time.Sleep(longestSilence / 2) //nolint:forbidigo // it is the time of a bubble
			g.heard.Add(1)
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

// Who is told what a replacement removes can save it.
func TestReplacement_tells_what_would_go(t *testing.T) {
	g := newRig(t, nil)
	g.tell(is("a", at(1, 7)))
	res, key := g.selection.All()[0], keys.Key{Namespace: "shop", Name: "a"}
	for name, c := range map[string]struct{ actual, want string }{
		"all that only the target has": {
			`{"metadata":{"name":"a","namespace":"shop","uid":"u","resourceVersion":"7","labels":{"own":"1"}},
				"data":{"k":"1","late":"2"}}`,
			"--- target\n+++ source\n@@ -1,9 +1,8 @@\n data:\n   k: \"1\"\n-  late: \"2\"\n metadata:\n   labels:\n" +
				"-    own: \"1\"\n+    kube-eventbridge.io/replica: r\n   name: a\n   namespace: shop\n \n",
		},
		"only the replica's label": {
			`{"metadata":{"name":"a","namespace":"shop","uid":"u"},"data":{"k":"1"}}`,
			"--- target\n+++ source\n@@ -1,6 +1,8 @@\n data:\n   k: \"1\"\n metadata:\n+  labels:\n" +
				"+    kube-eventbridge.io/replica: r\n   name: a\n   namespace: shop\n \n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			wanted := must.Get(observed.Decode([]byte(`{"metadata":{"name":"a","namespace":"shop"},"data":{"k":"1"}}`)))(t)
			require.NoError(t, res.Rules("shop").Object(res.GroupResource(), wanted))
			actual := must.Get(observed.Decode([]byte(c.actual)))(t)
			assert.Equal(t, c.want, observed.Replacement(res, key, wanted, actual))
		})
	}
}

func TestCompare_tells_of_copies_that_are_left_out_what_would_become_of_them(t *testing.T) {
	for deletes, most := range map[bool]int{true: 5, false: 0} {
		g := newRig(t, func(c *Config) { c.Deletes = deletes })
		for _, name := range names(20) {
			g.tell(is(name, at(1, 10)))
			g.has(name, at(1, 10))
			e := is(name, at(1, 20))
			e.UID, e.Data, e.At = "another", ownedData(name, "another"), noon
			g.tell(e)
		}
		g.synced()
		g.compares = true
		g.catchUp(t.Context())
		said := map[string]int{}
		require.NoError(t, comparing{g.run}.compare(t.Context(), func() {}, func(d Difference) error {
			said[d.Do+" "+d.Why]++
			return nil
		}))
		assert.LessOrEqual(t, said["delete "], most, "deletes: %v", deletes)
		assert.Equal(t, deletes, said["delete held"] >= 15, "%v", said)
	}
}
