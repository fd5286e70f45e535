// SPDX-License-Identifier: Apache-2.0

package replicate

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/kube-eventbridge/kube-eventbridge/integration/controlplane"
	"github.com/kube-eventbridge/kube-eventbridge/integration/controlplane/crd"
	"github.com/kube-eventbridge/kube-eventbridge/integration/internal/rig"
	"github.com/kube-eventbridge/kube-eventbridge/internal/event"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
	"github.com/kube-eventbridge/kube-eventbridge/internal/replica"
	"github.com/kube-eventbridge/kube-eventbridge/internal/replica/clean"
	"github.com/kube-eventbridge/kube-eventbridge/internal/replica/guard"
	"github.com/kube-eventbridge/kube-eventbridge/internal/replica/plan"
	"github.com/kube-eventbridge/kube-eventbridge/internal/replica/replicatest"
	"github.com/kube-eventbridge/kube-eventbridge/internal/replica/selection"
	"github.com/kube-eventbridge/kube-eventbridge/internal/sequence"
)

// written is a log that a test writes, and a target.
type written struct {
	clusters
	log *replicatest.Log
	ns  string
}

func is(ns, name, value string, epoch, version uint64) replicatest.Event {
	return replicatest.Event{
		Op: event.Updated, Namespace: ns, Name: name, UID: "uid-" + name, Value: value,
		Sequence: sequence.Sequence{Epoch: epoch, Version: version},
	}
}

func ended(ns, name string, version uint64) replicatest.Event {
	e := is(ns, name, "", 1, version)
	e.Op, e.Step = event.Deleted, 1
	return e
}

// run replicates from the log that the test writes.
func (w *written) run(change func(*replica.Config)) (*replica.Replica, func()) {
	w.t.Helper()
	cfg := w.replicaConfig(w.ns, w.entry("", "configmaps", clean.Config{}, w.ns))
	cfg.OpenLog = func(bool) (replica.Log, error) { return w.log, nil }
	if change != nil {
		change(&cfg)
	}
	return w.replicate(cfg)
}

// TestReplica_of_a_log_that_is_written_by_hand has cases that a bridge shows rarely.
func TestReplica_of_a_log_that_is_written_by_hand(t *testing.T) {
	target := controlplane.ForTest(t, controlplane.Config{})
	to := must.Get(kubernetes.NewForConfig(target.RESTConfig()))(t)
	n := 0
	for name, test := range map[string]func(*written){
		"a detached copy that goes is made again":           detachedCopyGoes,
		"who deletes a copy again and again wins":           deletesAgain,
		"an object that was contested is made again":        contestedIsMadeAgain,
		"two replicas that adopt do not fight":              adoptersFight,
		"a field that another manager gives up is written":  fieldGivenUp,
		"a namespace that ends and comes back":              namespaceComesBack,
		"a resync prunes what it does not tell":             resyncPrunes,
		"a log that is replaced is read from its beginning": logReplaced,
		"a copy goes if what has its name is left out":      leftOutHasName,
		"a late write of another process is undone":         lateWrite,
		"a comparison tells what a replica would do":        comparison,
		"a gap holds all, and a restart too":                gapHolds,
	} {
		t.Run(name, func(t *testing.T) {
			n++
			ns := fmt.Sprintf("h%d", n)
			namespace(t, to, ns)
			test(&written{clusters: clusters{t: t, target: target, to: to}, log: &replicatest.Log{}, ns: ns})
		})
	}
}

func (w *written) patch(name, patch string) {
	w.t.Helper()
	_, err := w.to.CoreV1().ConfigMaps(w.ns).Patch(w.t.Context(), name, types.MergePatchType, []byte(patch),
		metav1.PatchOptions{})
	require.NoError(w.t, err)
}

