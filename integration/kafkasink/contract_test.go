// SPDX-License-Identifier: Apache-2.0

package kafkasink

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/require"

	"github.com/kube-eventbridge/kube-eventbridge/integration/kafkabroker"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
	"github.com/kube-eventbridge/kube-eventbridge/sink"
	"github.com/kube-eventbridge/kube-eventbridge/sink/sinktest"
)

func TestSink_keeps_the_contract(t *testing.T) {
	const partitions = 3
	sinktest.Run(t, func(t *testing.T) *sinktest.Harness {
		r := &testTopic{shared.ForTest(t), kafkabroker.UniqueTopic(t)}
		require.NoError(t, r.CreateTopic(t.Context(), r.topic, partitions, 0, nil))
		data := filepath.Join(sharedDir, "broker-0", "data")
		saved := filepath.Join(t.TempDir(), "data")
		stop := func(t *testing.T) { require.NoError(t, r.Kill(0)) }
		start := func(t *testing.T) { require.NoError(t, r.Restart(t.Context(), 0)) }
		return &sinktest.Harness{
			Sink:    newSink(t, r.config(proxied)),
			Log:     r.log,
			Subject: func(string) string { return r.topic },
			Shared:  true,
			Limit:   4 << 20,
			Cut:     func() { proxiesOf(r.Cluster)[0].Cut() },
			Stop:    stop,
			Start:   start,
			Save: func(t *testing.T) {
				stop(t)
				require.NoError(t, os.CopyFS(saved, os.DirFS(data)))
				start(t)
			},
			Restore: func(t *testing.T) {
				stop(t)
				require.NoError(t, os.RemoveAll(data))
				require.NoError(t, os.CopyFS(data, os.DirFS(saved)))
				start(t)
			},
			Destroy: func(t *testing.T) { r.DeleteTopic(t, r.topic) },
			Remake: func(t *testing.T, n int) {
				r.DeleteTopic(t, r.topic)
				require.NoError(t, r.CreateTopic(t.Context(), r.topic, partitions, 0, nil))
				r.others(t, n, partitions)
			},
			Purge:     func(t *testing.T) { r.purge(t, r.topic, partitions) },
			Insists:   true,
			Own:       func(st *sink.Stored) bool { return strings.HasPrefix(st.ID, "writer-started.") },
			Unordered: true,
			Library:   "github.com/segmentio/kafka-go",
		}
	})
}

// others publishes n records to each partition, as somebody else.
func (r *testTopic) others(t *testing.T, n, partitions int) {
	t.Helper()
	c, done := r.admin()
	defer done()
	for p := range partitions {
		var records []kafkago.Record
		for range n {
			records = append(records, kafkago.Record{Value: kafkago.NewBytes([]byte("other"))})
		}
		if n == 0 {
			continue
		}
		res := must.Get(c.Produce(t.Context(), &kafkago.ProduceRequest{
			Topic: r.topic, Partition: p, RequiredAcks: kafkago.RequireAll, Records: kafkago.NewRecordReader(records...),
		}))(t)
		require.NoError(t, res.Error)
	}
}
