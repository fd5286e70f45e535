// SPDX-License-Identifier: Apache-2.0

package replicas

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kube-eventbridge/kube-eventbridge/integration/internal/pause"
	"github.com/kube-eventbridge/kube-eventbridge/integration/internal/rig"
	"github.com/kube-eventbridge/kube-eventbridge/internal/replica/clean"
	"github.com/kube-eventbridge/kube-eventbridge/internal/sequence"
)

const (
	label    = clean.Label
	origin   = clean.Origin
	uidNote  = clean.OriginUID
	seqNote  = clean.OriginSequence
	redacted = "[redacted"
)

// ours reports whether a version of an object of the target is the replica's.
func (d *direction) ours(k key, o *object) bool {
	return d.isOurs(k, o.Metadata.Labels, o.Metadata.Annotations)
}

func (o *object) sequence() sequence.Sequence {
	s, _ := sequence.Parse(o.Metadata.Annotations[seqNote]) // what is unreadable is the oldest
	return s
}

// entry is an event of the log.
type entry struct {
	sequence.Sequence
	op, uid  string
	recorded time.Time
	// copied: the source's object was written by a replica.
	copied bool
}

// readLog returns the events of each key, in the order of the log.
func (w *world) readLog(ctx context.Context) (map[key][]entry, error) {
	messages, err := w.broker.read(ctx)
	if err != nil {
		return nil, err
	}
	all := make(map[key][]entry)
	for i := range messages {
		if k, e, ok := w.entryOf(&messages[i]); ok {
			all[k] = append(all[k], e)
		}
	}
	return all, nil
}

func (w *world) entryOf(m *rig.Message) (k key, e entry, ok bool) {
	parts := strings.Split(header(m, "partitionkey"), "/")
	if len(parts) != 5 || parts[0] != w.direction.source {
		return k, e, false
	}
	for _, r := range resources {
		if r.Resource == parts[2] {
			k = key{r, parts[3], parts[4]}
		}
	}
	seq, err := sequence.Parse(header(m, "sequence"))
	typ := strings.TrimSuffix(header(m, "type"), ".v1")
	e = entry{Sequence: seq, op: typ[strings.LastIndex(typ, ".")+1:], uid: header(m, "objectuid")}
	var object map[string]any
	if json.Unmarshal(m.Data, &object) == nil && k.name != "" {
		e.copied = w.rules.Replicated(k.resource.GroupResource(), object)
	}
	e.recorded, _ = time.Parse(time.RFC3339Nano, header(m, "recordedtime")) // an event without is the oldest
	return k, e, err == nil && k.name != "" && w.namespaces[k.namespace] != "" &&
		slices.Contains([]string{"added", "updated", "deleted"}, e.op)
}

// newest returns the event with the greatest sequence.
func newest(of []entry) (last entry) {
	for _, e := range of {
		if !last.After(e.Sequence) {
			last = e
		}
	}
	return last
}

// mismatch is a key that is not in the target as in the source.
type mismatch struct {
	in   *world
	key  key
	what string
	// waits is why the replica says that it waits.
	waits string
}

// compare returns what is not in the target as in the source. Edits counts how often people have changed what the
// replica owns.
func (w *world) compare(ctx context.Context, edits map[key]int) ([]mismatch, error) {
	log, err := w.readLog(ctx)
	if err != nil {
		return nil, err
	}
	status, err := w.status(ctx)
	if err != nil {
		return nil, err
	}
	waits := make(map[key]string)
	for _, o := range status.Waiting {
		for _, r := range resources {
			if o.Resource == r.GroupResource().String() {
				waits[key{r, o.Namespace, o.Name}] = string(o.Reason)
			}
		}
	}
	var all []mismatch
	for _, r := range resources {
		for from, to := range w.namespaces {
			source, err := w.from.Resource(r).Namespace(from).List(ctx, metav1.ListOptions{})
			if err != nil {
				return nil, err
			}
			target, err := w.to.Resource(r).Namespace(to).List(ctx, metav1.ListOptions{})
			if err != nil {
				return nil, err
			}
			pairs := make(map[string][2]*unstructured.Unstructured)
			for i := range source.Items {
				pairs[source.Items[i].GetName()] = [2]*unstructured.Unstructured{&source.Items[i], nil}
			}
			for i := range target.Items {
				name := target.Items[i].GetName()
				pairs[name] = [2]*unstructured.Unstructured{pairs[name][0], &target.Items[i]}
			}
			for name, pair := range pairs {
				k := key{r, from, name}
				if what := w.differs(k, pair[0], pair[1], newest(log[k]), waits[k], edits[k]); what != "" {
					all = append(all, mismatch{w, k, what, waits[k]})
				}
			}
		}
	}
	slices.SortFunc(all, func(a, b mismatch) int { return strings.Compare(a.key.String(), b.key.String()) })
	return all, nil
}

