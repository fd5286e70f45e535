// SPDX-License-Identifier: Apache-2.0

package oracle

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"pgregory.net/rapid"

	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
)

var (
	plain     = Stream{Cluster: "test", Resource: schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}}
	selective = Stream{Cluster: "test", Resource: schema.GroupVersionResource{
		Group: "apps", Version: "v1",
		Resource: "deployments",
	}, LabelSelector: "watched=yes"}
)

// world draws what happens to a few objects of two resources, with an etcd that may be restored.
type world struct {
	t         *rapid.T
	revision  uint64
	uids      int
	current   map[string]Observation // by resource and key
	all       map[Stream][]Observation
	histories []History
	saved     map[string]Observation
	savedAt   uint64
}

func drawTruth(t *rapid.T, restorations int) *Truth {
	w := &world{
		t: t, revision: 100, current: map[string]Observation{}, all: map[Stream][]Observation{},
		histories: []History{{First: 100}},
	}
	for range restorations + 1 {
		for i := range rapid.IntRange(25, 60).Draw(t, "changes") {
			if i == 10 {
				w.savedAt, w.saved = w.revision, clone(w.current)
			}
			w.change()
		}
		if len(w.histories) <= restorations {
			w.restore()
		}
	}
	truth := &Truth{Histories: w.histories, Streams: map[Stream]map[string][]State{}}
	for _, s := range []Stream{plain, selective} {
		states := must.Get(States(s, w.all[s]))(t)
		truth.Streams[s] = states
	}
	truth.Histories[len(truth.Histories)-1].Last = w.revision
	return truth
}

func clone(m map[string]Observation) map[string]Observation {
	c := map[string]Observation{}
	for k, v := range m {
		c[k] = v
	}
	return c
}

func (w *world) change() {
	w.revision += rapid.Uint64Range(1, 3).Draw(w.t, "step")
	s := rapid.SampledFrom([]Stream{plain, selective}).Draw(w.t, "stream")
	o := Observation{Namespace: "ns", Name: rapid.SampledFrom([]string{"a", "b", "c"}).Draw(w.t, "name")}
	key := s.String() + o.key()
	if was, exists := w.current[key]; exists {
		o = was
		o.Deleted = rapid.IntRange(0, 4).Draw(w.t, "fate") == 0
	} else {
		w.uids++
		o.UID = fmt.Sprintf("uid-%d", w.uids)
	}
	o.Version, o.History, o.Body = w.revision, len(w.histories)-1, fmt.Sprint(w.revision, len(w.histories))
	o.Labels = map[string]string{"watched": rapid.SampledFrom([]string{"yes", "yes", "no"}).Draw(w.t, "label")}
	w.current[key] = o
	if o.Deleted {
		delete(w.current, key)
	}
	w.all[s] = append(w.all[s], o)
}

func (w *world) restore() {
	w.histories[len(w.histories)-1].Last = w.revision
	w.histories = append(w.histories, History{First: w.savedAt})
	h := len(w.histories) - 1
	for _, s := range []Stream{plain, selective} {
		for _, key := range sortedKeys(w.current) {
			if o := w.current[key]; strings.HasPrefix(key, s.String()) && w.saved[key].UID == "" {
				o.History, o.Version, o.Deleted = h, w.savedAt, true
				w.all[s] = append(w.all[s], o)
			}
		}
		for _, key := range sortedKeys(w.saved) {
			if o := w.saved[key]; strings.HasPrefix(key, s.String()) {
				o.History = h
				w.all[s] = append(w.all[s], o)
			}
		}
	}
	w.current, w.revision = clone(w.saved), w.savedAt
}

// bridge publishes a truth as it should be published: a snapshot, then what a watch shows, with gaps.
type bridge struct {
	t       *rapid.T
	truth   *Truth
	stream  Stream
	log     []Entry
	ledger  map[string]row
	epoch   uint64
	history int
	// leader is the number of the one that publishes; 0 is none.
	leader int
}

