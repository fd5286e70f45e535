// SPDX-License-Identifier: Apache-2.0

package status

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge"
	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge/health"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
	"github.com/kube-eventbridge/kube-eventbridge/internal/replica"
	"github.com/kube-eventbridge/kube-eventbridge/internal/replica/plan"
	"github.com/kube-eventbridge/kube-eventbridge/internal/replica/waiting"
	"github.com/kube-eventbridge/kube-eventbridge/sink"
	"github.com/kube-eventbridge/kube-eventbridge/source"
)

var update = flag.Bool("update", false, "write the golden files again")

// at is when the reports of these tests are made.
var at = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

func ago(d time.Duration) time.Time { return at.Add(-d) }

func process() Process {
	return Process{
		Version: "v1.2.3", Commit: "0123456789ab", Started: ago(26 * time.Hour), Cluster: "prod-eu-1",
		ClusterUID: "0d5e6f4e-0000-4000-8000-000000000001",
		APIServer:  "https://10.0.0.1:443", File: "/etc/kube-eventbridge/bridge.yaml", LoadedAt: ago(26 * time.Hour),
	}
}

func watching(name string) bridge.StreamState {
	return bridge.StreamState{
		Name: name, Open: true, Doing: source.Watching, Since: ago(time.Hour), Live: true, Objects: 120, Published: 4711,
		PerSecond: 1.25,
		LastEvent: ago(4 * time.Second), Position: "815",
	}
}

func healthy(name string, streams ...bridge.StreamState) bridge.State {
	return bridge.State{
		Name: name, Target: "stream KUBERNETES", Ready: true, Began: ago(time.Hour), BufferBytes: 256 << 20, Streams: streams,
		Broker: health.BrokerState{Reached: true}, Checkpoint: bridge.CheckpointState{Saved: ago(400 * time.Millisecond)},
	}
}

func reportOf(p Process, states ...bridge.State) Report {
	b := builder{now: at, process: p}
	return b.report(&parts{publishes: true, pipelines: states, idle: "starting: the API server has not answered yet"})
}

// troubled has something of everything.
func troubled() (Process, []bridge.State) {
	p := process()
	p.Refused, p.RefusedAt = errors.New("bridge.yaml:3:5: pipelines[0].sinc: unknown key"), ago(time.Minute)
	p.Election = &Election{Leads: true, Identity: "a_1", Leader: "a_1", Term: 3, Err: errors.New("update lease: conflict")}
	pods, secrets, widgets, leases := watching("pods.v1"), watching("secrets.v1/web"),
		bridge.StreamState{Name: "widgets.example.com"}, watching("leases.v1.coordination.k8s.io")
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, "", errors.New("not for the bridge"))
	secrets.Namespace, secrets.LabelSelector, secrets.FieldSelector = "web", "app=x", "type=Opaque"
	secrets.Doing, secrets.Live, secrets.Err, secrets.Failing = source.Waiting, false, forbidden, ago(2*time.Minute)
	secrets.Past.Failure = health.Event{At: ago(2 * time.Minute), Err: forbidden}
	widgets.Err = errors.New("resource widgets.example.com cannot be listed and watched")
	leases.Doing, leases.Live, leases.Err, leases.Failing, leases.Degraded = source.Waiting, false, forbidden,
		ago(2*time.Minute), true
	pods.Unsettled = 1500 * time.Millisecond
	pods.Past = health.Past{
		Failure: health.Event{At: ago(50 * time.Minute), Err: io.ErrUnexpectedEOF}, Cleared: ago(49 * time.Minute),
		Gap: health.Gap{
			At: ago(50 * time.Minute), From: "700", To: "800",
			Cause: string(source.CauseExpired), Message: "the history is gone",
		},
		Rejection: health.Event{
			At: ago(10 * time.Minute), Err: errors.New("2000000 bytes: too large"),
			Object: "web/<img src=x onerror=alert(1)>",
		}, Rejections: 2,
	}
	st := healthy("audit", pods, secrets, leases, widgets)
	st.Ready, st.Unready = false, []string{"pipeline audit: broker: not connected"}
	st.Broker = health.BrokerState{Err: fmt.Errorf("not connected: %w", io.EOF), Since: ago(time.Minute), Reached: true}
	st.Checkpoint.Err, st.Checkpoint.Since = &os.PathError{Op: "write", Path: "/var/lib/a.db", Err: syscall.ENOSPC},
		ago(30*time.Second)
	st.BufferedEvents, st.BufferedBytes = 9000, 250<<20
	st.Writer = health.Event{
		At:  ago(5 * time.Minute),
		Err: &bridge.WriterError{Pipeline: "audit", Object: "pods.v1 web/a", ID: "u.7.5.0"},
	}
	st.Loss = health.Event{
		At:  ago(40 * time.Minute),
		Err: &sink.RewoundError{Target: "stream KUBERNETES", Acknowledged: 10, Last: 5},
	}
	st.Resyncs = []bridge.Resync{{
		Pipeline: "audit", Stream: "pods.v1", State: bridge.ResyncRunning, Objects: 120,
		Listed: 60, Published: 59,
	}}
	return p, []bridge.State{st, healthy("web", watching("services.v1"))}
}

