// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kube-eventbridge/kube-eventbridge/integration/controlplane"
	"github.com/kube-eventbridge/kube-eventbridge/internal/metric"
	"github.com/kube-eventbridge/kube-eventbridge/internal/monitoring"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
	"github.com/kube-eventbridge/kube-eventbridge/internal/replica/plan"
	"github.com/kube-eventbridge/kube-eventbridge/internal/replica/waiting"
)

// cases are series in promtool's notation, a value each half minute: with those of fires the alert is there at the last
// step, with those of not it never is.
var cases = map[string]struct{ fires, not []string }{
	"KubeEventbridgeBehind": {
		fires: []string{`oldest_unsettled_seconds{pipeline="p",stream="s"} 0x5 121x10`},
		not:   []string{`oldest_unsettled_seconds{pipeline="p",stream="s"} 0x5 120x10 0x5 600 0x5`}, // a peak is not enough
	},
	"KubeEventbridgeNotWatching": {
		fires: []string{`stream_watching{pipeline="p",stream="s"} 1x5 0x11`},
		not:   []string{`stream_watching{pipeline="p",stream="s"} 1x5 0x9 1x5`},
	},
	"KubeEventbridgeBrokerAway": {
		fires: []string{`broker_ready{pipeline="p"} 1x5 0x5`},
		not:   []string{`broker_ready{pipeline="p"} 1x5 0x3 1x5`},
	},
	"KubeEventbridgeRetrying": {
		fires: []string{`publish_retries_total{pipeline="p"} 0x5 0+60x40`},
		not: []string{
			`publish_retries_total{pipeline="p"} 0x5 0+20x40`,
			`publish_retries_total{pipeline="q"} 0x5 0+600x3 1800x40`,
		},
	},
	"KubeEventbridgeBufferFull": {
		fires: []string{`buffered_bytes{pipeline="p"} 0x5 950x15`, `buffer_limit_bytes{pipeline="p"} 1000x20`},
		not:   []string{`buffered_bytes{pipeline="p"} 0x5 890x15 1000x3 0x5`, `buffer_limit_bytes{pipeline="p"} 1000x40`},
	},
	"KubeEventbridgeNotCommitting": {
		fires: []string{`checkpoint_age_seconds{pipeline="p"} 30x5 301+30x12`},
		not:   []string{`checkpoint_age_seconds{pipeline="p"} 30x5 300x12`},
	},
	"KubeEventbridgeRefused": {
		fires: []string{`publish_failures_total{pipeline="p",stream="s"} 0x40 1x3`},
		not:   []string{`publish_failures_total{pipeline="p",stream="s"} 0x80`},
	},
	"KubeEventbridgeGap": {
		fires: []string{`gaps_total{pipeline="p",stream="s"} 1x3`}, // of a process that has only just started
		not:   []string{`gaps_total{pipeline="p",stream="s"} 0x80`},
	},
	"KubeEventbridgeLogLost": {
		fires: []string{`log_losses_total{pipeline="p"} 0x10 1x3`},
		not:   []string{`log_losses_total{pipeline="p"} 0x80`},
	},
	"KubeEventbridgePipelineEnded": {
		fires: []string{`pipeline_ended{pipeline="p"} 0x3 1x3`},
		not:   []string{`pipeline_ended{pipeline="p"} 0x5 1x1 0x5`},
	},
	"KubeEventbridgeOtherWriter": {
		fires: []string{`foreign_events_total{pipeline="p"} 0x10 1x3`},
		not:   []string{`foreign_events_total{pipeline="p"} 0x80`},
	},
	"KubeEventbridgeHistoryRestored": {
		fires: []string{`histories_total{pipeline="p",stream="s"} 0x10 1x3`},
		not:   []string{`histories_total{pipeline="p",stream="s"} 0x80`},
	},
	"KubeEventbridgeAuditDifferences": {
		fires: []string{`audit_differences_total{pipeline="p",stream="s"} 0x10 2x3`},
		not:   []string{`audit_differences_total{pipeline="p",stream="s"} 0x80`},
	},
	"KubeEventbridgeWatchesRestart": {
		fires: []string{`watch_restarts_total{pipeline="p",stream="s",reason="broken"} 0x5 0+2x30`},
		not: []string{
			`watch_restarts_total{pipeline="p",stream="s",reason="ended"} 0+9x60`,
			`watch_restarts_total{pipeline="p",stream="s",reason="broken"} 0x5 0+0.5x60`,
		},
	},
	"KubeEventbridgeDown": {
		fires: []string{`up{instance="a",job="monitoring/kube-eventbridge"} 1x5 0x11`},
		not:   []string{`up{job="kube-eventbridge"} 1x5 0x8 1x5`, `up{job="another"} 0x40`},
	},
	"KubeEventbridgeAbsent": {
		fires: []string{`up{job="x"} 1x30`},
		not:   []string{`build_info{version="v1"} 1x60`},
	},
	"KubeEventbridgeNobodyLeads": {
		fires: []string{`leader{instance="a",job="b"} 1x5 0x3`, `leader{instance="b",job="b"} 0x8`},
		not:   []string{`leader{instance="a",job="b"} 1x5 0x5`, `leader{instance="b",job="b"} 0x6 1x5`},
	},
	"KubeEventbridgeSeveralLead": {
		fires: []string{`leader{instance="a",job="b"} 1x10`, `leader{instance="b",job="b"} 0x5 1x5`},
		not: []string{
			`leader{instance="a",job="b"} 1x5 0x5`, `leader{instance="b",job="b"} 0x3 1x7`,
			`leader{job="another",instance="c"} 1x10`,
		},
	},
	"KubeEventbridgeReplicaNotRunning": {
		fires: []string{
			`replica_running{instance="a",job="b",replica="r"} 1x5 0x5`,
			`replica_running{instance="b",job="b",replica="r"} 0x10`,
		},
		not: []string{
			`replica_running{instance="a",job="b",replica="r"} 1x5 0x9`,
			`replica_running{instance="b",job="b",replica="r"} 0x8 1x6`,
		},
	},
	"KubeEventbridgeReplicaLagging": {
		fires: []string{`replica_lag_seconds{replica="r"} 0x5 121+30x7`},
		not:   []string{`replica_lag_seconds{replica="r"} 0x5 120x20 1000000x5 0x5`}, // a start, and old objects
	},
	"KubeEventbridgeReplicaHeld": {
		fires: []string{`replica_held_deletes{replica="r"} 0x5 1x3`, `replica_held_epoch{replica="r"} 0x9`},
		not:   []string{`replica_held_deletes{replica="r"} 0x5 1x1 0x5`, `replica_held_epoch{replica="r"} 0x12`},
	},
	"KubeEventbridgeReplicaObjectsParked": {
		fires: []string{`replica_parked_objects{replica="r",reason="exists"} 0x5 1x31`},
		not: []string{
			`replica_parked_objects{replica="r",reason="exists"} 0x5 1x29 0x5`,
			`replica_parked_objects{replica="r",reason="left-out"} 10x60`,
		},
	},
	"KubeEventbridgeReloadRefused": {
		fires: []string{`config_last_reload_successful{instance="a"} 1x5 0x4`},
		not:   []string{`config_last_reload_successful{instance="a"} 1x20`},
	},
}