func detachedCopyGoes(w *written) {
	w.log.Append(is(w.ns, "a", "1", 1, 10))
	r, _ := w.run(nil)
	awaitValues(w.t, w.to, w.ns, "a=1")
	w.patch("a", `{"metadata":{"labels":{"kube-eventbridge.io/replica":null}}}`)
	parked(w.t, r, "detached", 1)
	remove(w.t, w.to, w.ns, "a")
	awaitValues(w.t, w.to, w.ns, "a=1")
	parked(w.t, r, "detached", 0)
}

func deletesAgain(w *written) {
	w.log.Append(is(w.ns, "a", "1", 1, 10))
	r, _ := w.run(nil)
	for range 3 {
		awaitValues(w.t, w.to, w.ns, "a=1")
		settled(w.t, r)
		rig.Poll(w.t, "a copy that is accepted", func() (bool, string) { s, _ := r.Status(); return s.Objects == 1, "" })
		remove(w.t, w.to, w.ns, "a")
	}
	parked(w.t, r, "contested", 1)
	w.log.Append(ended(w.ns, "a", 11))
	parked(w.t, r, "contested", 0)
}

func contestedIsMadeAgain(w *written) {
	w.log.Append(is(w.ns, "c", "1", 1, 10))
	r, _ := w.run(func(c *replica.Config) { c.Force = true })
	awaitValues(w.t, w.to, w.ns, "c=1")
	for range 3 {
		settled(w.t, r)
		create(w.t, w.to, w.ns, "c=theirs")
		awaitValues(w.t, w.to, w.ns, "c=1")
	}
	settled(w.t, r)
	e := is(w.ns, "c", "2", 1, 20)
	e.UID = "another"
	w.log.Append(ended(w.ns, "c", 19), e)
	awaitValues(w.t, w.to, w.ns, "c=2")
}

func adoptersFight(w *written) {
	w.log.Append(is(w.ns, "a", "1", 1, 10))
	adopts := func(cfg *replica.Config) { cfg.Existing, cfg.Force = plan.Adopt, true }
	one, _ := w.run(adopts)
	other := *w
	other.log = &replicatest.Log{}
	other.log.Append(is(w.ns, "a", "1", 1, 10))
	two, _ := other.run(func(cfg *replica.Config) {
		adopts(cfg)
		rules := cfg.Entries[0].Rules.Config
		cfg.Name, rules.Replica = "other-"+w.ns, "other-"+w.ns
		cfg.Entries[0].Rules = must.Get(clean.New(rules))(w.t)
	})
	rig.Poll(w.t, "one that gives up", func() (bool, string) {
		a, _ := one.Status()
		b, _ := two.Status()
		return a.Parked["contested"]+b.Parked["contested"] > 0, fmt.Sprintf("%+v %+v", a, b)
	})
}

func fieldGivenUp(w *written) {
	w.log.Append(is(w.ns, "a", "1", 1, 10))
	r, _ := w.run(nil)
	awaitValues(w.t, w.to, w.ns, "a=1")
	apply := func(data string) {
		_, err := w.to.CoreV1().ConfigMaps(w.ns).Patch(w.t.Context(), "a", types.ApplyPatchType, []byte(
			`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{`+data+`}}`),
			metav1.PatchOptions{FieldManager: "other", Force: new(true)})
		require.NoError(w.t, err)
	}
	settled(w.t, r)
	apply(`"value":"theirs"`)
	w.log.Append(is(w.ns, "a", "2", 1, 11))
	settled(w.t, r)
	awaitValues(w.t, w.to, w.ns, "a=theirs")
	apply(`"more":"x"`)
	awaitValues(w.t, w.to, w.ns, "a=2")
}

