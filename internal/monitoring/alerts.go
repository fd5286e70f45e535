// SPDX-License-Identifier: Apache-2.0

package monitoring

import (
	"fmt"
	"slices"
	"strings"
)

// Severities: a person is woken up, looks the same day, or is only told.
const (
	critical = "critical"
	warning  = "warning"
	info     = "info"
)

// Alert is one alerting rule. %names% in Expr are of [Settings].
type Alert struct {
	Name, Expr string
	// For is how long Expr has to hold, as Prometheus writes it; empty is at once.
	For, Severity string
	// Summary and Description are templates of Prometheus.
	Summary, Description string
}

// Setting is something of the rules that a user may choose.
type Setting struct{ Name, Default string }

// Settings returns what the rules can be told.
func Settings() []Setting {
	return []Setting{
		{"job", ".*kube-eventbridge.*"},
		{"behindSeconds", "120"},
		{"checkpointAgeSeconds", "300"},
		{"bufferRatio", "0.9"},
		{"retriesPerSecond", "1"},
		{"watchRestarts", "20"},
		{"replicaLagSeconds", "120"},
		{"runbookURL", "https://github.com/kube-eventbridge/kube-eventbridge/blob/main/docs/operations.md"},
	}
}

// What a value is summed up by. The job tells bridges of a namespace apart.
const (
	byProcess  = "namespace, job"
	byPipeline = byProcess + ", pipeline"
	byStream   = byPipeline + ", stream"
	byReplica  = byProcess + ", replica"
)

// happened is true where a counter has risen in the window, or is younger than that and not 0: what a process counts
// before it is first asked is counted, too.
func happened(by, counter, window string) string {
	return fmt.Sprintf("sum by (%[1]s) ((%[2]s unless %[2]s offset %[3]s) or increase(%[2]s[%[3]s])) > 0", by, counter,
		window)
}

// Alerts returns all alerting rules.
func Alerts() []Alert {
	return slices.Concat(deliveryAlerts(), lossAlerts(), processAlerts(), replicaAlerts())
}

func deliveryAlerts() []Alert {
	return []Alert{
		{
			Name: "KubeEventbridgeBehind", For: "2m", Severity: critical,
			Expr:        "max by (" + byStream + ") (kube_eventbridge_oldest_unsettled_seconds) > %behindSeconds%",
			Summary:     "Pipeline {{ $labels.pipeline }} is {{ $value | humanizeDuration }} behind in {{ $labels.stream }}.",
			Description: "The log does not have a change of that age. It is not lost, but consumers do not see it.",
		},
		{
			Name: "KubeEventbridgeNotWatching", For: "5m", Severity: critical,
			Expr:    "min by (" + byStream + ") (kube_eventbridge_stream_watching) == 0",
			Summary: "Pipeline {{ $labels.pipeline }} does not watch {{ $labels.stream }}.",
			Description: "What changes meanwhile is published later, as long as the API server remembers it, or else behind a " +
				"gap.",
		},
		{
			Name: "KubeEventbridgePipelineEnded", For: "1m", Severity: critical,
			Expr:    "max by (" + byPipeline + ") (kube_eventbridge_pipeline_ended) == 1",
			Summary: "Pipeline {{ $labels.pipeline }} has ended.",
			Description: "Its checkpoint, stream or topic must not be used; `/readyz` says why. The other pipelines go on. It " +
				"is tried again every quarter of an hour at least.",
		},
		{
			Name: "KubeEventbridgeBrokerAway", For: "2m", Severity: warning,
			Expr:    "max by (" + byPipeline + ") (kube_eventbridge_broker_ready) == 0",
			Summary: "The broker of pipeline {{ $labels.pipeline }} takes no messages.",
			Description: "It cannot be reached, or answers and refuses something, for example because it is full; `/readyz` " +
				"says which. What is read waits in the buffer; when that is full, reading waits.",
		},
		{
			Name: "KubeEventbridgeRetrying", For: "10m", Severity: warning,
			Expr:        "sum by (" + byPipeline + ") (rate(kube_eventbridge_publish_retries_total[5m])) > %retriesPerSecond%",
			Summary:     "Pipeline {{ $labels.pipeline }} hands {{ $value | humanize }} messages a second to the broker again.",
			Description: "The broker can be reached, and refuses messages or does not answer in time.",
		},
		{
			Name: "KubeEventbridgeBufferFull", For: "5m", Severity: warning,
			Expr:    "kube_eventbridge:buffer:ratio > %bufferRatio%",
			Summary: "The buffer of pipeline {{ $labels.pipeline }} is {{ $value | humanizePercentage }} full.",
			Description: "The broker is slower than the cluster. Reading waits; if that lasts longer than the API server " +
				"remembers, there will be a gap.",
		},
		{
			Name: "KubeEventbridgeNotCommitting", For: "5m", Severity: warning,
			Expr:    "max by (" + byPipeline + ") (kube_eventbridge_checkpoint_age_seconds) > %checkpointAgeSeconds%",
			Summary: "Pipeline {{ $labels.pipeline }} has not saved its position for {{ $value | humanizeDuration }}.",
			Description: "A restart would read as much again. Nothing is published twice for it, as long as the broker " +
				"remembers.",
		},
	}
}