func firing(t *testing.T, series []string) [][]Alert {
	t.Helper()
	var all Series
	steps := 0
	for _, s := range series {
		if !strings.HasPrefix(s, "up") {
			s = "kube_eventbridge_" + s
		}
		n := must.Get(all.Load(s))(t)
		steps = max(steps, n)
	}
	text := must.Get(monitoring.Rules(monitoring.Defaults(nil)))(t)
	rules := must.Get(Parse(text))(t)
	return must.Get(rules.Firing(t.Context(), &all, steps))(t)
}

func names(alerts []Alert) (list []string) {
	for _, a := range alerts {
		list = append(list, a.Name)
	}
	return list
}

func TestAlerts_fire_when_they_should_and_only_then(t *testing.T) {
	for _, a := range monitoring.Alerts() {
		t.Run(a.Name, func(t *testing.T) {
			c := cases[a.Name]
			require.NotEmpty(t, c.fires, "there is no case for it")
			require.NotEmpty(t, c.not, "there is no case for it")
			fired := firing(t, c.fires)
			assert.Contains(t, names(fired[len(fired)-1]), a.Name, "at the end")
			assert.True(t, !slices.Contains(names(fired[0]), a.Name) || strings.Contains(a.Expr, "unless"),
				"it is there from the beginning")
			for _, alert := range fired[len(fired)-1] {
				if strings.Contains(alert.Summary, "<no value>") || strings.Contains(alert.Summary, "error expanding") ||
					strings.Contains(alert.Summary, "{{") {
					t.Errorf("it says %q", alert.Summary)
				}
			}
			for step, alerts := range firing(t, c.not) {
				require.NotContains(t, names(alerts), a.Name, "it is there at step %d without a reason", step)
			}
		})
	}
}

