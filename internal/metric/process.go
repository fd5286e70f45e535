// SPDX-License-Identifier: Apache-2.0

package metric

// pipelines are metrics of one pipeline each.
func pipelines() []Metric {
	each := []string{"pipeline"}
	return []Metric{
		{
			Name: "broker_ready", Type: Gauge, Labels: each,
			Help: "1 while the broker takes messages, else 0: it is away, or has refused a message for half a minute.",
			Look: "0: what is read waits in the buffer.",
		},
		{
			Name: "pipeline_ended", Type: Gauge, Labels: each,
			Help: "1 while the pipeline has ended, because its checkpoint, stream or topic must not be used, else 0.",
			Look: "1: nothing of it is read or published. It is tried again by itself.",
		},
		{
			Name: "publish_seconds", Type: Histogram, Labels: each,
			Help: "From handing a message to the sink to its acknowledgement, retries included.",
			Look: "The broker's share of the delay.",
		},
		{
			Name: "delivery_seconds", Type: Histogram, Labels: each,
			Help: "From a write at the API server, as far as the object tells (whole seconds), to the acknowledgement of its " +
				"event.",
			Look: "Live events in binary mode; a write is on average half a second older than its object says.",
		},
		{
			Name: "publish_retries_total", Type: Counter, Labels: each,
			Help: "Messages handed to the broker again.",
			Look: "Many while `broker_ready` is 1: the broker answers, and refuses or is slow.",
		},
		{
			Name: "buffered_bytes", Type: Gauge, Labels: each,
			Help: "Bytes held between the API server and the broker's acknowledgement, with `deleted_objects_bytes` and " +
				"`old_objects_bytes`.",
			Look: "Near `buffer_limit_bytes` for minutes: the broker is slower than the cluster.",
		},
		{
			Name: "deleted_objects_bytes", Type: Gauge, Labels: each,
			Help: "Bytes held of objects that were deleted, about, until the position has passed that and is saved.",
			Look: "Grows for minutes: an event is not acknowledged, or the checkpoint cannot be saved.",
		},
		{
			Name: "buffer_limit_bytes", Type: Gauge, Labels: each,
			Help: "Bytes that may be held between the API server and the broker's acknowledgement; a larger object " +
				"passes alone.",
			Look: "The pipeline's share of `buffer.maxBytes`.",
		},
		{
			Name: "buffered_events", Type: Gauge, Labels: each,
			Help: "Changes held between the API server and the broker's acknowledgement.",
			Look: "",
		},
		{
			Name: "queue_depth", Type: Gauge, Labels: each,
			Help: "Objects that wait for a worker.",
			Look: "Above 0 while little is buffered: the processor is what is missing.",
		},
		{
			Name: "refused_objects", Type: Gauge, Labels: each,
			Help: "Objects of which the broker takes neither the last event nor a rejection in its place. They are tried again.",
			Look: "More than 0: the broker does not permit their subjects or topics. At 1,000 the pipeline waits.",
		},
		{
			Name: "checkpoint_age_seconds", Type: Gauge, Labels: each,
			Help: "Time since the last commit of the checkpoint.",
			Look: "A second or two, or half a minute where nothing happens. A restart repeats the reading of as much.",
		},
		{
			Name: "log_losses_total", Type: Counter, Labels: each,
			Help: "Times that the log was seen to have lost what it had acknowledged.",
			Look: "More than 0: the broker's disk or replication is not what it should be.",
		},
		{
			Name: "foreign_events_total", Type: Counter, Labels: each,
			Help: "Events of the pipeline that the log was seen to have, and that another process must have published.",
			Look: "More than 0: two bridges publish as one pipeline. Stop one, or set leaderElection.",
		},
	}
}