func lossAlerts() []Alert {
	return []Alert{
		{
			Name: "KubeEventbridgeRefused", Severity: warning,
			Expr:    happened(byStream, "kube_eventbridge_publish_failures_total", "15m"),
			Summary: "Events of {{ $labels.stream }} in pipeline {{ $labels.pipeline }} were refused by the broker for good.",
			Description: "In the place of each stands a rejected event, which says why. `kube_eventbridge_refused_objects` " +
				"counts the objects of which the broker takes not even that.",
		},
		{
			Name: "KubeEventbridgeGap", Severity: info,
			Expr:    happened(byStream, "kube_eventbridge_gaps_total", "15m"),
			Summary: "A gap was announced in {{ $labels.stream }} of pipeline {{ $labels.pipeline }}.",
			Description: "The gap event and `kube-eventbridge status` have the cause. Final states and deletions are in the " +
				"log; states in between may not be.",
		},
		{
			Name: "KubeEventbridgeLogLost", Severity: critical,
			Expr:        happened(byPipeline, "kube_eventbridge_log_losses_total", "1h"),
			Summary:     "The log of pipeline {{ $labels.pipeline }} lost what it had acknowledged.",
			Description: "Everything that exists is published again, behind a gap. Intermediate states may be missing.",
		},
		{
			Name: "KubeEventbridgeOtherWriter", Severity: warning,
			Expr:    happened(byPipeline, "kube_eventbridge_foreign_events_total", "15m"),
			Summary: "Another process publishes as pipeline {{ $labels.pipeline }}.",
			Description: "Two bridges publish the same objects, each with a checkpoint of its own. Nothing is lost, but each " +
				"numbers the events of the other again and announces gaps.",
		},
		{
			Name: "KubeEventbridgeHistoryRestored", Severity: warning,
			Expr:    happened(byStream, "kube_eventbridge_histories_total", "1h"),
			Summary: "Versions of {{ $labels.stream }} in pipeline {{ $labels.pipeline }} do not compare with those before.",
			Description: "etcd was restored, or the cluster was rebuilt. " +
				"Everything that exists is published again under a new epoch.",
		},
		{
			Name: "KubeEventbridgeAuditDifferences", Severity: warning,
			Expr:    happened(byStream, "kube_eventbridge_audit_differences_total", "1h"),
			Summary: "The log of {{ $labels.stream }} in pipeline {{ $labels.pipeline }} had other states than existed.",
			Description: "They are corrected in the log. Something was lost on the way, or somebody else has written to " +
				"the log.",
		},
		{
			Name: "KubeEventbridgeWatchesRestart", For: "5m", Severity: warning,
			Expr: "sum by (" + byStream +
				`) (increase(kube_eventbridge_watch_restarts_total{reason!~"ended|moved|detached|asked"}[15m])) > %watchRestarts%`,
			Summary: "Watches of {{ $labels.stream }} in pipeline {{ $labels.pipeline }} broke off {{ $value | humanize " +
				"}} times in a quarter of an hour.",
			Description: "The API server, or what is between it and the bridge, ends them early. Events are late for it, and " +
				"the API server works more.",
		},
	}
}

