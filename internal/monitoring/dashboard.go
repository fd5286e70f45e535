// SPDX-License-Identifier: Apache-2.0

package monitoring

import (
	"encoding/json"
	"fmt"
	"strings"
)

// graph is one panel: what it shows, in which unit of Grafana, and the expressions with their legends.
type graph struct {
	title, unit, about string
	single             bool // one value, and not a line
	width              int  // of 24
	lines              []line
}

type line struct{ legend, expr string }

type section struct {
	title  string
	graphs []graph
}

// selected are the series that the dashboard's variables choose.
const (
	selected         = `namespace=~"$namespace",job=~"$job"`
	selectedPipeline = selected + `,pipeline=~"$pipeline"`
)

func rate(by, counter string) string {
	return fmt.Sprintf("sum by (%s) (rate(%s{%s}[$__rate_interval]))", by, counter, selectedPipeline)
}

func increase(by, counter string) string {
	return fmt.Sprintf("sum by (%s) (increase(%s{%s}[$__rate_interval]))", by, counter, selectedPipeline)
}

func quantiles(histogram string) []line {
	var out []line
	for _, q := range []string{"0.5", "0.99"} {
		out = append(out, line{
			"p" + strings.TrimPrefix(q, "0.") + " {{pipeline}}",
			fmt.Sprintf("histogram_quantile(%s, sum by (pipeline, le) (rate(%s_bucket{%s}[$__rate_interval])))", q, histogram,
				selectedPipeline),
		})
	}
	return out
}

// replicas returns an aggregation of what is told of replicas.
func replicas(aggregate, by, metric string) string {
	return fmt.Sprintf("%s by (%s) (kube_eventbridge_replica_%s{%s})", aggregate, by, metric, selected)
}

// each returns an aggregation of a gauge.
func each(aggregate, by, gauge string) string {
	return fmt.Sprintf("%s by (%s) (%s{%s})", aggregate, by, gauge, selectedPipeline)
}