func namespaceComesBack(w *written) {
	w.log.Append(is(w.ns, "a", "1", 1, 10))
	r, _ := w.run(nil)
	awaitValues(w.t, w.to, w.ns, "a=1")
	w.patch("a", `{"metadata":{"finalizers":["example.com/wait"]}}`)
	require.NoError(w.t, w.to.CoreV1().Namespaces().Delete(w.t.Context(), w.ns, metav1.DeleteOptions{}))
	require.NoError(w.t, w.to.CoreV1().ConfigMaps(w.ns).Delete(w.t.Context(), "a", metav1.DeleteOptions{}))
	parked(w.t, r, "terminating", 1)
	w.patch("a", `{"metadata":{"finalizers":null}}`)
	parked(w.t, r, "no-namespace", 1)
	// No controller runs that ends a namespace.
	ns := must.Get(w.to.CoreV1().Namespaces().Get(w.t.Context(), w.ns, metav1.GetOptions{}))(w.t)
	ns.Spec.Finalizers = nil
	_, err := w.to.CoreV1().Namespaces().Finalize(w.t.Context(), ns, metav1.UpdateOptions{})
	require.NoError(w.t, err)
	namespace(w.t, w.to, w.ns)
	awaitValues(w.t, w.to, w.ns, "a=1")
}

func resyncPrunes(w *written) {
	w.log.Append(is(w.ns, "a", "1", 1, 10), is(w.ns, "b", "1", 1, 10))
	r, stop := w.run(nil)
	awaitValues(w.t, w.to, w.ns, "a=1 b=1")
	settled(w.t, r)
	stop()
	w.log.Remove(1, 2)
	marker := replicatest.Event{Op: event.ResyncStarted, Data: `{"n":1}`}
	w.log.Append(marker, is(w.ns, "a", "1", 1, 10))
	marker.Op, marker.Data = event.ResyncCompleted, `{"n":1,"complete":true}`
	w.log.Append(marker)
	w.run(nil)
	awaitValues(w.t, w.to, w.ns, "a=1")
}

func logReplaced(w *written) {
	w.log.Append(is(w.ns, "a", "1", 1, 10), is(w.ns, "b", "1", 1, 11))
	r, _ := w.run(nil)
	awaitValues(w.t, w.to, w.ns, "a=1 b=1")
	w.log.Replace(is(w.ns, "b", "0", 1, 9), is(w.ns, "c", "1", 1, 12))
	awaitValues(w.t, w.to, w.ns, "a=1 b=1 c=1")
	settled(w.t, r)
	w.log.Replace()
	settled(w.t, r)
	assert.Equal(w.t, "a=1 b=1 c=1", values(w.t, w.to, w.ns))
}

func leftOutHasName(w *written) {
	w.log.Append(is(w.ns, "a", "1", 1, 10), is(w.ns, "b", "1", 1, 11))
	r, _ := w.run(nil)
	awaitValues(w.t, w.to, w.ns, "a=1 b=1")
	settled(w.t, r)
	for i, name := range []string{"a", "b"} {
		e := is(w.ns, name, "2", 1, uint64(20+i))
		if name == "a" {
			e.UID = "another"
		}
		e.Data = fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":%q,"namespace":%q,"uid":%q,`+
			`"ownerReferences":[{"apiVersion":"v1","kind":"Owner","name":"o","uid":"u","controller":true}]}}`, name, w.ns, e.UID)
		w.log.Append(e)
	}
	awaitValues(w.t, w.to, w.ns, "b=1")
	parked(w.t, r, "left-out", 2)
	assert.Empty(w.t, w.compared(nil))
}

// copyOf is what a replica writes.
func (w *written) copyOf(name, value string, version uint64) *corev1.ConfigMap {
	m := configMap(name, value)
	m.APIVersion, m.Kind = "v1", "ConfigMap"
	m.Labels = map[string]string{clean.Label: w.ns}
	m.Annotations = map[string]string{
		clean.Origin: "east/core/configmaps/" + w.ns + "/" + name, clean.OriginUID: "uid-" + name,
		clean.OriginSequence: sequence.Sequence{Epoch: 1, Version: version}.String(),
	}
	return m
}