func processAlerts() []Alert {
	return []Alert{
		{
			Name: "KubeEventbridgeDown", For: "5m", Severity: critical,
			Expr:        `up{job=~"%job%"} == 0`,
			Summary:     "{{ $labels.instance }} of {{ $labels.job }} cannot be asked for metrics.",
			Description: "The process is not there, or cannot be reached. Nothing else here would tell.",
		},
		{
			Name: "KubeEventbridgeAbsent", For: "10m", Severity: critical,
			Expr:        "absent(kube_eventbridge_build_info)",
			Summary:     "There are no metrics of any bridge.",
			Description: "No process runs, or Prometheus does not know of it.",
		},
		{
			Name: "KubeEventbridgeNobodyLeads", For: "1m", Severity: critical,
			Expr:        "sum by (" + byProcess + ") (kube_eventbridge_leader) == 0",
			Summary:     "No process of {{ $labels.job }} leads.",
			Description: "Nothing is published until one does.",
		},
		{
			Name: "KubeEventbridgeSeveralLead", For: "2m", Severity: critical,
			Expr:    "sum by (" + byProcess + ") (kube_eventbridge_leader) > 1",
			Summary: "{{ $value }} processes of {{ $labels.job }} believe that they lead.",
			Description: "The broker refuses what all but the newest publish. They have different Leases, or are different " +
				"bridges with one job.",
		},
		{
			Name: "KubeEventbridgeReloadRefused", For: "1m", Severity: warning,
			Expr:        "kube_eventbridge_config_last_reload_successful == 0",
			Summary:     "{{ $labels.instance }} has refused its changed configuration file.",
			Description: "It goes on with the one before; a restart would not.",
		},
	}
}

// replicaAlerts are of replicas. The process that leads tells of them; of a standby there is only that it does not run
// them.
func replicaAlerts() []Alert {
	const intended = `{reason!~"deletes-disabled|deselected|detached|held|left-out"}`
	return []Alert{
		{
			Name: "KubeEventbridgeReplicaNotRunning", For: "2m", Severity: critical,
			Expr:    "max by (" + byReplica + ") (kube_eventbridge_replica_running) == 0",
			Summary: "No process of {{ $labels.job }} keeps replica {{ $labels.replica }}.",
			Description: "Nothing is written for it. No process leads, or the replica has ended, or it cannot begin; " +
				"`kube-eventbridge status` says which.",
		},
		{
			Name: "KubeEventbridgeReplicaLagging", For: "3m", Severity: critical,
			Expr:    "max by (" + byReplica + ") (kube_eventbridge_replica_lag_seconds) > %replicaLagSeconds%",
			Summary: "Replica {{ $labels.replica }} is {{ $value | humanizeDuration }} behind its log.",
			Description: "Its log does not answer, or the cluster that it writes to does not take writes as fast as they " +
				"come. Nothing is lost.",
		},
		{
			Name: "KubeEventbridgeReplicaHeld", For: "1m", Severity: critical,
			Expr: "max by (" + byReplica +
				") (kube_eventbridge_replica_held_deletes + kube_eventbridge_replica_held_epoch) > 0",
			Summary: "Replica {{ $labels.replica }} waits for a person.",
			Description: "More objects went in an hour than the limit allows, or the source was restored or rebuilt. Deletes, " +
				"or all writes, wait for `kube-eventbridge replicate resume`.",
		},
		{
			Name: "KubeEventbridgeReplicaObjectsParked", For: "15m", Severity: warning,
			Expr:    "max by (" + byReplica + ", reason) (kube_eventbridge_replica_parked_objects" + intended + ") > 0",
			Summary: "{{ $value }} objects of replica {{ $labels.replica }} are not as in the source: {{ $labels.reason }}.",
			Description: "Each waits for what the reason says, and is tried again. `kube-eventbridge replicate status` names " +
				"them.",
		},
	}
}

// Record is one recording rule.
type Record struct{ Name, Expr string }

// Records returns all recording rules.
func Records() []Record {
	p99 := func(histogram string) string {
		return "histogram_quantile(0.99, sum by (" + byPipeline + ", le) (rate(" + histogram + "_bucket[5m])))"
	}
	return []Record{
		{"kube_eventbridge:events_published:rate5m", "sum by (" + byPipeline +
			", op) (rate(kube_eventbridge_events_published_total[5m]))"},
		{"kube_eventbridge:delivery_seconds:p99_5m", p99("kube_eventbridge_delivery_seconds")},
		{"kube_eventbridge:publish_seconds:p99_5m", p99("kube_eventbridge_publish_seconds")},
		{"kube_eventbridge:buffer:ratio", "max by (" + byPipeline +
			") (kube_eventbridge_buffered_bytes / kube_eventbridge_buffer_limit_bytes)"},
	}
}

// Anchor is where an alert's entry is in the runbook.
func (a *Alert) Anchor() string { return strings.ToLower(a.Name) }