// Both guards cause the same alert.
func TestAlert_of_a_replica_that_is_held_fires_for_both_guards(t *testing.T) {
	fired := firing(t, []string{`replica_held_deletes{replica="r"} 0x9`, `replica_held_epoch{replica="r"} 0x5 1x3`})
	assert.Contains(t, names(fired[len(fired)-1]), "KubeEventbridgeReplicaHeld")
}

// What an alert on objects that wait leaves out is what the status calls intended, and what has an alert of its own.
func TestAlert_of_objects_that_wait_leaves_out_what_is_intended(t *testing.T) {
	for _, reason := range []plan.Reason{
		waiting.LeftOut, waiting.HeldDelete, waiting.Exists, waiting.Contested, waiting.NoNamespace, plan.HasRedactions,
		plan.DeletesDisabled, plan.KeptDeselected, plan.DetachedObject, plan.WasRejected,
	} {
		fired := firing(t, []string{fmt.Sprintf("replica_parked_objects{replica=\"r\",reason=%q} 1x40", reason)})
		alert := slices.Contains(names(fired[len(fired)-1]), "KubeEventbridgeReplicaObjectsParked")
		assert.Equal(t, !waiting.Intended(reason) && reason != waiting.HeldDelete, alert, "reason %s", reason)
	}
}

func TestRules_are_valid_and_alerts_are_in_the_runbook(t *testing.T) {
	root := must.Get(controlplane.Root())(t)
	text := must.Get(os.ReadFile(filepath.Join(root, "deploy", "monitoring", "rules.yaml")))(t)
	rules := must.Get(Parse(string(text)))(t)
	runbook := must.Get(os.ReadFile(filepath.Join(root, "docs", "operations.md")))(t)
	for _, g := range rules.groups {
		for _, r := range g.Rules {
			if r.Alert == "" {
				continue
			}
			assert.Contains(t, string(runbook), "\n### "+r.Alert+"\n",
				"docs/operations.md does not have ### %s", r.Alert)
			if !strings.HasSuffix(r.Annotations["runbook_url"], "/docs/operations.md#"+strings.ToLower(r.Alert)) ||
				r.Labels["severity"] == "" || r.Annotations["description"] == "" {
				t.Errorf("%s has labels %v and annotations %v", r.Alert, r.Labels, r.Annotations)
			}
		}
	}
}

// foreign are metrics of Prometheus itself, Go and the process.
var foreign = []string{
	"up", "process_resident_memory_bytes", "process_cpu_seconds_total",
	"go_memstats_heap_alloc_bytes",
}

func TestExpressions_ask_for_metrics_that_there_are(t *testing.T) {
	known := slices.Clone(foreign)
	for _, m := range metric.All() {
		known = append(known, m.FullName())
		if m.Type == metric.Histogram {
			known = append(known, m.FullName()+"_bucket")
		}
	}
	var recorded []string
	expressions := monitoring.Expressions()
	for _, r := range monitoring.Records() {
		expressions[r.Name] = []string{r.Expr}
		recorded = append(recorded, r.Name)
	}
	for _, a := range monitoring.Alerts() {
		expressions[a.Name] = []string{monitoring.Settle(a.Expr, monitoring.Defaults(nil))}
	}
	for where, list := range expressions {
		for _, expr := range list {
			names, err := Metrics(expr)
			assert.NoError(t, err, "%s: %s", where, expr)
			for _, n := range names {
				assert.True(t, slices.Contains(known, n) || slices.Contains(recorded, n),
					"%s asks for %s, which there is not", where, n)
			}
		}
	}
}
