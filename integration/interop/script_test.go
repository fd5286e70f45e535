// SPDX-License-Identifier: Apache-2.0

package interop

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"regexp"
	"strconv"
	"strings"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kube-eventbridge/kube-eventbridge/integration/internal/rig"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
)

// What is hard to carry: text beyond ASCII and beyond 16 bits, quotes, what JSON, HTML, URLs and headers escape, and
// line ends.
const hard = "Grüße, \u4e16\u754c \U0001F680 \"quoted\" 'single' \\ back / <&> 100% a+b \t tab\nline \u2028 " +
	"separator, end"

// manager is the name of a field manager, which is in an attribute. Nothing else that users choose there goes beyond
// ASCII.
const manager = `Käpt'n 100% "ok" + 世界`

// plain is a ConfigMap with a value.
func plain(name, value string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string]string{"value": value}}
}

// settings is a ConfigMap that is hard to carry.
func settings() *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{
			Name: "settings.v1.example", Annotations: map[string]string{"example.com/note": hard},
			Labels: map[string]string{"app": "interop"},
		},
		Data:       map[string]string{"motd.txt": hard, "empty": ""},
		BinaryData: map[string][]byte{"bytes": {0, 1, 0xfe, 0xff}},
	}
}

// noise is a ConfigMap that no broker takes: 1.2 MB that cannot be compressed.
func noise(name string) *corev1.ConfigMap {
	bytes := make([]byte, 900_000)
	random := rand.NewChaCha8([32]byte{})
	_, _ = random.Read(bytes) // it does not fail
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, BinaryData: map[string][]byte{"noise": bytes}}
}

// before makes what exists when the bridge starts.
func (r *world) before() {
	r.t.Helper()
	for _, name := range []string{namespace, apart} {
		_, err := r.kube.CoreV1().Namespaces().Create(r.t.Context(),
			&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
		require.NoError(r.t, err)
	}
	r.create(namespace, plain("was-there-before", hard))
}

func (r *world) create(namespace string, c *corev1.ConfigMap) {
	r.t.Helper()
	_, err := r.kube.CoreV1().ConfigMaps(namespace).Create(r.t.Context(), c, metav1.CreateOptions{FieldManager: manager})
	require.NoError(r.t, err)
}

func (r *world) patch(namespace, name, key, value string) {
	r.t.Helper()
	patch := merge(r, "data", key, value)
	_, err := r.kube.CoreV1().ConfigMaps(namespace).Patch(r.t.Context(), name, types.MergePatchType, patch,
		metav1.PatchOptions{FieldManager: manager})
	require.NoError(r.t, err)
}

func (r *world) remove(namespace, name string) {
	r.t.Helper()
	require.NoError(r.t, r.kube.CoreV1().ConfigMaps(namespace).Delete(r.t.Context(), name, metav1.DeleteOptions{}))
}

func merge(r *world, member, key, value string) []byte {
	r.t.Helper()
	return must.Get(json.Marshal(map[string]any{member: map[string]string{key: value}}))(r.t)
}

// play changes things, one after the other.
func (r *world) play(w *truth) {
	r.t.Helper()
	r.create(namespace, settings())
	r.patch(namespace, "settings.v1.example", "motd.txt", "now "+hard)
	r.create(namespace, plain("large", strings.Repeat("ß 0123456789 ", 60_000))) // 840 KB, below what brokers take
	// 1.2 MB in JSON, above; Kafka gets it compressed.
	r.create(namespace, plain("larger", strings.Repeat(`"`, 600_000)))
	r.create(namespace, noise("too-large"))
	r.secret()
	r.fold(w)
	r.remove(namespace, "settings.v1.example")
	r.create(namespace, settings()) // another one of this name
	r.patch(namespace, "was-there-before", "value", "the last change")
}

// secret makes a Secret and changes it.
func (r *world) secret() {
	r.t.Helper()
	secrets := r.kube.CoreV1().Secrets(namespace)
	_, err := secrets.Create(r.t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "login"}, StringData: map[string]string{"password": hard, "user": "root"},
	}, metav1.CreateOptions{FieldManager: "interop"})
	require.NoError(r.t, err)
	_, err = secrets.Patch(r.t.Context(), "login", types.MergePatchType, merge(r, "stringData", "password", "changed"),
		metav1.PatchOptions{FieldManager: "interop"})
	require.NoError(r.t, err)
}

// fold changes an object without a namespace while no broker answers, so that some events stand for several changes.
func (r *world) fold(w *truth) {
	r.t.Helper()
	classes := r.kube.SchedulingV1().PriorityClasses()
	must.Get(classes.Create(r.t.Context(), &schedulingv1.PriorityClass{
		ObjectMeta: metav1.ObjectMeta{Name: "urgent.example.com"}, Value: 1_000_000, Description: hard,
	}, metav1.CreateOptions{FieldManager: "interop"}))(r.t)
	require.NoError(r.t, r.kafka.Pause(0))
	r.nats.Stop()
	r.describe(w, 5)
	rig.Try(r.t, "changes to wait in the bridge", func() error { return allWait(r.bridge.Metrics()) })
	r.describe(w, 5)
	require.NoError(r.t, r.nats.Start())
	require.NoError(r.t, r.kafka.Resume(0))
	require.NoError(r.t, classes.Delete(r.t.Context(), "urgent.example.com", metav1.DeleteOptions{}))
	w.has(r.t, "deleted", "urgent.example.com", "")
}

// describe changes the object n times, and waits until a plain watch has seen it.
func (r *world) describe(w *truth, n int) {
	r.t.Helper()
	version := ""
	for i := range n {
		patch := fmt.Appendf(nil, `{"description":"change %d"}`, i)
		o, err := r.kube.SchedulingV1().PriorityClasses().Patch(r.t.Context(), "urgent.example.com", types.MergePatchType,
			patch, metav1.PatchOptions{FieldManager: "interop"})
		require.NoError(r.t, err)
		version = o.ResourceVersion
	}
	w.has(r.t, "updated", "urgent.example.com", version)
}

var buffered = regexp.MustCompile(`(?m)^kube_eventbridge_buffered_events\{pipeline="([^"]+)"\} (\S+)$`)

// allWait returns an error until each of the four pipelines has something that waits. On a busy machine that may be all
// changes in one: what comes next is folded in any case.
func allWait(metrics string) error {
	waiting := map[string]bool{}
	for _, found := range buffered.FindAllStringSubmatch(metrics, -1) {
		n, err := strconv.ParseFloat(found[2], 64)
		waiting[found[1]] = err == nil && n >= 1
	}
	for _, log := range logs {
		if !waiting[log] {
			return fmt.Errorf("%s has nothing that waits: %v", log, waiting)
		}
	}
	return nil
}
