// SPDX-License-Identifier: Apache-2.0

package tail

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Events in Knative's profile are shown as any others, and what is known of an object goes on from one profile to the other.
func TestTable_shows_events_of_any_profile_alike(t *testing.T) {
	knative := func(op string) map[string]string {
		return map[string]string{
			"type": "dev.knative.apiserver.resource." + op, "source": "https://10.96.0.1:443", "resourceversion": "8",
			"subject": "/apis/apps/v1/namespaces/shop/deployments/web",
		}
	}
	const before, after = `{"spec":{"replicas":1}}`, `{"spec":{"replicas":3}}`
	own := []*Event{
		event(t, Added, before, nil), event(t, Updated, after, map[string]string{"resourceversion": "8"}),
		event(t, Deleted, after, map[string]string{"resourceversion": "8"}),
	}
	for name, story := range map[string][]*Event{
		"all":    {event(t, Added, before, with(knative("add"), "resourceversion", "7")), event(t, Updated, after, knative("update")), event(t, Deleted, after, knative("delete"))},
		"mixed":  {own[0], event(t, Updated, after, knative("update")), own[2]},
		"mixed2": {own[0], own[1], event(t, Deleted, after, knative("delete"))},
	} {
		if got, want := shown(t, story), shown(t, own); got != want {
			t.Errorf("%s: got\n%swant\n%s", name, got, want)
		}
	}
	rejected := event(t, Rejected, `{"type":"dev.knative.apiserver.resource.update","error":"too large","size":7}`, nil)
	assert.Contains(t, Describe(rejected, unknown, 4), "(updated) of 7 bytes")
}

func with(as map[string]string, name, value string) map[string]string { as[name] = value; return as }

// shown returns the lines of a log.
func shown(t *testing.T, events []*Event) string {
	t.Helper()
	var out strings.Builder
	table, seen := NewTable(&out, TableConfig{Today: at}), newMemory(1<<20)
	for _, e := range events {
		require.NoError(t, table.Print(e, func() *Event { return seen.last(e) }))
		seen.put(e)
	}
	return out.String()
}
