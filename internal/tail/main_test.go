// SPDX-License-Identifier: Apache-2.0

package tail

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

// attributesOf returns those of an event of deployment shop/web; with replaces attributes, and removes them where empty.
func attributesOf(op Op, with map[string]string) []sink.Attribute {
	kind := "resource."
	if op.Marker() {
		kind = "stream."
	}
	as := map[string]string{
		"specversion": "1.0", "id": "u1.7", "type": "io.kube-eventbridge." + kind + string(op) + ".v1",
		"source":  "/clusters/east/apis/apps/v1/deployments",
		"subject": "shop/web", "namespace": "shop", "name": "web", "objectuid": "u1", "kind": "Deployment", "apiversion": "apps/v1",
		"pipeline": "audit", "resourceversion": "7", "reason": "watch", "payload": "object", "fieldmanager": "kubectl",
		"time": at.Add(-time.Second).Format(time.RFC3339), "recordedtime": at.Format("2006-01-02T15:04:05.000Z"),
		"datacontenttype": "application/json", "clustername": "east", "partitionkey": "east/apps/deployments/shop/web",
	}
	if op.Marker() {
		for _, name := range []string{"subject", "namespace", "name", "objectuid", "reason", "fieldmanager"} {
			delete(as, name)
		}
		as["payload"] = "marker"
	}
	maps.Copy(as, with)
	var all []sink.Attribute
	for name, value := range as {
		if value != "" {
			all = append(all, sink.Attribute{Name: name, Value: value})
		}
	}
	return all
}

// message is one of the log.
func message(sequence uint64, op Op, data string, with map[string]string) Message {
	return Message{
		Stored: sink.Stored{
			Sequence: sequence, Time: at, Attributes: attributesOf(op, with), ContentType: "application/json", Data: []byte(data),
		},
		Subject: "k8s.east.apps.deployments.shop.web",
	}
}

func event(t *testing.T, op Op, data string, with map[string]string) *Event {
	t.Helper()
	e := must.Get(Decode(message(42, op, data, with)))(t)
	return e
}

func unknown() *Event { return nil }
