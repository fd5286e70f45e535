// SPDX-License-Identifier: Apache-2.0

package reader

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"

	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
	"github.com/kube-eventbridge/kube-eventbridge/source/kube/kubetest"
)

func TestUncached_reader_passes_on_what_lists_and_watches_show(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := kubetest.NewScript(t,
			kubetest.Step{Want: "limit=1", Body: kubetest.ListOf("7", "", kubetest.ConfigMap("a", "u-a", "3"))},
			kubetest.Step{
				Want: "resourceVersion=7",
				Body: kubetest.FrameOf("ADDED", kubetest.ConfigMap("b", "u-b", "8")) +
					kubetest.FrameOf("DELETED", kubetest.ConfigMap("a", "u-a", "9")) +
					kubetest.FrameOf("MODIFIED", kubetest.ConfigMap("b", "u-b", "10")) +
					kubetest.FrameOf("ERROR", kubetest.ExpiredStatus),
			},
			kubetest.Step{Want: "limit=1", Body: kubetest.ListOf("30", "", kubetest.ConfigMap("b", "u-b", "25"))},
			kubetest.Step{
				Want: "resourceVersion=30", Hold: true, Body: kubetest.FrameOf("DELETED", kubetest.ConfigMap("b", "u-b", "31")),
			})
		r := &recorder{}
		reader := Reader{Client: clientOf(t, s), Stream: kubetest.ConfigMaps, Uncached: true}
		got := must.Get(runReader(t, reader, r, lines(r, 10)))(t)
		check(t, got, "snapshot 7", "added a@3 snapshot", "listed 7", "added b@8 watch", "deleted a@9 watch",
			"updated b@10 watch", "gap 30", "added b@25 relist", "listed 30", "deleted b@31 watch")
	})
}

func TestUncached_reader_keeps_nothing_of_a_list(t *testing.T) {
	w := (&Reader{Stream: kubetest.ConfigMaps, Feed: &recorder{}, Uncached: true}).wire(func() {})
	out := &stubs{}
	assert.NoError(t, w.item(t.Context(), out, []byte(kubetest.ConfigMap("a", "u-a", "3"))))
	assert.Empty(t, out.Items)
}
