// SPDX-License-Identifier: Apache-2.0

package status

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/kube-eventbridge/kube-eventbridge/internal/inert"
	"github.com/kube-eventbridge/kube-eventbridge/internal/replica"
	"github.com/kube-eventbridge/kube-eventbridge/internal/replica/waiting"
)

// Replicas are those of a process.
type Replicas struct {
	All []*replica.Replica
	// Election is nil where no other process can keep them.
	Election *Election
}

// replicaState is what a replica tells of itself.
type replicaState struct {
	replica.Status
	running bool
	waiting []replica.Waiting
}

// named is how many of the objects that wait for the same reason a report names.
const named = 3

func (r *Replicas) states() (all []replicaState) {
	for _, one := range r.All {
		s, running := one.Status()
		all = append(all, replicaState{s, running, one.Waiting(named)})
	}
	return all
}

// latest is how far a replica may be behind its log.
const latest = time.Minute

func (b *builder) replica(st *replicaState, election *Election, into string) Replica {
	r := Replica{
		Name: st.Name, Cluster: st.Cluster, Pipeline: st.Pipeline, Into: into, State: ReplicaRunning,
		LagSeconds: seconds(st.Lag), PendingObjects: st.Pending, Objects: st.Objects,
		HeldDeletes: st.Parked[waiting.HeldDelete], HeldEpoch: st.HeldEpoch != 0,
	}
	for _, result := range slices.Sorted(maps.Keys(st.Writes)) {
		r.Writes = append(r.Writes, Writes{Result: result, Total: st.Writes[result]})
	}
	for _, reason := range slices.Sorted(maps.Keys(st.Parked)) {
		p := Parked{Reason: string(reason), Objects: st.Parked[reason], Intended: waiting.Intended(reason), First: []string{}}
		for _, w := range st.waiting {
			if w.Reason == reason {
				p.First = append(p.First, nameOf(&w))
			}
		}
		r.Parked = append(r.Parked, p)
	}
	r.State, r.Reason = stateOfReplica(st, &r, election)
	r.Reason = inert.Line(r.Reason)
	r.Ready = r.State == ReplicaStandby && election.Err == nil || r.State == ReplicaRunning && r.Reason == ""
	b.problemsOf(st, &r)
	return r
}

// nameOf names an object of the target for a person.
func nameOf(w *replica.Waiting) string {
	name := w.Name
	if w.Namespace != "" {
		name = w.Namespace + "/" + name
	}
	return inert.Line(w.Resource + " " + name)
}

// stateOfReplica returns what a replica does, and why it does not follow its log.
func stateOfReplica(st *replicaState, r *Replica, e *Election) (ReplicaState, string) {
	switch {
	case !st.running && e != nil && !e.Leads && e.Err != nil:
		return ReplicaStandby, "lease: " + e.Err.Error()
	case !st.running && e != nil && !e.Leads:
		return ReplicaStandby, cmp.Or(e.Leader, "no process") + " leads"
	case !st.running && st.Ended != nil:
		return ReplicaNotRunning, "it has ended: " + st.Ended.Error()
	case !st.running && st.Starting != nil:
		return ReplicaNotRunning, "it is starting: " + st.Starting.Error()
	case !st.running:
		return ReplicaNotRunning, "it does not run"
	case !st.CaughtUp:
		return ReplicaLearning, "it reads the log up to its end first"
	case r.HeldEpoch:
		return ReplicaHeld, "the source's versions begin again: all writes wait for a person"
	case st.HeldDeletes:
		return ReplicaHeld, "deletes wait for a person: more objects went in an hour than the limit allows"
	case st.Failing > latest:
		texts := st.Texts()
		part := slices.Min(slices.Collect(maps.Keys(texts)))
		return ReplicaRunning, part + ": " + texts[part]
	case st.Lag > latest:
		return ReplicaRunning, "it is " + st.Lag.Round(time.Second).String() + " behind the log"
	default:
		return ReplicaRunning, ""
	}
}

// problemsOf adds what is wrong with a replica.
func (b *builder) problemsOf(st *replicaState, r *Replica) {
	before := b.problems.errors
	of := Problem{Severity: Error, Replica: r.Name, Text: r.Reason}
	add := func(k Kind, text string) {
		of.Kind, of.Text = k, inert.Line(text)
		b.counted(of)
	}
	if r.State == ReplicaHeld {
		add(ReplicaStopped, r.Reason)
	}
	if st.Ended != nil {
		add(ReplicaEnded, st.Ended.Error())
	}
	if st.Starting != nil {
		b.failed(atStream, of, st.Starting)
	}
	if st.Log != nil {
		add(ReplicaLog, st.Log.Error())
	}
	for _, stream := range slices.Sorted(maps.Keys(st.Target)) {
		target := of
		target.Streams = []string{stream}
		b.failed(atStream, target, st.Target[stream])
	}
	if st.Lag > latest && st.CaughtUp && b.problems.errors == before {
		add(ReplicaLag, r.Reason)
	}
	of.Severity = Warning
	var reasons []string
	for _, p := range r.Parked {
		if !p.Intended && p.Reason != string(waiting.HeldDelete) {
			reasons = append(reasons, p.text())
		}
	}
	if len(reasons) > 0 {
		add(ReplicaParked, "objects wait: "+strings.Join(reasons, "; "))
	}
}

// text says how many objects wait for what, and names the first ones.
func (p *Parked) text() string {
	first := strings.Join(p.First, ", ")
	if n := p.Objects - len(p.First); n > 0 {
		first += fmt.Sprintf(" and %d more", n)
	}
	return p.Reason + " " + first
}

// liveReplicas says for a person that replicas are well: they run, or stand by.
func liveReplicas(all []Replica) string {
	does := map[bool][2]string{false: {"runs", "run"}, true: {"stands by", "stand by"}}[all[0].State == ReplicaStandby]
	switch len(all) {
	case 1:
		return "the replica " + does[0]
	case 2:
		return "both replicas " + does[1]
	default:
		return fmt.Sprintf("all %d replicas %s", len(all), does[1])
	}
}