// follows is a replica that has nothing to do.
func follows(name string) replicaState {
	return replicaState{
		Status: replica.Status{
			Name: name, Cluster: "prod-eu-1", Pipeline: "audit", CaughtUp: true, Objects: 120, Keys: 130,
			Writes: map[string]uint64{"done": 140}, Parked: map[plan.Reason]int{waiting.LeftOut: 10},
		},
		running: true,
		waiting: []replica.Waiting{{Resource: "pods", Namespace: "shop", Name: "web-1", Reason: waiting.LeftOut}},
	}
}

// replicasOf has a replica in each state.
func replicasOf() []replicaState {
	held, restored, late, starts, ended, learns := follows("held"), follows("restored"), follows("late"),
		replicaState{Status: replica.Status{Name: "starts", Cluster: "prod-eu-1", Pipeline: "audit"}},
		replicaState{Status: replica.Status{Name: "ended", Cluster: "prod-eu-1", Pipeline: "audit"}}, follows("learns")
	held.HeldDeletes = true
	held.Parked = map[plan.Reason]int{waiting.HeldDelete: 12, waiting.Exists: 5}
	held.waiting = nil
	for _, name := range []string{"a", "b", "<img src=x onerror=alert(1)>"} {
		held.waiting = append(held.waiting,
			replica.Waiting{Resource: "configmaps", Namespace: "shop", Name: name, Reason: waiting.HeldDelete},
			replica.Waiting{Resource: "deployments.apps", Namespace: "shop", Name: name, Reason: waiting.Exists})
	}
	restored.HeldEpoch, restored.Pending, restored.Lag = 3, 120, time.Hour
	late.Pending, late.Lag = 7, 90*time.Second
	late.Writes["unavailable"] = 20
	starts.Starting = apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, "x", errors.New("not for you"))
	ended.Ended = errors.New("credentials: open nats.creds: no such file or directory")
	learns.CaughtUp, learns.Log = false, errors.New("stream KUBERNETES at nats://b:4222: no servers available")
	learns.Target = map[string]error{"secrets.v1": starts.Starting}
	return []replicaState{follows("shop"), held, restored, late, starts, ended, learns}
}

// The names of fields, their units and their forms are a contract. Who changes this file adds to it, and takes nothing
// away.
func TestReport_has_the_form_that_is_promised(t *testing.T) {
	p, states := troubled()
	target := builder{now: at, process: process()}
	for name, r := range map[string]Report{
		"live":     reportOf(process(), healthy("audit", watching("pods.v1"))),
		"troubled": reportOf(p, states...),
		"replicas": target.report(&parts{replicas: replicasOf()}),
	} {
		got := must.Get(json.MarshalIndent(r, "", "  "))(t)
		var text strings.Builder
		require.NoError(t, r.Text(&text, false))
		golden(t, "testdata/"+name+".json", string(got)+"\n")
		golden(t, "testdata/"+name+".txt", text.String())
		text.Reset()
		require.NoError(t, r.Text(&text, true))
		golden(t, "testdata/"+name+".wide.txt", text.String())
	}
}