// row is what the bridge knows of an object: its last event.
type row struct {
	State
	numbers
}

func drawLog(t *rapid.T, truth *Truth) []Entry { return drawLogOf(t, truth, 0) }

// drawLogOf draws a log that leaders have written, from one on; 0 is none.
func drawLogOf(t *rapid.T, truth *Truth, leader int) []Entry {
	var log []Entry
	for _, s := range []Stream{plain, selective} {
		b := &bridge{t: t, truth: truth, stream: s, ledger: map[string]row{}, leader: leader, epoch: 1000}
		b.run()
		log = append(log, b.log...)
	}
	for i := range log {
		log[i].Place = uint64(i + 1)
	}
	return log
}

type step struct {
	key string
	State
}

func (b *bridge) run() {
	var steps []step
	for _, key := range sortedKeys(b.truth.Streams[b.stream]) {
		for _, st := range b.truth.Streams[b.stream][key] {
			steps = append(steps, step{key, st})
		}
	}
	slices.SortStableFunc(steps, func(x, y step) int { return x.at().compare(y.at()) })
	start := position{0, rapid.Uint64Range(100, 115).Draw(b.t, "start")}
	b.marker("snapshot-started", 0, start.version, "")
	steps = b.list(steps, start, "snapshot")
	b.marker("snapshot-completed", 0, start.version, "")
	position := start
	for len(steps) > 0 {
		next := steps[0]
		switch {
		case next.History > b.history:
			// Everything is published again, behind a gap that goes from the old history to the new one.
			position.history, b.history = next.History, next.History
			to := b.truth.Histories[b.history].First + rapid.Uint64Range(0, 5).Draw(b.t, "later")
			b.begin()
			b.marker("gap", position.version, to, rapid.SampledFrom([]Cause{Restored, Rebuilt}).Draw(b.t, "cause"))
			position.version = to
			steps = b.list(steps, position, "relist")
		case rapid.IntRange(0, 9).Draw(b.t, "gap") == 0:
			n := min(rapid.IntRange(1, 8).Draw(b.t, "length"), len(steps))
			to := steps[n-1].at()
			if to.history > b.history {
				continue
			}
			for _, st := range steps[:n] {
				if b.ledger[st.key].UID != "" && rapid.Bool().Draw(b.t, "recovered") {
					b.publish(st, "recovered", st.Version)
				}
			}
			cause := rapid.SampledFrom([]Cause{Expired, Expired, Selection, CheckpointLost, ResourceGone}).Draw(b.t, "cause")
			if cause != Expired { // nothing is published again
				b.begin()
			}
			b.marker("gap", position.version, to.version, cause)
			steps, position = b.list(steps, to, "relist"), to
		default:
			b.publish(next, "watch", next.Version)
			steps, position = steps[1:], next.at()
		}
	}
}

// begin begins an epoch.
func (b *bridge) begin() { b.epoch += rapid.Uint64Range(1, 100).Draw(b.t, "epoch") }

// list publishes what differs from the ledger at a position, and returns the steps that come after.
func (b *bridge) list(steps []step, at position, reason string) []step {
	now := map[string]State{}
	for key, states := range b.truth.Streams[b.stream] {
		for _, st := range states {
			if st.at().compare(at) <= 0 {
				now[key] = st
			}
		}
	}
	for _, key := range sortedKeys(now) {
		st := now[key]
		had := b.ledger[key]
		if had.live() && had.UID != "" && (!st.live() || st.UID != had.UID) {
			end, epoch := at.version, b.epoch
			if st.live() { // it comes before the other object that has the name
				end, b.epoch = had.version, had.epoch
			}
			b.publish(step{key, State{History: at.history, UID: had.UID, Version: had.State.Version, Op: Deleted}}, reason, end)
			b.epoch = epoch
		}
		if st.live() && (st.UID != had.UID || st.Version != had.State.Version || !had.live() ||
			st.History != had.History && st.History == b.history) {
			b.publish(step{key, st}, reason, st.Version)
		}
	}
	rest := slices.IndexFunc(steps, func(st step) bool { return st.at().compare(at) > 0 })
	if rest < 0 {
		return nil
	}
	return steps[rest:]
}