// differs says how the objects of a key differ; it is empty if they do not, or if they may.
func (w *world) differs(k key, source, target *unstructured.Unstructured, last entry, waits string, edits int) string {
	ours := target != nil && w.isOurs(k, target.GetLabels(), target.GetAnnotations())
	switch {
	case source == nil && ours:
		return fmt.Sprintf("it is gone in the source, and still in the target; the log's newest event is %s %s", last.op,
			last.Sequence)
	case source == nil:
		return ""
	}
	if password, _, _ := unstructured.NestedString(source.Object, "spec", "password"); password != "" {
		return "" // its newest event is redacted
	}
	if _, skips := w.rules.Skips(k.resource.GroupResource(), source.DeepCopy().Object); skips {
		return w.leftOver(k, source, target, ours)
	}
	if target != nil && !ours { // somebody else's, or detached
		if waits == "" {
			return "the target has another object of its name, and the replica does not report it"
		}
		return ""
	}
	if waits == "contested" && edits >= 3 {
		return ""
	}
	if waits == "immutable" && w.wasRestored() {
		return "" // the source's etcd has forgotten that it made the object immutable, and the target's has not
	}
	if target == nil {
		return fmt.Sprintf("the target lacks it; the log's newest event is %s %s", last.op, last.Sequence)
	}
	_, labelled := source.GetLabels()["app"]
	want, err := w.cleaned(k, source, true)
	if err != nil {
		return err.Error()
	}
	got, err := w.cleaned(k, target, labelled)
	if err != nil {
		return err.Error()
	}
	if !reflect.DeepEqual(want, got) {
		return fmt.Sprintf("the target has %s at %s instead of %s; the log's newest event is %s %s", asText(got),
			target.GetAnnotations()[seqNote], asText(want), last.op, last.Sequence)
	}
	if at := target.GetAnnotations()[seqNote]; at != last.Sequence.String() {
		return fmt.Sprintf("its sequence is %s, and the newest in the log is %s", at, last.Sequence)
	}
	return ""
}

// wasRestored reports whether the source's etcd was restored.
func (w *world) wasRestored() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.holds) > 0
}

// leftOver says what is wrong with what the target has of an object that is left out.
func (w *world) leftOver(k key, source, target *unstructured.Unstructured, ours bool) string {
	switch {
	case !ours:
		return ""
	case target.GetAnnotations()[uidNote] != string(source.GetUID()):
		return "the target has a copy of what has ended, and what has its name now is left out"
	case w.rules.Replicated(k.resource.GroupResource(), source.Object):
		return "both clusters have a copy, and neither has an original"
	default:
		return ""
	}
}

func asText(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(b)
}

