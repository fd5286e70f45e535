// SPDX-License-Identifier: Apache-2.0

package event

import (
	"maps"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
	"github.com/kube-eventbridge/kube-eventbridge/sink"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// at is when the events of these tests are seen.
var at = time.Date(2026, 11, 20, 14, 30, 5, 250_000_000, time.UTC)

// change returns an event of deployment shop/web; with replaces attributes, and removes them where empty.
func change(t *testing.T, op Op, data string, with map[string]string) *Event {
	t.Helper()
	as := map[string]string{
		"specversion": "1.0", "id": "u1.1795212000.7.0", "type": "io.kube-eventbridge.resource." + string(op) + ".v1",
		"source": "/clusters/east/apis/apps/v1/deployments", "subject": "shop/web", "resourceversion": "7",
		"time": at.Add(-time.Second).Format(time.RFC3339), "recordedtime": at.Format("2006-01-02T15:04:05.000Z"),
	}
	maps.Copy(as, with)
	m := Message{Stored: sink.Stored{Sequence: 42, Time: at, Data: []byte(data)}}
	for name, value := range as {
		if value != "" {
			m.Attributes = append(m.Attributes, sink.Attribute{Name: name, Value: value})
		}
	}
	return must.Get(Decode(m))(t)
}