func golden(t *testing.T, file, got string) {
	t.Helper()
	if *update {
		require.NoError(t, os.WriteFile(file, []byte(got), 0o600))
	}
	want := must.Get(os.ReadFile(file))(t)
	assert.Equal(t, string(want), got, "%s is\n%s\nwant\n%s", file, got, want)
}

func TestReport_sums_up(t *testing.T) {
	opening := bridge.StreamState{Name: "nodes"}
	listing := bridge.StreamState{Name: "nodes.v1", Open: true, Doing: source.Listing}
	waiting := bridge.StreamState{
		Name: "nodes.v1", Open: true, Doing: source.Waiting, Err: io.ErrUnexpectedEOF,
		Failing: at,
	}
	degraded := waiting
	degraded.Degraded = true
	young := healthy("p", opening)
	young.Began, young.Broker.Err, young.Broker.Reached, young.Ready = ago(time.Second), sink.ErrNotRunning, false, false
	reading := young
	reading.Began, reading.Checkpoint = ago(10*time.Second), bridge.CheckpointState{}
	election := func(e Election) Process {
		p := process()
		p.Election = &e
		return p
	}
	away := process()
	away.Start = io.ErrUnexpectedEOF
	for _, c := range []struct {
		name    string
		process Process
		states  []bridge.State
		state   State
		summary string
	}{
		{
			"all live", process(),
			[]bridge.State{healthy("p", watching("a"), watching("b")), healthy("q", watching("c"))},
			Live,
			"All 3 streams are live",
		},
		{"one", process(), []bridge.State{healthy("p", watching("a"))}, Live, "The stream is live"},
		{
			"nothing selected", process(),
			[]bridge.State{healthy("p")},
			Live,
			"Live: nothing exists yet that the configuration selects",
		},
		{
			"one starts", process(),
			[]bridge.State{healthy("p", watching("a"), opening)},
			Starting,
			"Starting: 1 of 2 streams watched",
		},
		{"one lists", process(), []bridge.State{healthy("p", listing)}, Starting, "Starting: 0 of 1 stream watched"},
		{
			"one waits", process(),
			[]bridge.State{healthy("p", watching("a"), waiting)},
			Failing,
			"The API server is away: 1 of 2 streams watched",
		},
		{
			"one of a wildcard is not to be had", process(),
			[]bridge.State{healthy("p", watching("a"), watching("b"), degraded)},
			Live, "Both streams are live",
		},
		{
			"the broker has not been reached yet", process(),
			[]bridge.State{young},
			Starting,
			"Starting: 0 of 1 stream watched",
		},
		{
			"whether another process uses the checkpoint is not known yet", process(),
			[]bridge.State{reading},
			Starting,
			"Starting: 0 of 1 stream watched",
		},
		{"the API server is away", away, nil, Failing, "Starting: the API server has not answered yet"},
		{"nothing runs yet", process(), nil, Starting, "Starting: the API server has not answered yet"},
		{"another leads", election(Election{Leader: "b"}), nil, Standby, "Starting: the API server has not answered yet"},
		{
			"it leads since a moment ago", election(Election{Leads: true}), nil, Starting,
			"Starting: the API server has not answered yet",
		},
	} {
		if r := reportOf(c.process, c.states...); r.State != c.state || r.Summary != c.summary {
			t.Errorf("%s: %s, %q, want %s, %q", c.name, r.State, r.Summary, c.state, c.summary)
		}
	}
}