// publish publishes a state under a version.
func (b *bridge) publish(st step, reason string, version uint64) {
	had := b.ledger[st.key]
	if reason == "recovered" && (had.UID != st.UID && had.live() ||
		had.UID == st.UID && had.State.Version >= st.Version || !had.live() && !st.live()) {
		return
	}
	st.History = b.history
	op := Added
	n := numbers{epoch: b.epoch, version: version}
	switch {
	case !st.live():
		op, n.step = Deleted, stepEnd
	case had.UID == st.UID && had.live():
		op = Updated
	}
	b.ledger[st.key] = row{State{History: b.history, UID: st.UID, Version: st.Version, Op: op}, n}
	namespace, name, _ := strings.Cut(st.key, "/")
	if b.leader > 0 && rapid.IntRange(0, 3).Draw(b.t, "takeover") == 0 {
		b.leader++
	}
	e := Entry{
		WriterTerm: b.leader, Body: st.Body, Type: typeResource + string(op) + typeVersion, Source: b.stream.Source(),
		Subject: st.key, Namespace: namespace, Name: name, UID: st.UID, ResourceVersion: fmt.Sprint(st.Version),
		Reason: reason, SampledRate: 1, Data: dataOf(b.stream, namespace, name, st.UID, st.Version),
		PartitionKey: keyOf(b.stream, namespace, name),
	}
	e.number(n, "")
	e.Headers = map[string][]string{"ce-id": {e.ID}}
	b.log = append(b.log, e)
}

// number gives an entry a sequence, and the id that goes with it, with what follows.
func (e *Entry) number(n numbers, suffix string) {
	e.Sequence = n.String()
	e.ID = fmt.Sprintf("%s.%d.%d.%d%s", e.UID, n.epoch, n.version, n.step, suffix)
	e.MsgID = e.Source + e.ID
}

func (b *bridge) marker(kind string, from, to uint64, cause Cause) {
	b.log = append(b.log, markerOf(b.stream, kind, b.epoch, from, to, cause))
}

// markerOf returns a marker; to is the number of a resync.
func markerOf(s Stream, kind string, epoch, from, to uint64, cause Cause) Entry {
	body := map[string]any{"namespace": s.Namespace, "labelSelector": s.LabelSelector, "fieldSelector": ""}
	version, end := fmt.Sprint(to), fmt.Sprint(to)
	switch kind {
	case "gap":
		body["from"], body["to"], body["epoch"] = fmt.Sprint(from), version, epoch
		body["cause"], body["message"] = cause, "a text"
		end = fmt.Sprint(from, "-", to)
	case "resync-started", "resync-completed":
		version = "5" // the position, which may be absent
		body["n"] = to
	default:
		body["resourceVersion"] = version
	}
	if strings.HasSuffix(kind, "-completed") {
		body["objects"] = 1
	}
	if kind == "resync-completed" {
		body["complete"] = true
	}
	data, _ := json.Marshal(body) // it has no value that JSON has not
	return Entry{
		Type: typeStream + kind + typeVersion, ID: fmt.Sprintf("%s.%s.%d.%s", kind, s.scope(), epoch, end),
		Source: s.Source(), ResourceVersion: version, SampledRate: 1, Data: data,
		PartitionKey: keyOf(s, "", markerNames[kind]), Recorded: now,
	}
}

var markerNames = map[string]string{
	"gap": "_gap", "snapshot-started": "_snapshot", "snapshot-completed": "_snapshot",
	"resync-started": "_resync", "resync-completed": "_resync",
}

