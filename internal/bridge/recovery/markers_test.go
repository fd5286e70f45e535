// SPDX-License-Identifier: Apache-2.0

package recovery

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	"github.com/kube-eventbridge/kube-eventbridge/encode"
	"github.com/kube-eventbridge/kube-eventbridge/sink"
	"github.com/kube-eventbridge/kube-eventbridge/source"
)

// The stream is stored, and no entry selects it: the configuration was narrowed when its process died.
func TestRecovery_learns_the_markers_of_a_stored_stream(t *testing.T) {
	at := source.Stream{Resource: resource, Namespace: "shop", LabelSelector: "app=x"}
	has := checkpoint.Stream{
		Fingerprint: at.Scope(), Epoch: 7, Unannounced: checkpoint.Snapshot{ResourceVersion: "10", Objects: 2},
	}
	completed := source.Marker{Kind: source.MarkerSnapshotCompleted, Epoch: 7, To: "10"}
	for name, c := range map[string]struct {
		of        source.Stream
		marker    source.Marker
		announced bool // a list that began
		complete  bool // the snapshot that was to be called complete
	}{
		"its snapshot is complete": {at, completed, false, true},
		"an older snapshot was complete": {
			at, source.Marker{Kind: source.MarkerSnapshotCompleted, Epoch: 6, To: "10"}, false, false,
		},
		"its snapshot has begun": {at, source.Marker{Kind: source.MarkerSnapshotStarted, Epoch: 7, To: "10"}, true, false},
		"it has a gap":           {at, source.Marker{Kind: source.MarkerGap, Epoch: 7, From: "8", To: "10"}, true, false},
		"another namespace": {
			source.Stream{Resource: resource, Namespace: "bank", LabelSelector: "app=x"}, completed, false, false,
		},
		"another selection": {source.Stream{Resource: resource, Namespace: "shop"}, completed, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			state := &checkpoint.State{Streams: map[string]checkpoint.Stream{
				at.Name(): has, "configmaps.v1/bank": {Fingerprint: "other"},
			}}
			r := recovery{
				Input:  Input{Pipeline: "test", Identity: checkpoint.Identity{Cluster: "test"}, State: state},
				stored: newNames(state.Streams),
			}
			r.begin()
			var m sink.Message
			c.marker.Seen = time.Now()
			encode.New(c.of, encode.Config{Cluster: "test", Pipeline: "test"}).Marker(&m, c.marker)
			stored := sink.Stored{ID: m.ID, Attributes: m.Attributes, ContentType: m.ContentType}
			require.NoError(t, r.learnMessage(&stored, false))
			want := has
			if c.announced {
				want.Announced = m.ID
			}
			if c.complete {
				want.Unannounced = checkpoint.Snapshot{}
			}
			got, _ := r.stream(at.Name())
			assert.Equal(t, want, got)
		})
	}
}
