// SPDX-License-Identifier: Apache-2.0

package status

import "time"

// Report is how a bridge is doing. Times are RFC 3339, and absent where there was no such thing; numbers of seconds may
// have fractions.
type Report struct {
	// Version and Commit are those of the program.
	Version string `json:"version"`
	Commit  string `json:"commit"`
	// Time is when the report was made, Started when the process was.
	Time    time.Time `json:"time"`
	Started time.Time `json:"started"`
	// Cluster is how the events name the cluster, ClusterUID the uid of its namespace kube-system; both are empty
	// before the API server has answered.
	Cluster    string `json:"cluster"`
	ClusterUID string `json:"clusterUID"`
	// APIServer is the API server's URL.
	APIServer string `json:"apiServer"`
	// State sums it up: live, starting, failing, or standby. Failing: at least one problem is an error.
	State State `json:"state"`
	// Summary is that in a sentence.
	Summary string `json:"summary"`
	// Ready is what /readyz answers; a failure that has not lasted for half a minute does not count there.
	Ready bool `json:"ready"`
	// Problems are what is wrong now, errors first, and what was wrong in the last hour and cost something.
	Problems []Problem `json:"problems"`
	// LeaderElection is absent where this is the only process.
	LeaderElection *LeaderElection `json:"leaderElection,omitempty"`
	// Configuration is the one that is used.
	Configuration Configuration `json:"configuration"`
	// Pipelines are those of the configuration, in its order; none while the process stands by.
	Pipelines []Pipeline `json:"pipelines"`
	// Replicas are those of the configuration, in its order; absent where there are none.
	Replicas []Replica `json:"replicas,omitempty"`
}

// State is how something is doing.
type State string

// The states of a report, and all but Standby those of a pipeline. A replica has a [ReplicaState].
const (
	Live     State = "live"
	Starting State = "starting"
	Failing  State = "failing"
	Standby  State = "standby"
)

// Severity says whether a problem keeps something from being published.
type Severity string

// The severities.
const (
	// Error: something is not published, or not remembered, until it is cured.
	Error Severity = "error"
	// Warning: something was lost or left out, or will be if it goes on.
	Warning Severity = "warning"
)

// Problem is something that is wrong.
type Problem struct {
	// Severity is error or warning.
	Severity Severity `json:"severity"`
	// Kind names the trouble for programs; more kinds may come.
	Kind Kind `json:"kind"`
	// Title says in a few words what that is.
	Title string `json:"title"`
	// Pipeline or Replica is whose it is; both are empty where it is the process's.
	Pipeline string `json:"pipeline,omitempty"`
	Replica  string `json:"replica,omitempty"`
	// Streams are those that have it; none where it is the pipeline's or the replica's.
	Streams []string `json:"streams,omitempty"`
	// Since is when it began, as far as is known: the earliest of its streams.
	Since time.Time `json:"since,omitzero"`
	// Text is what is wrong, of the first of the streams.
	Text string `json:"text"`
	// Advice is what to do.
	Advice string `json:"advice"`
}

// LeaderElection is about the lease that one of several processes holds.
type LeaderElection struct {
	// Leads says whether this process publishes.
	Leads bool `json:"leads"`
	// Identity is this process's, Leader that of the one that holds the lease; empty where no process does.
	Identity string `json:"identity"`
	Leader   string `json:"leader"`
	// Term is the number of the term in which this process leads; absent where it does not.
	Term int64 `json:"term,omitempty"`
	// Error is why the lease could not be read or written the last time.
	Error string `json:"error,omitempty"`
}

// Configuration is what the process was told.
type Configuration struct {
	// File is its path; absent where arguments are all there is.
	File string `json:"file,omitempty"`
	// LoadedAt is when what is used was read.
	LoadedAt time.Time `json:"loadedAt,omitzero"`
	// LastError is why a newer state of the file is not used.
	LastError *PastError `json:"lastError,omitempty"`
}

