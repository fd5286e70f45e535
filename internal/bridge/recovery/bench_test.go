// SPDX-License-Identifier: Apache-2.0

package recovery

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	"github.com/kube-eventbridge/kube-eventbridge/encode"
	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge/spec"
	"github.com/kube-eventbridge/kube-eventbridge/sink"
	"github.com/kube-eventbridge/kube-eventbridge/source"
)

var resource = source.Resource{Version: "v1", Resource: "configmaps", Kind: "ConfigMap", Namespaced: true}

// BenchmarkRecovery is what it takes to learn from one message of a log where so many namespaces have a stream each.
func BenchmarkRecovery(b *testing.B) {
	for _, namespaces := range []int{10, 5000} {
		b.Run(fmt.Sprintf("streams=%d", namespaces), func(b *testing.B) {
			state := &checkpoint.State{Streams: map[string]checkpoint.Stream{}}
			for i := range namespaces {
				at := source.Stream{Resource: resource, Namespace: fmt.Sprint("n", i)}
				state.Streams[at.Name()] = checkpoint.Stream{}
			}
			wanted := &spec.Stream{Encoding: encode.Config{Cluster: "test", Pipeline: "test"}}
			at := source.Stream{Resource: resource, Namespace: "n7"}
			var m sink.Message
			require.NoError(b, wanted.Encoder(at).Change(&m, &source.Change{
				Op: source.Updated, Ident: source.Ident{Namespace: "n7", Name: "a", UID: "u", ResourceVersion: "5"},
				Body: source.NewBody([]byte(`{"metadata":{"name":"a"}}`)), Seen: time.Now(), Epoch: 1, Version: 5,
			}))
			stored := sink.Stored{Sequence: 1, ID: m.ID, Attributes: m.Attributes, ContentType: m.ContentType}
			r := recovery{
				Input:  Input{Pipeline: "test", Identity: checkpoint.Identity{Cluster: "test"}, State: state},
				stored: newNames(state.Streams),
			}
			r.begin()
			b.ReportAllocs()
			for b.Loop() {
				stored.Sequence++
				require.NoError(b, r.learnMessage(&stored, false))
			}
			require.Len(b, r.rows[at.Name()], 1)
		})
	}
}
