// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/kube-eventbridge/kube-eventbridge/integration/controlplane"
	"github.com/kube-eventbridge/kube-eventbridge/integration/controlplane/aggregated"
	"github.com/kube-eventbridge/kube-eventbridge/integration/faults/oracle"
	"github.com/kube-eventbridge/kube-eventbridge/integration/internal/rig"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
)

func TestAggregated_API_breaks_no_promise(t *testing.T) {
	rig.Parallel(t, rig.All)
	api := controlplane.ForTest(t, controlplane.Config{})
	for group, c := range map[string]struct {
		name string
		test func(*notes)
	}{
		"runs":    {"reinstalled while the bridge runs", reinstalledWhileItRuns},
		"stopped": {"reinstalled while the bridge is stopped", reinstalledWhileStopped},
		"passed":  {"reinstalled and past the position", func(n *notes) { reinstalledPastPosition(n, false) }},
		"forgets": {"reinstalled and past a position that it forgot", func(n *notes) { reinstalledPastPosition(n, true) }},
		"killed":  {"reinstalled and the bridge killed behind each message", killedWhileItRepairs},
		"again":   {"reinstalled again and again and the bridge killed", reinstalledDuringRepair},
		"away":    {"away for a while", away},
		"starts":  {"away while the bridge starts", awayAtStart},
		"removed": {"removed and installed again while the bridge runs", removedWhileItRuns},
		"missed":  {"removed and installed again while the bridge is stopped", removedWhileStopped},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.test(newNotes(t, api, group))
		})
	}
}

// notes is a bridge for the objects of an aggregated API server, and for ConfigMaps, which nothing may disturb.
type notes struct {
	*fixture
	server    *aggregated.Server
	truth     *rig.Truth // of the ConfigMaps
	namespace string     // of the ConfigMaps
	synced    int
}

// newNotes has a bridge that is ready. The versions of its notes are at about 40.
func newNotes(t *testing.T, api *controlplane.ControlPlane, name string) *notes {
	t.Helper()
	group := name + ".example.com"
	r := rigOn(t, api, fmt.Sprintf(`[{resource: notes.%s}, {resource: configmaps, namespaces: [%s]}]`, group, name))
	n := &notes{fixture: r, server: must.Get(aggregated.New(group, api.RESTConfig()))(t), namespace: name}
	t.Cleanup(n.server.Stop)
	n.fixture.namespace(name)
	n.truth = rig.Record(t, api, r.cluster, corev1.SchemeGroupVersion.WithResource("configmaps"))
	n.write("stays", "goes", "again", "changes")
	n.serve()
	require.NoError(t, n.server.Register(t.Context()))
	n.awaitAvailable(true)
	n.runReady()
	n.server.Delete("default", "again")
	for i := range 30 {
		n.server.Put("default", "changes", fmt.Sprint("before ", i))
	}
	n.write("other")
	n.sync()
	return n
}

// write makes notes, or changes them.
func (n *notes) write(names ...string) {
	for _, name := range names {
		n.server.Put("default", name, "of "+name)
	}
}

// serve starts the server. Until a new process runs its program, it has a copy of a listener that was closed meanwhile.
func (n *notes) serve() {
	n.t.Helper()
	rig.Try(n.t, "the address to be free", n.server.Start)
}

// reinstall has the server lose its data. It starts with five versions, and with as many more as more says.
func (n *notes) reinstall(more int) {
	n.t.Helper()
	n.server.Reinstall()
	n.write("comes", "stays", "again", "changes")
	for range more {
		n.write("comes")
	}
	n.serve()
}

// awaitAvailable waits until kube-apiserver takes the server for available, or for away.
func (n *notes) awaitAvailable(want bool) {
	n.t.Helper()
	n.eventually(fmt.Sprintf("kube-apiserver to say available=%v", want), func() bool {
		got, err := n.server.Available(n.t.Context())
		return err == nil && got == want
	})
}

