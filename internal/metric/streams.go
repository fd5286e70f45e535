// SPDX-License-Identifier: Apache-2.0

package metric

// streams are metrics of one stream each. Its label is the resource, with its namespace and selectors where it has any.
func streams() []Metric {
	each := []string{"pipeline", "stream"}
	return []Metric{
		{
			Name: "oldest_unsettled_seconds", Type: Gauge, Labels: each,
			Help: "Age of the oldest change that the log does not have yet; 0 if it has all.",
			Look: "**The one that pages.** It rises by a second each second while the broker takes nothing.",
		},
		{
			Name: "stream_watching", Type: Gauge, Labels: each,
			Help: "1 while a watch is open, else 0.",
			Look: "0 for minutes: the API server is away, or does not allow it. `/readyz` says which.",
		},
		{
			Name: "events_published_total", Type: Counter, Labels: []string{"op", "pipeline", "reason", "stream"},
			Help: "Events that the broker acknowledged as new.",
			Look: "`op` and `reason` are those of the event; `reason` is `watch` for what happens as it happens. Those of " +
				"other reasons are there from the first event on.",
		},
		{
			Name: "events_filtered_total", Type: Counter, Labels: []string{"pipeline", "reason", "stream"},
			Help: "Changes that the configuration says not to publish.",
			Look: "`reason` is `operation`, as `operations` does not list it; `unchanged`, as only what `ignoreChanges` names " +
				"is different; `expression`, as `filter` is false; `error`, as `filter` cannot be evaluated and `onFilterError` " +
				"is `drop`. There from the first one on.",
		},
		{
			Name: "filter_errors_total", Type: Counter, Labels: each,
			Help: "Changes for which the filter could not be evaluated. `onFilterError` says what becomes of them.",
			Look: "More than 0: write `has(…)` around what may be missing.",
		},
		{
			Name: "duplicates_suppressed_total", Type: Counter, Labels: each,
			Help: "Changes that the log had already, as the ledger or the broker knew.",
			Look: "Some after each restart of a watch; that is as it should be.",
		},
		{
			Name: "publish_failures_total", Type: Counter, Labels: each,
			Help: "Messages that cannot be published: refused by the broker for good, or not encodable.",
			Look: "Each is a `rejected` event in the log; look there for the error.",
		},
		{
			Name: "oversized_total", Type: Counter, Labels: each,
			Help: "Events that were too large for the broker and lost their object, as oversize says.",
			Look: "Raise the broker's limit, or leave out what is large.",
		},
		{
			Name: "gaps_total", Type: Counter, Labels: each,
			Help: "Gaps announced in the log.",
			Look: "Between the versions of the `gap` event, states in between may be unknown; final states and deletions are " +
				"not.",
		},
		{
			Name: "relists_total", Type: Counter, Labels: each,
			Help: "Lists because the history was gone, or the selectors changed.",
			Look: "Beside `gaps_total`: how often the API server had forgotten what was not read yet.",
		},
		{
			Name: "synthesized_deletes_total", Type: Counter, Labels: each,
			Help: "Deletions that no watch has shown.",
			Look: "What was found missing by a list, as after a time without a bridge.",
		},
		{
			Name: "watch_restarts_total", Type: Counter, Labels: []string{"pipeline", "reason", "stream"},
			Help: "Watches and pages of lists that were broken off.",
			Look: "`ended` is the API server's habit, every few minutes; `moved`, `detached` and `asked` are the bridge's own " +
				"doing. Others are errors. There from the first one of a reason on.",
		},
		{
			Name: "histories_total", Type: Counter, Labels: each,
			Help: "Histories of the API server that were seen to begin, as when etcd is restored.",
			Look: "More than 0: `resourceversion` compares within an [epoch](event-reference.md#epochs) of `sequence` only.",
		},
		{
			Name: "resyncs_total", Type: Counter, Labels: each,
			Help: "Times that everything that existed was published again, on schedule or because that was asked for.",
			Look: "",
		},
		{
			Name: "audits_total", Type: Counter, Labels: each,
			Help: "Comparisons of what exists with what the log has.",
			Look: "It rises each `audit.interval`.",
		},
		{
			Name: "audit_differences_total", Type: Counter, Labels: each,
			Help: "Objects of which the log had another state than existed.",
			Look: "Anything above 0 is worth a question.",
		},
		{
			Name: "ledger_objects", Type: Gauge, Labels: each,
			Help: "Objects that the log has as existing.",
			Look: "Some 500 bytes of memory each.",
		},
		{
			Name: "old_objects", Type: Gauge, Labels: each, Optional: true,
			Help: "Objects whose previous state is cached, where payloads or filters need it.",
			Look: "",
		},
		{
			Name: "old_objects_bytes", Type: Gauge, Labels: each, Optional: true,
			Help: "Bytes of the cached previous states, compressed.",
			Look: "Of all streams of a pipeline, a quarter of `buffer_limit_bytes` at most.",
		},
		{
			Name: "old_objects_unknown_total", Type: Counter, Labels: each,
			Help: "Times that a previous state was needed and not known: after some restarts, or it was evicted.",
			Look: "The event has the whole object then, or is published whatever the filter says.",
		},
	}
}