func sections() []section {
	return []section{
		{"Now", []graph{
			{
				title: "Oldest change not in the log", unit: "s", single: true, width: 5, about: "The one that pages.",
				lines: []line{{"", "max(kube_eventbridge_oldest_unsettled_seconds{" + selectedPipeline + "})"}},
			},
			{
				title: "Events a second", unit: "ops", single: true, width: 5,
				lines: []line{{"", "sum(rate(kube_eventbridge_events_published_total{" + selectedPipeline +
					"}[$__rate_interval]))"}},
			},
			{
				title: "Streams without a watch", unit: "short", single: true, width: 5,
				lines: []line{{"", "count(kube_eventbridge_stream_watching{" + selectedPipeline + "} == 0) or vector(0)"}},
			},
			{
				title: "Brokers ready", unit: "short", single: true, width: 4,
				lines: []line{{"", "sum(kube_eventbridge_broker_ready{" + selectedPipeline + "})"}},
			},
			{
				title: "Processes that lead", unit: "short", single: true, width: 5, about: "With leader election, 1.",
				lines: []line{{"", "sum(kube_eventbridge_leader{" + selected + "})"}},
			},
		}},
		{"Delivery", []graph{
			{
				title: "Events published, by operation", unit: "ops", width: 12,
				lines: []line{{"{{pipeline}} {{op}}", rate("pipeline, op", "kube_eventbridge_events_published_total")}},
			},
			{
				title: "Events published, by reason", unit: "ops", width: 12,
				lines: []line{{"{{pipeline}} {{reason}}", rate("pipeline, reason", "kube_eventbridge_events_published_total")}},
			},
			{
				title: "Age of the oldest change not in the log", unit: "s", width: 12,
				lines: []line{{"{{pipeline}} {{stream}}", each("max", "pipeline, stream",
					"kube_eventbridge_oldest_unsettled_seconds")}},
			},
			{
				title: "From the write to the acknowledgement", unit: "s", width: 6,
				lines: quantiles("kube_eventbridge_delivery_seconds"),
			},
			{
				title: "From publishing to the acknowledgement", unit: "s", width: 6,
				lines: quantiles("kube_eventbridge_publish_seconds"),
			},
		}},
		{"What is not as it should be", []graph{
			{title: "Gaps, losses, restored histories", unit: "short", width: 8, lines: []line{
				{"gap {{stream}}", increase("stream", "kube_eventbridge_gaps_total")},
				{"log lost {{pipeline}}", increase("pipeline", "kube_eventbridge_log_losses_total")},
				{"other writer {{pipeline}}", increase("pipeline", "kube_eventbridge_foreign_events_total")},
				{"history {{stream}}", increase("stream", "kube_eventbridge_histories_total")},
			}},
			{title: "Refused, too large, audit differences", unit: "short", width: 8, lines: []line{
				{"refused {{stream}}", increase("stream", "kube_eventbridge_publish_failures_total")},
				{"too large {{stream}}", increase("stream", "kube_eventbridge_oversized_total")},
				{"audit {{stream}}", increase("stream", "kube_eventbridge_audit_differences_total")},
				{"filter error {{stream}}", increase("stream", "kube_eventbridge_filter_errors_total")},
			}},
			{title: "Retries and restarts of watches", unit: "short", width: 8, lines: []line{
				{"retries {{pipeline}}", increase("pipeline", "kube_eventbridge_publish_retries_total")},
				{"{{reason}} {{stream}}", increase("reason, stream", "kube_eventbridge_watch_restarts_total")},
				{"relists {{stream}}", increase("stream", "kube_eventbridge_relists_total")},
			}},
		}},
		{"Replicas", []graph{
			{
				title: "Behind the log", unit: "s", width: 6,
				about: "Also grows while the log does not answer.",
				lines: []line{{"{{replica}}", replicas("max", "replica", "lag_seconds")}},
			},
			{title: "Writes, by result", unit: "ops", width: 6, lines: []line{{
				"{{replica}} {{result}}",
				"sum by (replica, result) (rate(kube_eventbridge_replica_writes_total{" + selected + "}[$__rate_interval]))",
			}}},
			{
				title: "Objects that wait, by reason", unit: "short", width: 6,
				lines: []line{{"{{replica}} {{reason}}", replicas("max", "replica, reason", "parked_objects")}},
			},
			{title: "Held for a person", unit: "short", width: 6, lines: []line{
				{"deletes {{replica}}", "max by (replica) (kube_eventbridge_replica_parked_objects{" + selected +
					`,reason="held"})`},
				{"all writes {{replica}}", replicas("max", "replica", "held_epoch")},
			}},
		}},
		{"Resources", []graph{
			{title: "Buffer used", unit: "percentunit", width: 6, lines: []line{
				{"{{pipeline}}", "max by (pipeline) (kube_eventbridge_buffered_bytes{" + selectedPipeline +
					"} / kube_eventbridge_buffer_limit_bytes{" + selectedPipeline + "})"},
			}},
			{
				title: "Objects waiting for a worker", unit: "short", width: 6,
				lines: []line{{"{{pipeline}}", each("sum", "pipeline", "kube_eventbridge_queue_depth")}},
			},
			{
				title: "Since the last commit", unit: "s", width: 6,
				lines: []line{{"{{pipeline}}", each("max", "pipeline", "kube_eventbridge_checkpoint_age_seconds")}},
			},
			{
				title: "Objects known", unit: "short", width: 6,
				lines: []line{{"{{stream}}", each("max", "stream", "kube_eventbridge_ledger_objects")}},
			},
			{title: "Memory", unit: "bytes", width: 8, lines: []line{
				{"resident {{instance}}", "process_resident_memory_bytes{" + selected + "}"},
				{"heap {{instance}}", "go_memstats_heap_alloc_bytes{" + selected + "}"},
			}},
			{
				title: "Processor", unit: "percentunit", width: 8,
				lines: []line{{"{{instance}}", "rate(process_cpu_seconds_total{" + selected + "}[$__rate_interval])"}},
			},
			{
				title: "Requests to the API server", unit: "reqps", width: 8,
				lines: []line{{"{{code}} {{method}}", "sum by (code, method) (rate(rest_client_requests_total{" + selected +
					"}[$__rate_interval]))"}},
			},
		}},
	}
}