func keyOf(s Stream, namespace, name string) string {
	return strings.Join([]string{
		s.Cluster, cmp.Or(s.Resource.Group, "core"), s.Resource.Resource, cmp.Or(namespace, "_"),
		name,
	}, "/")
}

var kindNames = map[string]string{"configmaps": "ConfigMap", "deployments": "Deployment", "widgets": "Widget"}

func dataOf(s Stream, namespace, name, uid string, version uint64) []byte {
	if namespace != "" {
		namespace = `"namespace":"` + namespace + `",`
	}
	return fmt.Appendf(nil, `{"apiVersion":%q,"kind":%q,"metadata":{%s"name":%q,"uid":%q,"resourceVersion":"%d"}}`,
		s.Resource.GroupVersion(), kindNames[s.Resource.Resource], namespace, name, uid, version)
}

func TestCheck_finds_nothing_in_a_log_that_keeps_every_promise(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		truth := drawTruth(t, rapid.IntRange(0, 2).Draw(t, "restorations"))
		log := drawLog(t, truth)
		r := Judge(truth, log, Options{Seed: 7, Gaps: AnyGap})
		for _, v := range r.Violations {
			t.Error(v)
		}
		if r.Lost != 0 || r.Folded != 0 || r.Published+r.Hidden != r.States {
			t.Errorf("%d states, of which %d published, %d hidden, %d folded, %d lost", r.States, r.Published, r.Hidden,
				r.Folded, r.Lost)
		}
	})
}

func TestBodyOf_tells_contents_apart_and_not_how_they_are_served(t *testing.T) {
	const (
		meta   = `"metadata":{"name":"a","uid":"u","labels":{"l":"1"}}`
		data   = `"data":{"y":"2","x":"1"}`
		served = `{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"a","uid":"u","resourceVersion":"7",` +
			`"labels":{"l":"1"}},` + data + `}`
	)
	hash := func(object string) string {
		t.Helper()
		body, more, err := bodyOf([]byte(object))
		require.True(t, err == nil && more, "%s: %v", object, err)
		return body
	}
	for object, same := range map[string]bool{
		`{"metadata":{"name":"a","uid":"u","creationTimestamp":null,"labels":{"l":"1"},"annotations":{}},` + data + `}`: true,
		`{"metadata":{"name":"a","uid":"u","labels":{"l":"1"},"managedFields":[{}],` +
			`"annotations":{"` + lastApplied + `":"x"}},` + data + `}`: true,
		`{` + meta + `,"data":{"x":"1"}}`:                  false,
		`{` + meta + `,"data":{"x":"1","y":"3"}}`:          false,
		`{"metadata":{"name":"a","uid":"u"},` + data + `}`: false,
		`{` + meta + `,` + data + `,"immutable":true}`:     false,
	} {
		assert.Equal(t, same, hash(object) == hash(served), "%s: the same", object)
	}
	secret := func(values string) string {
		return hash(`{"kind":"Secret","apiVersion":"v1","metadata":{"name":"a","uid":"u"},"data":{` + values + `}}`)
	}
	both := secret(`"a":"eA==","b":"eQ=="`)
	assert.True(t, both == secret(`"a":"W3JlZGFjdGVkXQ==","b":"W3JlZGFjdGVkXQ=="`) && both != secret(`"a":"eA=="`),
		"of a Secret the keys count, and not the values")
	annotated := func(annotations string) string {
		return hash(`{"kind":"Secret","apiVersion":"v1","metadata":{"name":"a","uid":"u","annotations":{` + annotations +
			`}}}`)
	}
	assert.Equal(t, annotated(`"a":"x"`), annotated(`"a":"[redacted]"`))
	assert.NotEqual(t, annotated(`"`+shownAnnotation+`":"1"`), annotated(`"`+shownAnnotation+`":"2"`))
	identity := []byte(`{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"a","uid":"u","resourceVersion":"7"}}`)
	_, more, err := bodyOf(identity)
	assert.True(t, !more && err == nil, "an identity is taken for a whole object, or %v", err)
	assert.Error(t, must.Err(bodyOf([]byte("x"))), "what is no object has a content")
}