func lateWrite(w *written) {
	w.log.Append(is(w.ns, "a", "1", 1, 10), ended(w.ns, "a", 11), is(w.ns, "b", "2", 1, 11))
	r, _ := w.run(nil)
	awaitValues(w.t, w.to, w.ns, "b=2")
	settled(w.t, r)
	for _, name := range []string{"a", "b"} {
		body := must.Get(json.Marshal(w.copyOf(name, "1", 10)))(w.t)
		_, err := w.to.CoreV1().ConfigMaps(w.ns).Patch(w.t.Context(), name, types.ApplyPatchType, body,
			metav1.PatchOptions{FieldManager: "kube-eventbridge"})
		require.NoError(w.t, err)
	}
	rig.Poll(w.t, "the newest state", func() (bool, string) {
		got := values(w.t, w.to, w.ns)
		return got == "b=2", got + fmt.Sprint(r.Waiting(100))
	})
}

func gapHolds(w *written) {
	w.log.Append(is(w.ns, "a", "1", 1, 10))
	r, stop := w.run(nil)
	awaitValues(w.t, w.to, w.ns, "a=1")
	settled(w.t, r)
	w.log.Append(replicatest.Event{Op: event.Gap, Data: `{"cause":"restored","epoch":7}`},
		is(w.ns, "a", "0", 7, 5), is(w.ns, "new", "1", 7, 6))
	held := func(r *replica.Replica) {
		rig.Poll(w.t, "a replica that is held", func() (bool, string) {
			s, _ := r.Status()
			return s.HeldEpoch == 7 && s.CaughtUp, fmt.Sprintf("%+v", s)
		})
	}
	held(r)
	stop()
	r, _ = w.run(nil)
	held(r)
	assert.Equal(w.t, "a=1", values(w.t, w.to, w.ns))
	require.NoError(w.t, r.Resume(w.t.Context()))
	awaitValues(w.t, w.to, w.ns, "a=0 new=1")
}

// An etcd of the target that was restored has copies of what was deleted since.
func TestReplica_of_a_target_that_was_restored(t *testing.T) {
	target := controlplane.ForTest(t, controlplane.Config{})
	to := must.Get(kubernetes.NewForConfig(target.RESTConfig()))(t)
	namespace(t, to, "shop")
	w := &written{clusters: clusters{t: t, target: target, to: to}, log: &replicatest.Log{}, ns: "shop"}
	w.log.Append(is("shop", "a", "1", 1, 10), is("shop", "b", "1", 1, 11))
	r, _ := w.run(func(cfg *replica.Config) { cfg.Remember = 2 * time.Second })
	awaitValues(t, to, "shop", "a=1 b=1")
	snapshot := filepath.Join(t.TempDir(), "snapshot")
	require.NoError(t, target.Snapshot(t.Context(), snapshot))
	longAgo := ended("shop", "a", 12)
	longAgo.At = time.Now().Add(-2 * guard.Window)
	w.log.Append(longAgo, is("shop", "b", "2", 1, 13))
	awaitValues(t, to, "shop", "b=2")
	rig.Poll(t, "an end that is forgotten", func() (bool, string) {
		s, _ := r.Status()
		return s.Keys == 1, fmt.Sprintf("%+v", s)
	})
	require.NoError(t, target.Restore(t.Context(), snapshot, false))
	awaitValues(t, to, "shop", "b=2")
}