// sync waits until the log has a note and a ConfigMap that are made last, and nothing waits.
func (n *notes) sync() {
	n.t.Helper()
	n.synced++
	last := fmt.Sprint("last-", n.synced)
	n.write(last)
	n.awaitStory("default/"+last, "added")
	n.settle(n.namespace)
}

func (n *notes) stream() oracle.Stream {
	return oracle.Stream{Cluster: n.cluster, Resource: n.server.Resource()}
}

// happened is the truth of the notes. What a server has when it is installed again ends with that.
func (n *notes) happened() *oracle.Truth {
	n.t.Helper()
	truth, exists := &oracle.Truth{}, map[string]oracle.Observation{}
	var all []oracle.Observation
	for i, h := range n.server.Histories() {
		truth.Histories = append(truth.Histories, oracle.History{First: h.First, Last: h.Last})
		for _, key := range slices.Sorted(maps.Keys(exists)) {
			o := exists[key]
			o.History, o.Version, o.Deleted = i, h.First, true
			all = append(all, o)
		}
		clear(exists)
		for _, c := range h.Changes {
			o := must.Get(oracle.Decode(c.Object))(n.t)
			o.History, o.Version, o.Namespace, o.Name = i, c.Version, c.Namespace, c.Name
			o.Deleted = c.Type == watch.Deleted
			all = append(all, o)
			if exists[c.Name] = o; o.Deleted {
				delete(exists, c.Name)
			}
		}
	}
	states := must.Get(oracle.States(n.stream(), all))(n.t)
	truth.Streams = map[oracle.Stream]map[string][]oracle.State{n.stream(): states}
	return truth
}

// from returns the messages of a stream.
func (n *notes) from(s oracle.Stream) []rig.Message {
	n.t.Helper()
	return slices.DeleteFunc(slices.Clone(n.messages()), func(m rig.Message) bool {
		e := entryOf(&m)
		return e.attribute("source") != s.Source()
	})
}

// judge ends the bridge, and judges what it has published.
func (n *notes) judge(o oracle.Options) oracle.Report {
	n.t.Helper()
	n.sync()
	n.bridge.stop()
	n.judgeControl()
	return rig.Judge(n.t, n.happened(), n.from(n.stream()), o)
}

// judgeControl checks that the log has all ConfigMaps, once and without a gap.
func (n *notes) judgeControl() {
	n.t.Helper()
	control := rig.CoreStream(n.cluster, "configmaps", n.namespace)
	report := n.truth.Judge(n.from(control), oracle.Options{Pipeline: "test"}, control)
	assert.Equal(n.t, report.States, report.Published, "ConfigMaps are missing")
}

// judgeRebuilt judges a log that has a gap, because versions do not compare any more, and maybe gaps of other causes.
func (n *notes) judgeRebuilt(others ...oracle.Cause) {
	n.t.Helper()
	report := n.judge(oracle.Options{Gaps: oracle.OnlyGaps(append(others, oracle.Rebuilt)...)})
	assert.True(n.t, slices.ContainsFunc(report.Gaps, func(g oracle.GapFigure) bool { return g.Cause == oracle.Rebuilt }),
		"no gap says that the API was installed again: %+v", report.Gaps)
}

// judgeComplete judges a log that has everything, without a gap.
func (n *notes) judgeComplete() {
	n.t.Helper()
	report := n.judge(oracle.Options{})
	assert.Equal(n.t, report.States, report.Published, "notes are missing")
}

// mustWatchOn checks that the watch of ConfigMaps was not broken off.
func (n *notes) mustWatchOn() {
	n.t.Helper()
	metrics := n.metrics()
	require.Contains(n.t, metrics, "kube_eventbridge_", "the bridge does not answer")
	for line := range strings.Lines(metrics) {
		assert.False(n.t, strings.HasPrefix(line, "kube_eventbridge_watch_restarts_total{") &&
			strings.Contains(line, `stream="configmaps`), "the watch of ConfigMaps was broken off: %s", line)
	}
}