func TestReport_says_why_a_replica_is_not_ready(t *testing.T) {
	s := follows("b")
	of := func() Replica {
		b := builder{now: at, process: process()}
		return b.report(&parts{replicas: []replicaState{s}}).Replicas[0]
	}
	s.Failing, s.Target = time.Second, map[string]error{"secrets.v1/shop": errors.New("forbidden")}
	assert.True(t, of().Ready, "it may end by itself")
	s.Failing = time.Hour
	assert.False(t, of().Ready)
	assert.Equal(t, "secrets.v1/shop: forbidden", of().Reason)
}

func TestReport_sums_up_replicas(t *testing.T) {
	learns, held, late, starts := follows("b"), follows("b"), follows("b"), replicaState{Status: replica.Status{Name: "b"}}
	learns.CaughtUp, held.HeldDeletes, late.Lag = false, true, 2*time.Minute
	by := &Election{Leader: "b_1"}
	unsure := &Election{Leader: "b_1", Err: errors.New("forbidden")}
	for _, c := range []struct {
		name    string
		of      parts
		state   State
		ready   bool
		summary string
	}{
		{"one", parts{replicas: []replicaState{follows("a")}}, Live, true, "The replica runs"},
		{"two", parts{replicas: []replicaState{follows("a"), follows("b")}}, Live, true, "Both replicas run"},
		{
			"one learns",
			parts{replicas: []replicaState{follows("a"), learns}},
			Starting, false,
			"Starting: 1 of 2 replicas running",
		},
		{"one begins", parts{replicas: []replicaState{starts}}, Starting, false, "Starting: 0 of 1 replica running"},
		{
			"one is held",
			parts{replicas: []replicaState{follows("a"), held}},
			Failing, false,
			"A replica is held: 1 of 2 replicas running",
		},
		{
			"one is late",
			parts{replicas: []replicaState{follows("a"), late}},
			Failing, false,
			"A replica is behind its log: 2 of 2 replicas running",
		},
		{
			"another process leads",
			parts{replicas: []replicaState{starts}, election: by},
			Standby, true,
			"Standing by: b_1 leads",
		},
		{
			"who leads is not known",
			parts{replicas: []replicaState{starts}, election: unsure},
			Standby, false,
			"Standing by: lease: forbidden",
		},
		{
			"beside pipelines",
			parts{
				publishes: true, pipelines: []bridge.State{healthy("p", watching("a"))}, replicas: []replicaState{follows("a")},
			},
			Live, true, "The stream is live, and the replica runs",
		},
		{
			"a standby beside pipelines",
			parts{
				publishes: true, pipelines: []bridge.State{healthy("p", watching("a"))}, replicas: []replicaState{starts},
				election: by,
			},
			Live, true, "The stream is live, and the replica stands by",
		},
		{
			"held beside pipelines",
			parts{
				publishes: true, pipelines: []bridge.State{healthy("p", watching("a"))}, replicas: []replicaState{held},
			},
			Failing, true, "A replica is held: 1 of 1 stream watched, 0 of 1 replica running",
		},
	} {
		b := builder{now: at, process: process()}
		r := b.report(&c.of)
		assert.Equal(t, c.state, r.State, c.name)
		assert.Equal(t, c.ready, r.Ready, c.name)
		assert.Equal(t, c.summary, r.Summary, c.name)
	}
}

// What all streams have is one problem, and says whose it is.
func TestReport_says_once_what_many_streams_have(t *testing.T) {
	st := healthy("p")
	for i := range 300 {
		s := watching(fmt.Sprintf("r%d.v1", i))
		s.Live, s.Err, s.Failing = false, fmt.Errorf("list r%d: %w", i, io.ErrUnexpectedEOF),
			ago(time.Duration(i)*time.Second)
		st.Streams = append(st.Streams, s)
	}
	r := reportOf(process(), st)
	if len(r.Problems) != 1 || len(r.Problems[0].Streams) != 300 || !r.Problems[0].Since.Equal(ago(299*time.Second)) ||
		r.Problems[0].Kind != APIServer {
		t.Errorf("the problems are %+v", r.Problems)
	}
	assert.Equal(t, "The API server is away: 0 of 300 streams watched", r.Summary, "pipeline")
	assert.Equal(t, Failing, r.Pipelines[0].State, "pipeline")
}