// Pipeline is one of the configuration's pipelines.
type Pipeline struct {
	// Name is the configuration's.
	Name string `json:"name"`
	// Sink is what it publishes to.
	Sink string `json:"sink"`
	// State is live, starting or failing.
	State State `json:"state"`
	// Ready is its part of /readyz, and NotReady what that says.
	Ready    bool     `json:"ready"`
	NotReady []string `json:"notReady,omitempty"`
	// Started is when it started from its checkpoint: with the process, or when its log had to be read back.
	Started time.Time `json:"started,omitzero"`
	// Broker, Checkpoint and Buffer say how these are doing.
	Broker     Broker     `json:"broker"`
	Checkpoint Checkpoint `json:"checkpoint"`
	Buffer     Buffer     `json:"buffer"`
	// Objects, PublishedTotal and EventsPerSecond are the sums of its streams, OldestUnsettledSeconds the greatest of
	// them. Of streams that are read now: PublishedTotal falls when one is taken out.
	Objects                int     `json:"objects"`
	PublishedTotal         int64   `json:"publishedTotal"`
	EventsPerSecond        float64 `json:"eventsPerSecond"`
	OldestUnsettledSeconds float64 `json:"oldestUnsettledSeconds"`
	// Resyncs are those that run.
	Resyncs []Resync `json:"resyncs,omitempty"`
	// LastLoss is the last time that the log was seen to have lost what it had acknowledged, since the process started.
	LastLoss *PastError `json:"lastLoss,omitempty"`
	// LastWriter is the last time that another process was seen to publish as the pipeline, since this one started.
	LastWriter *PastError `json:"lastWriter,omitempty"`
	// Streams are those that are read, and what is configured and not read yet; by name.
	Streams []Stream `json:"streams"`
}

// Broker is what a pipeline publishes to.
type Broker struct {
	// OK says that it takes events.
	OK bool `json:"ok"`
	// Error is why it does not take events, Since when.
	Error string    `json:"error,omitempty"`
	Since time.Time `json:"since,omitzero"`
}

// Checkpoint is what a pipeline remembers.
type Checkpoint struct {
	// AgeSeconds is how long ago it was saved; a restart reads as much again. Absent before it was read.
	AgeSeconds *float64 `json:"ageSeconds,omitempty"`
	// Error is why it cannot be read or saved, Since when.
	Error string    `json:"error,omitempty"`
	Since time.Time `json:"since,omitzero"`
}

// Buffer is what is held between the API server and the broker's acknowledgement, of deleted objects, and of previous
// states.
type Buffer struct {
	// Events and Bytes are held now, LimitBytes may be.
	Events     int64 `json:"events"`
	Bytes      int64 `json:"bytes"`
	LimitBytes int64 `json:"limitBytes"`
}

// Resync is one that runs.
type Resync struct {
	// Stream is its name.
	Stream string `json:"stream"`
	// Objects are those of the stream; Listed how many of them were looked at, Published how many were published again.
	Objects   int `json:"objects"`
	Listed    int `json:"listed"`
	Published int `json:"published"`
}

// StreamState is what a stream does.
type StreamState string

// The states of a stream.
const (
	// StreamStarting: it is not read yet, or the API server has nothing of its name.
	StreamStarting StreamState = "starting"
	// StreamListing: what exists is listed, or the list is not in the log yet.
	StreamListing StreamState = "listing"
	// StreamWatching: its first list is in the log, and changes come.
	StreamWatching StreamState = "watching"
	// StreamWaiting: the last request failed and will be repeated.
	StreamWaiting StreamState = "waiting"
	// StreamDegraded: a wildcard names it, and it alone may not be read, or is not to be had.
	StreamDegraded StreamState = "degraded"
)

// Stream is a resource in a scope.
type Stream struct {
	// Name is as in metrics and logs: plural.version[.group][/namespace].
	Name string `json:"name"`
	// Resource is that without the namespace; Namespace is absent for all, and the selectors are the configuration's.
	Resource      string `json:"resource"`
	Namespace     string `json:"namespace,omitempty"`
	LabelSelector string `json:"labelSelector,omitempty"`
	FieldSelector string `json:"fieldSelector,omitempty"`
	// State is starting, listing, watching, waiting or degraded, Since when.
	State StreamState `json:"state"`
	Since time.Time   `json:"since,omitzero"`
	// Objects are those that the log has as existing. Of RefusedObjects the broker takes nothing; absent where there
	// are none.
	Objects        int `json:"objects"`
	RefusedObjects int `json:"refusedObjects,omitempty"`
	// PublishedTotal counts events that the broker has acknowledged since the process started, EventsPerSecond is of
	// the last ten seconds or so, and LastEventAt when the last one was, to about a second; absent where there was none
	// since the stream was opened.
	PublishedTotal  int64     `json:"publishedTotal"`
	EventsPerSecond float64   `json:"eventsPerSecond"`
	LastEventAt     time.Time `json:"lastEventAt,omitzero"`
	// OldestUnsettledSeconds is the age of the oldest change that is not in the log; 0 where all are.
	OldestUnsettledSeconds float64 `json:"oldestUnsettledSeconds"`
	// Position is the resourceVersion from which a restart reads on; empty before the first list is in the log.
	Position string `json:"position"`
	// LastGap, LastError and LastRejection are the last ones since the process started.
	LastGap       *Gap       `json:"lastGap,omitempty"`
	LastError     *PastError `json:"lastError,omitempty"`
	LastRejection *Rejection `json:"lastRejection,omitempty"`
}