type object = map[string]any

// dashboard returns what Grafana imports.
func dashboard() (string, error) {
	var panels []object
	y := 0
	place := func(x, w, h int) object { return object{"x": x, "y": y, "w": w, "h": h} }
	for _, s := range sections() {
		panels = append(panels, object{
			"id": len(panels) + 1, "type": "row", "title": s.title, "collapsed": false,
			"panels": []any{}, "gridPos": place(0, 24, 1),
		})
		y++
		x, height := 0, 8
		if s.graphs[0].single {
			height = 4
		}
		for _, g := range s.graphs {
			if x+g.width > 24 {
				x, y = 0, y+height
			}
			panels = append(panels, g.panel(len(panels)+1, place(x, g.width, height)))
			x += g.width
		}
		y += height
	}
	text, err := json.MarshalIndent(object{
		"uid": "kube-eventbridge", "title": "kube-eventbridge", "tags": []string{"kubernetes", "events"}, "schemaVersion": 39,
		"version": 1, "editable": true,
		"refresh": "30s", "time": object{"from": "now-3h", "to": "now"}, "timezone": "", "graphTooltip": 1, "panels": panels,
		"templating": object{"list": variables()}, "annotations": object{"list": []any{}}, "links": []any{},
	}, "", "  ")
	if err != nil {
		return "", fmt.Errorf("write the dashboard: %w", err)
	}
	return string(text) + "\n", nil
}

func source() object { return object{"type": "prometheus", "uid": "${datasource}"} }

func (g *graph) panel(id int, at object) object {
	kind, options := "timeseries", object{"legend": object{
		"displayMode": "list", "placement": "bottom",
		"showLegend": true,
	}, "tooltip": object{"mode": "multi", "sort": "desc"}}
	if g.single {
		kind = "stat"
		options = object{
			"reduceOptions": object{"calcs": []string{"lastNotNull"}, "fields": "", "values": false},
			"colorMode":     "value", "graphMode": "area",
		}
	}
	var targets []object
	for i, l := range g.lines {
		targets = append(targets, object{
			"refId": string(rune('A' + i)), "datasource": source(), "expr": l.expr,
			"legendFormat": l.legend, "editorMode": "code", "range": true,
		})
	}
	return object{
		"id": id, "type": kind, "title": g.title, "description": g.about, "datasource": source(), "gridPos": at,
		"targets": targets, "options": options,
		"fieldConfig": object{"defaults": object{"unit": g.unit, "min": 0}, "overrides": []any{}},
	}
}

// variables are what a person chooses from; what is not in Kubernetes has no namespace, so all is also none.
func variables() []object {
	list := []object{{"name": "datasource", "label": "Prometheus", "type": "datasource", "query": "prometheus"}}
	for _, v := range []struct{ name, of string }{
		{"namespace", "kube_eventbridge_build_info"},
		{"job", `kube_eventbridge_build_info{namespace=~"$namespace"}`},
		{"pipeline", "kube_eventbridge_broker_ready{" + selected + "}"},
	} {
		query := "label_values(" + v.of + ", " + v.name + ")"
		list = append(list, object{
			"name": v.name, "type": "query", "datasource": source(), "definition": query,
			"query": object{"query": query, "refId": v.name}, "refresh": 2, "sort": 1,
			"includeAll": true, "multi": true, "allValue": ".*", "current": object{"text": "All", "value": "$__all"},
		})
	}
	return list
}

// Expressions returns what the dashboard asks Prometheus, by the titles of its panels, for a test: variables stand for
// everything.
func Expressions() map[string][]string {
	fill := strings.NewReplacer("$__rate_interval", "5m", "$namespace", ".*", "$job", ".*", "$pipeline", ".*")
	out := map[string][]string{}
	for _, s := range sections() {
		for _, g := range s.graphs {
			for _, l := range g.lines {
				out[g.title] = append(out[g.title], fill.Replace(l.expr))
			}
		}
	}
	return out
}
