// SPDX-License-Identifier: Apache-2.0

package reader

import (
	"strconv"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"k8s.io/client-go/tools/cache"

	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
	"github.com/kube-eventbridge/kube-eventbridge/source/kube/kubetest"
)

// The informer's cache has places for few objects, so that changes of more than these share them.
func TestObjects_take_turns_in_a_few_places_of_the_cache(t *testing.T) {
	store, p := cache.NewStore(cache.MetaNamespaceKeyFunc), places(0)
	for range 1000 {
		place := p.next()
		assert.NoError(t, store.Add(&object{place: place}))
		assert.EqualValues(t, 0, testing.AllocsPerRun(1, func() { p.next() }), "a place is made for each object")
	}
	assert.Len(t, store.List(), cached)
}

func TestReader_passes_on_more_changes_than_the_cache_has_places(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var frames strings.Builder
		var want []string
		for i := range 5 * cached {
			version, op := strconv.Itoa(i+8), "ADDED"
			name := "a" + strconv.Itoa(i/2)
			if i%2 == 1 {
				op = "DELETED"
			}
			frames.WriteString(kubetest.FrameOf(op, kubetest.ConfigMap(name, "u-"+name, version)))
			want = append(want, strings.ToLower(op)+" "+name+"@"+version+" watch")
		}
		s := kubetest.NewScript(t,
			kubetest.Step{Want: "limit=1", Body: kubetest.ListOf("7", "", kubetest.ConfigMap("z", "u-z", "3"))},
			kubetest.Step{Want: "resourceVersion=7", Body: frames.String() + kubetest.FrameOf("ERROR", kubetest.ExpiredStatus)},
			kubetest.Step{Want: "limit=1", Body: kubetest.ListOf("999", "", kubetest.ConfigMap("z", "u-z", "3"))},
			kubetest.Step{Want: "resourceVersion=999", Hold: true})
		r := &recorder{}
		want = append(append([]string{"snapshot 7", "added z@3 snapshot", "listed 7"}, want...),
			"gap 999", "added z@3 relist", "listed 999")
		got := must.Get(runReader(t, Reader{Client: clientOf(t, s), Stream: kubetest.ConfigMaps}, r, lines(r, len(want))))(t)
		check(t, got, want...)
	})
}