// cleaned returns the content of an object of either cluster that has to be the same in both. Labelled says that the
// source's has the label that people change.
func (w *world) cleaned(k key, o *unstructured.Unstructured, labelled bool) (map[string]any, error) {
	o = o.DeepCopy()
	o.SetName(k.name)
	o.SetNamespace(k.namespace)
	labels := o.GetLabels()
	delete(labels, personsLabel)
	if labels["app"] == personsApp && !labelled {
		delete(labels, "app") // the source has none, so that it is the person's
	}
	o.SetLabels(labels)
	for _, within := range []string{"data", "spec"} {
		if members, ok := o.Object[within].(map[string]any); ok {
			if delete(members, personsMember); len(members) == 0 {
				delete(o.Object, within)
			}
		}
	}
	if err := w.rules.Object(k.resource.GroupResource(), o.Object); err != nil {
		return nil, err
	}
	return o.Object, nil
}

// converge waits until the target is as the source. What it returns after a time is wrong. Late are keys whose blocker
// was gone, and that the replica did not look at in time.
func (w *world) converge(ctx context.Context, within time.Duration) (wrong []mismatch, late []string) {
	touched := false
	for end := time.Now().Add(within); ; {
		var err error
		wrong, err = w.mismatches(ctx)
		if err == nil && len(wrong) == 0 {
			return nil, late
		}
		if time.Now().After(end) {
			if err != nil {
				wrong = append(wrong, mismatch{in: w, what: "the clusters cannot be compared: " + err.Error()})
			}
			if blocked := blockedOnes(wrong); !touched && len(blocked) == len(wrong) {
				touched, end = true, time.Now().Add(within/2)
				for _, m := range blocked {
					late = append(late, m.key.String()+" waits: "+m.waits)
					w.note("%s is touched, as it waits: %s", m.key, m.waits)
					_ = patch(ctx, m.in.from.Resource(m.key.resource).Namespace(m.key.namespace), m.key.name,
						content(m.key.resource, map[string]any{"value": text(m.key.resource, newValue("touch"))}))
				}
				continue
			}
			return wrong, late
		}
		if pause.For(ctx, time.Second) != nil {
			return wrong, late
		}
	}
}

// mismatches compares the clusters, in all directions.
func (w *world) mismatches(ctx context.Context) (all []mismatch, err error) {
	for _, each := range w.directions() {
		each.letGo(ctx)
		some, failed := each.compare(ctx, each.edits(ctx))
		all, err = append(all, some...), errors.Join(err, failed)
	}
	return all, err
}

// blockedOnes are those that wait for something that the replica cannot see go.
func blockedOnes(of []mismatch) (all []mismatch) {
	for _, m := range of {
		if m.waits == "exists" || m.waits == "detached" || m.waits == "denied" || m.waits == "forbidden" {
			all = append(all, m)
		}
	}
	return all
}

// letGo resumes a replica that holds deletes, as a person does who has looked.
func (w *world) letGo(ctx context.Context) {
	s, err := w.status(ctx)
	if err != nil || !s.HeldDeletes && s.HeldEpoch == 0 {
		return
	}
	w.note("the replica is resumed: held deletes %t, epoch %d", s.HeldDeletes, s.HeldEpoch)
	if err := w.resume(ctx); err != nil {
		w.note("resume: %v", err)
	}
}

// edits counts, by key, how often people have changed an object of the replica.
func (w *world) edits(ctx context.Context) map[key]int {
	counts := make(map[key]int)
	changes, err := w.changes(ctx)
	if err != nil {
		return counts
	}
	for i := range changes {
		if c := &changes[i]; c.by != replicator && c.by != "" && c.before != nil && w.ours(c.key, c.before) {
			counts[c.key]++
		}
	}
	return counts
}

// changes returns the history of the target so far.
func (w *world) changes(ctx context.Context) ([]change, error) {
	if err := w.history.complete(ctx); err != nil {
		return nil, err
	}
	requests, err := readAudit(w.auditPath())
	if err != nil {
		return nil, err
	}
	return w.history.attributed(requests)
}

// judgeWrites judges each change that the replicator has made.
func (w *world) judgeWrites(ctx context.Context, res *Result) error {
	changes, err := w.changes(ctx)
	if err != nil {
		return err
	}
	log, err := w.readLog(ctx)
	if err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.judge(changes, log, res)
	return nil
}