func TestCheck_finds_nothing_in_a_log_of_several_leaders(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		truth := drawTruth(t, rapid.IntRange(0, 1).Draw(t, "restorations"))
		log := drawLogOf(t, truth, 1)
		for _, v := range Check(truth, log, Options{Elected: true, Gaps: AnyGap}) {
			t.Error(v)
		}
	})
}

// usurpations break a log of several leaders that is right. They return false where this log has no place for them.
var usurpations = []struct {
	name string
	do   func(d *damaged) bool
}{
	{"leave out who has published an event", func(d *damaged) bool {
		return d.change(func(i int) bool { return d.op(i) != "" }, func(e *Entry) { e.WriterTerm = 0 })
	}},
	{"publish under a number below all", func(d *damaged) bool {
		return d.change(func(i int) bool { return d.op(i) != "" }, func(e *Entry) { e.WriterTerm = -1 })
	}},
	{"declare no election", func(d *damaged) bool { d.options.Elected = false; return true }},
	{"let a former leader publish two events of an object behind a later one", func(d *damaged) bool {
		i := d.pick(func(i int) bool {
			first := d.before(i)
			return first >= 0 && d.before(first) >= 0 && d.log[d.before(first)].WriterTerm > 1
		})
		if i < 0 {
			return false
		}
		d.log[i].WriterTerm, d.log[d.before(i)].WriterTerm = 1, 1
		return true
	}},
}

func TestCheck_names_what_leaders_do_that_they_must_not(t *testing.T) {
	for _, damage := range usurpations {
		t.Run(damage.name, func(t *testing.T) {
			applied := 0
			rapid.Check(t, func(t *rapid.T) {
				truth := drawTruth(t, 0)
				d := &damaged{t: t, truth: truth, log: drawLogOf(t, truth, 1), options: Options{Elected: true, Gaps: AnyGap}}
				if !damage.do(d) {
					return
				}
				applied++
				if !slices.ContainsFunc(Check(d.truth, d.log, d.options), func(v Violation) bool { return v.Promise == P5 }) {
					t.Fatal("nothing is found")
				}
			})
			assert.GreaterOrEqual(t, applied, fewest(), "only %d logs could be damaged", applied)
		})
	}
}

// A former leader's event may come once where the broker cannot tell, and never where it can.
func TestJudge_counts_what_a_former_leader_may_still_publish(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		truth := drawTruth(t, 0)
		d := &damaged{t: t, truth: truth, log: drawLogOf(t, truth, 2), options: Options{Elected: true, Gaps: AnyGap}}
		if !d.change(func(i int) bool { return d.before(i) >= 0 }, func(e *Entry) { e.WriterTerm = 1 }) {
			return
		}
		r := Judge(d.truth, d.log, d.options)
		assert.True(t, r.Late == 1 && len(r.Violations) <= 0, "%d late, violations %v", r.Late, r.Violations)
		s := &streamJudge{judge: &judge{
			truth: truth, options: Options{Elected: true, Partitions: partitions, MaxPrinted: 20},
			counts: map[string]int{},
		}, stream: plain}
		for _, key := range sortedKeys(truth.Streams[plain]) {
			o := &object{key: key, lines: []*line{
				{Entry: &Entry{Name: key, WriterTerm: 2}}, {Entry: &Entry{Name: key, WriterTerm: 1}, nth: 1},
			}}
			s.objects = map[string]*object{key: o}
			before := len(s.judge.report.Violations)
			if s.checkWriters(o); len(s.judge.report.Violations) == before {
				t.Error("a former leader's record was let through")
			}
		}
	})
}