// What is behind for long says so only where nothing else tells why, and what was long ago is no problem now.
func TestReport_has_problems_of_now(t *testing.T) {
	late := watching("a")
	late.Unsettled = time.Minute
	old := watching("b")
	old.Past.Gap = health.Gap{At: ago(2 * time.Hour), From: "1", To: "2"}
	r := reportOf(process(), healthy("p", late, old))
	assert.True(t, len(r.Problems) == 1 && r.Problems[0].Kind == Unsettled && r.Problems[0].Severity == Warning &&
		r.State == Live, "it is %s with %+v", r.State, r.Problems)
	assert.NotNil(t, r.Pipelines[0].Streams[1].LastGap, "the gap is forgotten")
	st := healthy("p", late)
	st.Broker.Refused = errors.New("maximum bytes exceeded")
	if r := reportOf(process(), st); len(r.Problems) != 1 || r.Problems[0].Kind != BrokerFull {
		t.Errorf("with a full broker the problems are %+v", r.Problems)
	}
}

func BenchmarkReport(b *testing.B) {
	st := healthy("p")
	for i := range 300 {
		st.Streams = append(st.Streams, watching(fmt.Sprintf("r%d.v1", i)))
	}
	for b.Loop() {
		r := reportOf(process(), st)
		must.Get(json.Marshal(r))(b)
	}
}

func TestBuild_advises_on_a_gap_by_its_cause(t *testing.T) {
	gap := func(name, from, to string, cause source.Cause) bridge.StreamState {
		s := watching(name)
		s.Past.Gap = health.Gap{At: ago(time.Minute), From: from, To: to, Cause: string(cause), Message: "so it was"}
		return s
	}
	causes := []source.Cause{
		source.CauseExpired, source.CauseRestored, source.CauseRebuilt, source.CauseLogLost, source.CauseCheckpointLost,
		source.CauseSelection, source.CauseResourceGone, source.CauseAudit,
	}
	st := healthy("audit")
	for i, cause := range causes {
		st.Streams = append(st.Streams, gap(fmt.Sprintf("r%d.v1", i), "7", "9", cause))
	}
	st.Streams = append(st.Streams, gap("same.v1", "135", "135", source.CauseExpired))
	r := reportOf(process(), st)
	require.Len(t, r.Problems, len(causes), "gaps of several causes are one problem, or those of one cause are several")
	advices := map[string]bool{}
	for _, p := range r.Problems {
		assert.NotEqual(t, adviceOnGap("unheard-of"), p.Advice, "there is no advice: %s", p.Text)
		assert.LessOrEqual(t, len(p.Advice), 220, "the advice is too long for a phone: %s", p.Advice)
		advices[p.Advice] = true
	}
	assert.Len(t, advices, len(causes), "causes have the same advice")
	assert.Equal(t, "gap from 7 to 9 ("+string(causes[0])+"): so it was", r.Problems[0].Text)
	last := r.Pipelines[0].Streams[len(st.Streams)-1].LastGap
	assert.Equal(t, "gap at 135 (expired): so it was", last.text())
}

func TestReport_says_whether_a_buffer_is_full_of_deleted_objects(t *testing.T) {
	for deleted, want := range map[int64]string{
		100 << 20: "the buffer is full",
		200 << 20: "the buffer is full, mostly of what is held of deleted objects: " +
			"an event is not acknowledged, or the checkpoint is not saved",
	} {
		st := healthy("audit", watching("pods.v1"))
		st.BufferedBytes, st.DeletedBytes = 250<<20, deleted
		r := reportOf(process(), st)
		require.Len(t, r.Problems, 1)
		assert.Equal(t, want, r.Problems[0].Text)
	}
}