// process are metrics of the whole process.
func process() []Metric {
	return []Metric{
		{
			Name: "build_info", Type: Gauge, Labels: []string{"commit", "goversion", "version"},
			Help: "1; the labels say what was built, from what and with what.",
			Look: "Two versions at once are a rollout.",
		},
		{
			Name: "config_last_reload_successful", Type: Gauge, Optional: true,
			Help: "1 where the configuration file runs as it was read last, 0 where it was refused; where it is read again.",
			Look: "0: the process goes on with the file before; its log and `/readyz` say what is wrong with the new one.",
		},
		{
			Name: "config_last_reload_success_timestamp_seconds", Type: Gauge, Optional: true,
			Help: "When the configuration file was last found to hold, in seconds since 1970; where it is read again.",
			Look: "",
		},
		{
			Name: "config_reloads_total", Type: Counter, Labels: []string{"result"}, Optional: true,
			Help: "Times that the configuration file was read again, by what became of it: applied, unchanged or refused; " +
				"where it is read again.",
			Look: "`applied` that was not asked for: who changes the file?",
		},
		{
			Name: "shared_watches", Type: Gauge, Optional: true,
			Help: "Watches that several streams may read, where there may be any.",
			Look: "",
		},
		{
			Name: "shared_bytes", Type: Gauge, Optional: true,
			Help: "Bytes held by shared watches for streams that have not read them yet, or join.",
			Look: "A sixteenth of the buffer at most, and an object for each.",
		},
		{
			Name: "leader", Type: Gauge, Optional: true,
			Help: "With leaderElection, 1 while this process leads, else 0.",
			Look: "The sum over all processes is 1.",
		},
	}
}

// client are those of client-go, under the names that all programs with it use.
func client() []Metric {
	return []Metric{
		{
			Name: "rest_client_requests_total", Foreign: true, Type: Counter, Labels: []string{"code", "host", "method"},
			Help: "Number of HTTP requests, partitioned by status code, method, and host.",
			Look: "`code` 401 or 403: credentials or permissions. 429: the API server is busy.",
		},
		{
			Name: "rest_client_request_duration_seconds", Foreign: true, Type: Histogram, Labels: []string{"host", "verb"},
			Help: "Time until the API server has answered with its headers.",
			Look: "",
		},
		{
			Name: "rest_client_request_retries_total", Foreign: true, Type: Counter, Labels: []string{"code", "host", "verb"},
			Optional: true,
			Help:     "Number of HTTP requests that client-go made again; there from the first one on.",
			Look:     "",
		},
	}
}

// replicas are of a process that replicates.
func replicas() []Metric {
	return []Metric{
		{
			Name: "replica_running", Type: Gauge, Labels: []string{"replica"}, Optional: true,
			Help: "With replicas, 1 while this process keeps the replica, else 0.",
			Look: "The sum over all processes is 1.",
		},
		{
			Name: "replica_caught_up", Type: Gauge, Labels: []string{"replica"}, Optional: true,
			Help: "With replicas, 1 once the log was read up to the end that it had at the start, else 0.",
			Look: "Nothing is written before.",
		},
		{
			Name: "replica_lag_seconds", Type: Gauge, Labels: []string{"replica"}, Optional: true,
			Help: "With replicas, how long ago the oldest event was recorded that is not handled, or for how long the log has " +
				"not answered, if that is longer; 0 where neither is so.",
			Look: "It is how far the target may be behind the source.",
		},
		{
			Name: "replica_pending_objects", Type: Gauge, Labels: []string{"replica"}, Optional: true,
			Help: "With replicas, objects with events that are not handled.",
			Look: "It grows while the target cannot be written to.",
		},
		{
			Name: "replica_failing_seconds", Type: Gauge, Labels: []string{"replica"}, Optional: true,
			Help: "With replicas, for how long something has failed that the replica needs; 0 where nothing does.",
			Look: "`replicate status` says what it is: the target does not let a resource be listed, for example.",
		},
		{
			Name: "replica_objects", Type: Gauge, Labels: []string{"replica"}, Optional: true,
			Help: "With replicas, objects of the target that the replica has written.",
			Look: "Compare it with the source.",
		},
		{
			Name: "replica_held_deletes", Type: Gauge, Labels: []string{"replica"}, Optional: true,
			Help: "With replicas, 1 while deletes wait for `replicate resume`, else 0.",
			Look: "More objects went in an hour than the limit allows: find out why before you resume.",
		},
		{
			Name: "replica_held_epoch", Type: Gauge, Labels: []string{"replica"}, Optional: true,
			Help: "With replicas, 1 while all writes wait for `replicate resume`, else 0.",
			Look: "The source was restored or rebuilt: find out how before you resume.",
		},
		{
			Name: "replica_parked_objects", Type: Gauge, Labels: []string{"reason", "replica"}, Optional: true,
			Help: "With replicas, objects that wait, by reason.",
			Look: "They are not as in the source; `replicate status` names them.",
		},
		{
			Name: "replica_writes_total", Type: Counter, Labels: []string{"replica", "result"}, Optional: true,
			Help: "With replicas, requests to the target by their result.",
			Look: "All but done means that something is in the way.",
		},
	}
}
