// SPDX-License-Identifier: Apache-2.0

package kafkasink

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strings"
	"testing"

	"github.com/kube-eventbridge/kube-eventbridge/integration/internal/rig"
	"github.com/kube-eventbridge/kube-eventbridge/internal/kafka/batch"
	"github.com/kube-eventbridge/kube-eventbridge/sink"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// everywhere is the n-th marker of a resource.
func everywhere(topic string, n int) *sink.Message {
	m := message(topic, "test/core/pods/_/_snapshot", n)
	m.Attributes = append(m.Attributes, sink.Attribute{Name: "payload", Value: "marker"})
	m.Everywhere = true
	return m
}

// partitionOf returns which partition of a topic a request to publish is for.
func partitionOf(request []byte, topic string) int32 {
	_, behind, _ := bytes.Cut(request, []byte(topic)) // then come the number of partitions, and the first one
	return int32(binary.BigEndian.Uint32(behind[4:])) //nolint:gosec // it is an int32 on the wire
}

// Whichever partition a process did not come to: the next one learns nothing of the marker, and publishes it again.
func TestSink_shows_no_marker_that_a_crash_kept_from_a_partition(t *testing.T) {
	const partitions = 3
	for missed := range int32(partitions) {
		t.Run(fmt.Sprint(missed), func(t *testing.T) {
			r := newTopic(t, shared.ForTest(t), partitions, nil)
			p := proxiesOf(r.Cluster)[0]
			old := start(t, r.config(proxied))
			publish(t, old, everywhere(r.topic, 1))
			marker := everywhere(r.topic, 2)
			home := batch.Partition(marker.Key, partitions)
			p.hold(func(api int16, request []byte) bool {
				return api == apiProduce && partitionOf(request, r.topic) == missed
			})
			defer p.release()
			unsettled := send(t, old, marker)
			has := func() map[int32]int {
				found := map[int32]int{}
				for _, rec := range r.records(t, r.topic) {
					if rec.header("ce_id") == marker.ID {
						found[rec.partition]++
					}
				}
				return found
			}
			want := map[int32]int{0: 1, 1: 1, 2: 1}
			delete(want, missed)
			delete(want, home) // it is the last one in any case
			rig.Try(t, "the marker is where it can be", func() error {
				if got := has(); p.waiting.Load() == 0 || fmt.Sprint(got) != fmt.Sprint(want) {
					return fmt.Errorf("%d requests wait, and the marker is in %v, want %v", p.waiting.Load(), got, want)
				}
				return nil
			})
			old.stop()
			require.NoError(t, old.end(t))
			assert.Error(t, wait(t, unsettled).err, "it was acknowledged")
			newer := start(t, r.config(direct))
			p.release()
			read := func() (ids string) {
				require.NoError(t, newer.Read(t.Context(), sink.Query{}, func(st *sink.Stored) error {
					if !strings.HasPrefix(st.ID, "writer-started.") {
						ids += fmt.Sprintf("%s in %d ", st.ID, st.Partition)
					}
					return nil
				}))
				return ids
			}
			first := fmt.Sprintf("test/core/pods/_/_snapshot.1 in %d ", home)
			assert.Equal(t, first, read(), "the next process")
			publish(t, newer, marker)
			if got, both := read(), first+fmt.Sprintf("%s in %d ", marker.ID, home); got != both {
				t.Errorf("then it reads %q, want %q", got, both)
			}
			if got := has(); got[0]*got[1]*got[2] == 0 || got[home] != 1 {
				t.Errorf("the marker is in %v", got)
			}
		})
	}
}