// Gap is one that was announced in the log.
type Gap struct {
	// At is when.
	At time.Time `json:"at"`
	// From is the version up to which the log is complete, To that of the list that ended the gap.
	From string `json:"from"`
	To   string `json:"to"`
	// Cause is that of the gap event, Reason says more of it to a person, and Advice what to do.
	Cause  string `json:"cause"`
	Reason string `json:"reason"`
	Advice string `json:"advice"`
}

// versions are those between which changes may be missing, or the one at which the list was.
func (g *Gap) versions() string {
	if g.From == g.To {
		return "at " + g.To
	}
	return g.From + " to " + g.To
}

func (g *Gap) text() string {
	versions := g.versions()
	if g.From != g.To {
		versions = "from " + versions
	}
	return "gap " + versions + " (" + g.Cause + "): " + g.Reason
}

// PastError is something that failed.
type PastError struct {
	// At is when it began.
	At time.Time `json:"at"`
	// ClearedAt is when it was over; absent where it is not, or where it is nothing that lasts.
	ClearedAt time.Time `json:"clearedAt,omitzero"`
	// Kind, Text and Advice are as those of a problem.
	Kind   Kind   `json:"kind"`
	Text   string `json:"text"`
	Advice string `json:"advice"`
}

// Rejection is an event that the broker refused for good.
type Rejection struct {
	// At is when.
	At time.Time `json:"at"`
	// Object is whose it is, Total how many events were rejected.
	Object string `json:"object"`
	Total  int    `json:"total"`
	// Text is why, and Advice what to do.
	Text   string `json:"text"`
	Advice string `json:"advice"`
}

// ReplicaState is what a replica does.
type ReplicaState string

// The states of a replica.
const (
	// ReplicaRunning: it follows its log.
	ReplicaRunning ReplicaState = "running"
	// ReplicaLearning: it reads the log up to the end that it had at the start, and writes nothing before.
	ReplicaLearning ReplicaState = "learning"
	// ReplicaHeld: deletes, or all writes, wait for a person.
	ReplicaHeld ReplicaState = "held"
	// ReplicaStandby: another process leads, or none does.
	ReplicaStandby ReplicaState = "standby"
	// ReplicaNotRunning: it has ended, or has not begun.
	ReplicaNotRunning ReplicaState = "notRunning"
)

// Replica is one of the configuration's replicas.
type Replica struct {
	// Name is the configuration's.
	Name string `json:"name"`
	// Cluster and Pipeline say whose events are applied, and Into is the cluster that they are applied to.
	Cluster  string `json:"cluster"`
	Pipeline string `json:"pipeline"`
	Into     string `json:"into"`
	// State is running, learning, held, standby or notRunning. Reason is why it does not follow its log; absent where it
	// does.
	State  ReplicaState `json:"state"`
	Reason string       `json:"reason,omitempty"`
	// Ready says that it is no more than a minute behind its log, or that another process leads.
	Ready bool `json:"ready"`
	// LagSeconds is how long ago the oldest event was recorded that is not handled, or for how long the log does not
	// answer; 0 where neither is so. PendingObjects have events that are not handled.
	LagSeconds     float64 `json:"lagSeconds"`
	PendingObjects int     `json:"pendingObjects"`
	// Objects are those of the target that the replica has written.
	Objects int `json:"objects"`
	// Writes are requests to the target since the replica began to run, by result.
	Writes []Writes `json:"writes,omitempty"`
	// Parked are objects that wait, by reason.
	Parked []Parked `json:"parked,omitempty"`
	// HeldDeletes counts the deletes that wait for a person, and HeldEpoch says that all writes do.
	HeldDeletes int  `json:"heldDeletes,omitempty"`
	HeldEpoch   bool `json:"heldEpoch,omitempty"`
}

// Writes are requests that had the same result.
type Writes struct {
	// Result is that of the metric, Total how many had it.
	Result string `json:"result"`
	Total  uint64 `json:"total"`
}

// Parked are objects of a replica that wait for the same reason.
type Parked struct {
	// Reason is that of the metric, Objects how many objects wait.
	Reason  string `json:"reason"`
	Objects int    `json:"objects"`
	// Intended says that the file, or a person who detached the objects, wants it so. Absent where something is wrong.
	Intended bool `json:"intended,omitempty"`
	// First names objects of the source that have waited for longest: resource, namespace and name.
	First []string `json:"first"`
}