// judge judges changes by the events of the log. The caller holds mu.
func (w *world) judge(changes []change, log map[key][]entry, res *Result) {
	ended := make(map[key]time.Time) // by the replicator, and not released
	for i := range changes {
		c := &changes[i]
		if c.by == "" {
			res.Unknown++
		}
		if c.after != nil {
			delete(ended, c.key)
		}
		if c.by != replicator {
			continue
		}
		for _, h := range w.holds {
			if at := c.request.StageTimestamp; at.After(h.from) && at.Before(h.to) {
				res.violated("R4", "%s was written at %s while the replica was held", c, at)
			}
		}
		switch {
		case c.after == nil:
			res.Deletes++
			w.judgeDelete(c, log, ended, res)
		case c.before == nil:
			res.Creates++
			if !w.ours(c.key, c.after) {
				res.violated("R3", "%s was created without label or origin", c)
			}
		default:
			res.Updates++
			if !w.ours(c.key, c.before) {
				res.violated("R3", "%s was written, and was not the replica's: %s", c, c.before.raw)
			}
			if before, after := c.before.sequence(), c.after.sequence(); w.ours(c.key, c.before) && before.After(after) {
				res.Backward++
				res.violated("R2", "%s went back from %s to %s", c, before, after)
			}
		}
		if c.after != nil && slices.ContainsFunc(log[c.key], func(e entry) bool {
			return e.copied && e.Sequence == c.after.sequence() && e.uid == c.after.Metadata.Annotations[uidNote]
		}) {
			res.violated("R7", "%s was written out of a copy: %s", c, c.after.raw)
		}
		if c.after != nil && strings.Contains(c.after.raw, redacted) {
			res.violated("R6", "%s has a redacted value: %s", c, c.after.raw)
		}
	}
}

func (c *change) String() string {
	return fmt.Sprintf("%s (revision %d of era %d)", c.key, c.rev, c.era)
}

// cameBack reports whether the log tells by a time that an object exists again that had ended. Something may keep it
// from being created in the target.
func cameBack(log []entry, ended, by time.Time) (back bool) {
	for i := range log {
		if e := &log[i]; e.recorded.After(ended) && !e.recorded.After(by) {
			back = e.op != "deleted"
		}
	}
	return back
}

// judgeDelete judges a deletion by the replicator.
func (w *world) judgeDelete(c *change, all map[key][]entry, ended map[key]time.Time, res *Result) {
	log := all[c.key]
	var options struct{ Preconditions struct{ UID string } }
	_ = json.Unmarshal(c.request.RequestObject, &options) // a body that is none has no precondition
	if options.Preconditions.UID != c.before.Metadata.UID {
		res.violated("R3", "%s was deleted with the precondition %q, and had the uid %q", c, options.Preconditions.UID,
			c.before.Metadata.UID)
	}
	if !w.ours(c.key, c.before) {
		res.violated("R3", "%s was deleted, and was not the replica's: %s", c, c.before.raw)
	}
	at, uid := c.request.StageTimestamp, c.before.Metadata.Annotations[uidNote]
	var end *entry
	for i := range log {
		e := &log[i]
		if e.recorded.After(at) || c.before.sequence().After(e.Sequence) {
			continue
		}
		if e.op == "deleted" || e.uid != uid {
			end = e
		}
	}
	if end == nil {
		res.violated("R4", "%s was deleted at %s, and the log has no end of it: %v", c, at, log)
		return
	}
	if w.limit == 0 || end.op != "deleted" {
		return // an object that the source has again
	}
	var released time.Time
	for _, r := range w.resumed {
		if r.at.Before(at) {
			released = r.ends
		}
	}
	maps.DeleteFunc(ended, func(k key, e time.Time) bool { return !e.After(released) || cameBack(all[k], e, at) })
	if end.recorded.After(released) {
		if ended[c.key] = end.recorded; len(ended) > w.limit {
			res.violated("R4", "%s was deleted, one of %d since the replica was resumed at %v", c, len(ended), released)
		}
	}
}