// A definition is made, deleted, and made again with another version.
func TestReplica_of_a_resource_that_the_target_serves_at_times(t *testing.T) {
	target := controlplane.ForTest(t, controlplane.Config{})
	to := must.Get(kubernetes.NewForConfig(target.RESTConfig()))(t)
	namespace(t, to, "shop")
	w := &written{clusters: clusters{t: t, target: target, to: to}, log: &replicatest.Log{}, ns: "shop"}
	w.log.Append(widget("v1", "1", 10))
	r, _ := w.run(func(cfg *replica.Config) {
		cfg.Entries = []selection.Entry{w.entry("example.com", "widgets", clean.Config{}, "shop")}
		rules := cfg.Entries[0].Rules.Config
		rules.Replica = cfg.Name
		cfg.Entries[0].Rules = must.Get(clean.New(rules))(t)
	})
	parked(t, r, "no-resource", 1)
	client := must.Get(dynamic.NewForConfig(target.RESTConfig()))(t)
	definitions := client.Resource(schema.GroupVersionResource{
		Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions",
	})
	for i, version := range []string{"v1", "v2"} {
		gvr := schema.GroupVersionResource{Group: "example.com", Version: version, Resource: "widgets"}
		require.NoError(t, crd.Install(t.Context(), target.RESTConfig(), crd.Define(gvr, "Widget")))
		w.log.Append(widget(version, "1", uint64(20+i)))
		widgets := client.Resource(gvr).Namespace("shop")
		made := func() {
			rig.Poll(t, "a widget in "+version, func() (bool, string) {
				_, err := widgets.Get(t.Context(), "w", metav1.GetOptions{})
				return err == nil, fmt.Sprint(err, r.Waiting(100))
			})
		}
		made()
		settled(t, r)
		if version == "v1" {
			require.NoError(t, definitions.Delete(t.Context(), "widgets.example.com", metav1.DeleteOptions{}))
			parked(t, r, "no-resource", 1)
			continue
		}
		require.NoError(t, widgets.Delete(t.Context(), "w", metav1.DeleteOptions{}))
		made() // so it is read in this version
	}
}

func widget(version, value string, at uint64) replicatest.Event {
	e := is("shop", "w", value, 1, at)
	e.More = map[string]string{
		"source": "/clusters/east/apis/example.com/" + version + "/widgets", "apiversion": "example.com/" + version,
		"kind": "Widget", "resource": "widgets",
	}
	e.Data = fmt.Sprintf(`{"apiVersion":"example.com/%s","kind":"Widget","data":{"value":%q},`+
		`"metadata":{"name":"w","namespace":"shop","uid":"uid-w"}}`, version, value)
	return e
}

// compared returns what a dry run tells.
func (w *written) compared(change func(*replica.Config)) (all []string) {
	w.t.Helper()
	cfg := w.replicaConfig(w.ns, w.entry("", "configmaps", clean.Config{}, w.ns))
	cfg.OpenLog = func(bool) (replica.Log, error) { return w.log, nil }
	if change != nil {
		change(&cfg)
	}
	ctx, cancel := context.WithTimeout(w.t.Context(), time.Minute)
	defer cancel()
	require.NoError(w.t, replica.New(cfg).Compare(ctx, func(d replica.Difference) error {
		all = append(all, strings.TrimSpace(fmt.Sprint(d.Do, " ", d.Name, " ", d.Why)))
		return nil
	}))
	require.NoError(w.t, ctx.Err())
	slices.Sort(all)
	return all
}

func comparison(w *written) {
	w.log.Append(is(w.ns, "a", "1", 1, 10), is(w.ns, "theirs", "1", 1, 10))
	create(w.t, w.to, w.ns, "theirs=0")
	assert.Equal(w.t, []string{"create a", "wait theirs exists"}, w.compared(nil))
	r, stop := w.run(nil)
	awaitValues(w.t, w.to, w.ns, "a=1 theirs=0")
	settled(w.t, r)
	stop()
	assert.Equal(w.t, []string{"wait theirs exists"}, w.compared(nil))
	w.log.Append(replicatest.Event{Op: event.ResyncStarted, Data: `{"n":1}`},
		replicatest.Event{Op: event.ResyncCompleted, Data: `{"n":1,"complete":true}`})
	assert.Equal(w.t, []string{"delete a"}, w.compared(nil))
	assert.Equal(w.t, []string{"delete a held"}, w.compared(func(cfg *replica.Config) { cfg.Limit = guard.Limit{} }))
	w.log.Append(replicatest.Event{Op: event.Gap, Data: `{"cause":"rebuilt","epoch":7}`}, is(w.ns, "b", "1", 7, 1))
	assert.Equal(w.t, []string{"wait a held-epoch", "wait b held-epoch"}, w.compared(nil))
}