func reinstalledWhileItRuns(n *notes) {
	n.reinstall(0)
	n.awaitOp("gap", 1)
	n.sync()
	n.mustWatchOn()
	n.judgeRebuilt()
}

func reinstalledWhileStopped(n *notes) {
	n.bridge.stop()
	n.reinstall(0)
	n.configMap(n.namespace, "meanwhile", nil)
	n.runReady()
	n.judgeRebuilt()
}

// Only the objects show that the server is another one.
func reinstalledPastPosition(n *notes, forgets bool) {
	n.bridge.stop()
	n.reinstall(50)
	var others []oracle.Cause
	if forgets { // it is asked for a position first
		n.server.Forget()
		others = []oracle.Cause{oracle.Expired}
	}
	n.runReady()
	n.judgeRebuilt(others...)
}

// The server has another note in between. The gap is announced again then, with the version that the next list has.
func killedWhileItRepairs(n *notes) {
	n.limit(1)
	n.reinstall(0)
	for i := range 10 {
		n.killFull()
		if i == 5 {
			n.write("late")
		}
		n.limit(1)
		n.run()
	}
	n.limit(-1)
	n.judgeRebuilt()
}

// One epoch may have notes of several servers here, which the oracle does not expect. Consumers end with what exists.
func reinstalledDuringRepair(n *notes) {
	for i := range 6 {
		n.limit(i)
		n.reinstall(10 * (i % 2))
		n.killFull()
		n.run()
	}
	n.sync()
	n.bridge.stop()
	n.judgeControl()
	log := must.Get(rig.Entries(n.from(n.stream())))(n.t)
	for _, v := range oracle.Check(n.happened(), log, oracle.Options{Gaps: oracle.AnyGap}) {
		if v.Promise == oracle.P1 || v.Promise == oracle.P2 || v.Promise == oracle.P9 {
			n.t.Error(v)
		}
	}
}

func away(n *notes) {
	n.server.Stop()
	n.changeWhileAway()
	n.mustWatchOn()
	n.judgeComplete()
}

// A bridge that starts does not find the resource in discovery. Nothing is deleted for that.
func awayAtStart(n *notes) {
	n.bridge.stop()
	n.server.Stop()
	n.awaitAvailable(false)
	n.run()
	n.awaitStatus(http.StatusServiceUnavailable, n.stream().Resource.Resource)
	n.changeWhileAway()
	n.judgeComplete()
}

// changeWhileAway changes notes while the server is away. The server comes back with all that it had.
func (n *notes) changeWhileAway() {
	n.t.Helper()
	before := len(n.from(n.stream()))
	n.awaitAvailable(false)
	n.write("stays")
	n.server.Delete("default", "goes")
	n.settle(n.namespace)
	assert.Len(n.t, n.from(n.stream()), before, "messages while the server is away")
	n.serve()
	n.awaitAvailable(true)
	n.awaitStory("default/goes", "added deleted")
}

// The log has the end of all notes while nothing defines them.
func removedWhileItRuns(n *notes) {
	n.remove()
	n.awaitStory("default/goes", "added deleted")
	n.comeBack()
	n.awaitStory("default/comes", "added")
	n.mustWatchOn()
	n.judge(oracle.Options{ // nothing was selected, for a time
		Gaps:     oracle.OnlyGaps(oracle.ResourceGone, oracle.Rebuilt),
		Selected: func(oracle.Stream, string) bool { return true },
	})
}

func removedWhileStopped(n *notes) {
	n.bridge.stop()
	n.remove()
	n.comeBack()
	n.runReady()
	n.judgeRebuilt(oracle.ResourceGone)
}

func (n *notes) remove() {
	n.t.Helper()
	n.server.Stop()
	require.NoError(n.t, n.server.Unregister(n.t.Context()))
}

func (n *notes) comeBack() {
	n.t.Helper()
	n.reinstall(0)
	require.NoError(n.t, n.server.Register(n.t.Context()))
	n.awaitAvailable(true)
}
