// SPDX-License-Identifier: Apache-2.0

package sharing

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
	"github.com/kube-eventbridge/kube-eventbridge/source"
	"github.com/kube-eventbridge/kube-eventbridge/source/rawjson"
	"github.com/kube-eventbridge/kube-eventbridge/source/rawjson/rawjsontest"
)

// BenchmarkSharedWatch is what a frame of a pod costs that several streams follow, until each of them has it.
func BenchmarkSharedWatch(b *testing.B) {
	for _, followers := range []int{1, 2, 300} {
		b.Run(fmt.Sprint(followers), func(b *testing.B) {
			w := NewWatches(nil, 16<<20)
			s := &sharedWatch{
				watches: w, scope: source.Stream{Resource: source.Resource{Namespaced: true}},
				recent: recent{watches: w}, followers: map[string][]*Follower{}, room: make(chan struct{}, 1),
			}
			var all []*Follower
			for i := range followers {
				m := &Membership{watches: w}
				if i > 1 {
					m.stream.Namespace = fmt.Sprint("other", i)
				}
				all = append(all, s.follow(m, 0))
			}
			pod := rawjsontest.Pod(1)
			pod.ResourceVersion = "100"
			object := rawjsontest.ServerObject(b, runtime.Object(pod))
			b.SetBytes(int64(len(object)))
			b.ReportAllocs()
			for b.Loop() {
				e := must.Get(newEvent(&Frame{Frame: rawjson.Frame{Type: rawjson.Modified, Object: object}}, true))(b)
				require.NoError(b, s.hand(b.Context(), e))
				for _, f := range all[:min(followers, 2)] {
					if f, err := f.Next(b.Context()); err != nil || len(f.Object) == 0 {
						b.Fatal(err)
					}
				}
			}
		})
	}
}
