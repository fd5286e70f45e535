// SPDX-License-Identifier: Apache-2.0

package tail

import (
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/kube-eventbridge/kube-eventbridge/internal/event"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
	"github.com/kube-eventbridge/kube-eventbridge/sink"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// at is when the events of these tests are seen.
var at = time.Date(2026, 11, 20, 14, 30, 5, 250_000_000, time.UTC)

// attributesOf returns those of an event of deployment shop/web; with replaces attributes, and removes them where
// empty.
func attributesOf(op event.Op, with map[string]string) []sink.Attribute {
	kind := "resource."
	if op.Marker() {
		kind = "stream."
	}
	as := map[string]string{
		"specversion": "1.0", "id": "u1.1795212000.7.0", "type": "io.kube-eventbridge." + kind + string(op) + ".v1",
		"source":  "/clusters/east/apis/apps/v1/deployments",
		"subject": "shop/web", "namespace": "shop", "name": "web", "objectuid": "u1", "kind": "Deployment",
		"apiversion": "apps/v1",
		"pipeline":   "audit", "resourceversion": "7", "sequence": "1795212000.00000000000000000007.0",
		"reason": "watch", "payload": "object", "fieldmanager": "kubectl",
		"time": at.Add(-time.Second).Format(time.RFC3339), "recordedtime": at.Format("2006-01-02T15:04:05.000Z"),
		"datacontenttype": "application/json", "clustername": "east", "partitionkey": "east/apps/deployments/shop/web",
	}
	if op.Marker() {
		for _, name := range []string{"subject", "namespace", "name", "objectuid", "reason", "fieldmanager", "sequence"} {
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
func message(sequence uint64, op event.Op, data string, with map[string]string) event.Message {
	return event.Message{
		Stored: sink.Stored{
			Sequence: sequence, Time: at, Attributes: attributesOf(op, with), ContentType: "application/json",
			Data: []byte(data),
		},
		Subject: "k8s.east.apps.deployments.shop.web",
	}
}

func change(t *testing.T, op event.Op, data string, with map[string]string) *event.Event {
	t.Helper()
	return must.Get(event.Decode(message(42, op, data, with)))(t)
}

func unknown() *event.Event { return nil }

// Events in Knative's profile are shown as any others, and what is known of an object goes on from one profile to the
// other.
func TestTable_shows_events_of_any_profile_alike(t *testing.T) {
	knative := func(op string) map[string]string {
		return map[string]string{
			"type": "dev.knative.apiserver.resource." + op, "source": "https://10.96.0.1:443", "resourceversion": "8",
			"subject": "/apis/apps/v1/namespaces/shop/deployments/web",
		}
	}
	const before, after = `{"spec":{"replicas":1}}`, `{"spec":{"replicas":3}}`
	own := []*event.Event{
		change(t, event.Added, before, nil), change(t, event.Updated, after, map[string]string{"resourceversion": "8"}),
		change(t, event.Deleted, after, map[string]string{"resourceversion": "8"}),
	}
	for name, story := range map[string][]*event.Event{
		"all": {
			change(t, event.Added, before, with(knative("add"), "resourceversion", "7")),
			change(t, event.Updated, after, knative("update")), change(t, event.Deleted, after, knative("delete")),
		},
		"mixed":  {own[0], change(t, event.Updated, after, knative("update")), own[2]},
		"mixed2": {own[0], own[1], change(t, event.Deleted, after, knative("delete"))},
	} {
		got, want := shown(t, story), shown(t, own)
		assert.Equal(t, want, got, name)
	}
	rejected := change(t, event.Rejected, `{"type":"dev.knative.apiserver.resource.update","error":"too large","size":7}`, nil)
	assert.Contains(t, Describe(rejected, unknown, 4), "(updated) of 7 bytes")
}

func with(as map[string]string, name, value string) map[string]string { as[name] = value; return as }

// shown returns the lines of a log.
func shown(t *testing.T, events []*event.Event) string {
	t.Helper()
	var out strings.Builder
	table, seen := NewTable(&out, TableConfig{Today: at}), newMemory(1<<20)
	for _, e := range events {
		require.NoError(t, table.Print(e, func() *event.Event { return seen.last(e) }))
		seen.put(e)
	}
	return out.String()
}
