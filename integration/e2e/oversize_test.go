// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/kube-eventbridge/kube-eventbridge/integration/controlplane"
	"github.com/kube-eventbridge/kube-eventbridge/integration/internal/rig"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
)

// Brokers take 1 MB.
const maxPayload = 1 << 20

func TestBridge_publishes_what_is_too_large_for_NATS_without_its_object(t *testing.T) {
	t.Parallel()
	r := rigOn(t, controlplane.ForTest(t, controlplane.Config{}), watched)
	r.configureSink(watched, fmt.Sprintf(`oversize: metadata
    sink: {nats: {servers: [%q]}}`, r.broker.url()))
	log := r.largeObjects(maxPayload)
	for _, e := range log {
		if size := e.header.Get("ce-datasize"); size != "" && e.header.Get("ce-payload") != "metadata" {
			t.Errorf("%s lacks %s bytes, and its payload is %s", e.id, size, e.header.Get("ce-payload"))
		}
	}
	mustBeUnique(t, log)
}

func TestBridge_keeps_what_is_too_large_in_the_object_store_of_NATS(t *testing.T) {
	t.Parallel()
	r := rigOn(t, controlplane.ForTest(t, controlplane.Config{}), watched)
	r.configureSink(watched, fmt.Sprintf(`oversize: store
    sink: {nats: {servers: [%q], maxAge: 24h}}`, r.broker.url()))
	log := r.largeObjects(maxPayload)
	mustBeUnique(t, log)
	store := must.Get(r.js.ObjectStore(t.Context(), "KUBERNETES-objects"))(t)
	status := must.Get(store.Status(t.Context()))(t)
	assert.Equal(t, 24*time.Hour, status.TTL(), "objects are kept")
	for _, e := range log {
		ref, size := e.attribute("dataref"), e.attribute("datasize")
		name, found := strings.CutPrefix(ref, "nats-obj:KUBERNETES-objects/")
		switch {
		case size == "" && ref == "":
			continue
		case !found || name != e.header.Get("Nats-Msg-Id"):
			t.Errorf("%s of %s refers to %q", e.op, e.key, ref)
			continue
		}
		whole := must.Get(store.GetBytes(t.Context(), name))(t)
		var object corev1.ConfigMap
		require.NoError(t, json.Unmarshal(whole, &object))
		held := len(object.BinaryData["x"]) + len(object.Data["x"])
		if strconv.Itoa(len(whole)) != size || object.ResourceVersion != e.rv || string(object.UID) != e.uid ||
			held < 500_000 || len(object.ManagedFields) > 0 {
			t.Errorf("%s of %s: of %s bytes %d are kept, version %s, %d of them what it holds", e.op, e.key, size, len(whole),
				object.ResourceVersion, held)
		}
	}
	objects := must.Get(store.List(t.Context()))(t)
	assert.Len(t, objects, 5, "objects are kept, want 5")
}

// A custom resource is in etcd as JSON, and etcd takes 1.5 MB; kube-apiserver's client of it sends at most 2 MiB,
// whatever etcd is told to take.
func TestBridge_keeps_a_custom_resource_that_is_too_large_in_Knatives_profile(t *testing.T) {
	rig.Parallel(t, rig.All)
	api := controlplane.ForTest(t, controlplane.Config{})
	r := rigOn(t, api, watched)
	r.configureSink(`[{resource: widgets.example.com}]`, fmt.Sprintf(`oversize: store
    encoding: {mode: structured, profile: knative}
    sink: {nats: {servers: [%q]}}`, r.broker.url()))
	c := r.custom()
	c.define("widgets", "v1")
	r.run()
	r.poll("the snapshot", func() (bool, string) { return len(r.messages()) >= 2, "" })
	text := strings.Repeat("0123456789", 140_000)
	_, err := c.of("widgets", "v1").Create(t.Context(), &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "example.com/v1", "kind": "Widget", "metadata": map[string]any{"name": "w"},
		"spec": map[string]any{"text": text},
	}}, metav1.CreateOptions{})
	require.NoError(t, err)
	var event struct {
		Type, Payload, Dataref string
		Datasize               int
		Data                   map[string]any
	}
	// An API server may begin to serve a new resource once more, so that there is a gap before it, or behind it.
	r.poll("the widget", func() (bool, string) {
		all := r.messages()
		marker := []byte(`"payload":"marker"`)
		i := slices.IndexFunc(all, func(m rig.Message) bool { return !bytes.Contains(m.Data, marker) })
		if i >= 0 {
			require.NoError(t, json.Unmarshal(all[i].Data, &event))
		}
		return i >= 0, fmt.Sprintf("there are %d messages", len(all))
	})
	r.bridge.stop()
	assert.True(t, event.Type == "dev.knative.apiserver.resource.add" && event.Payload == "metadata" &&
		event.Data["spec"] == nil && event.Data["metadata"] != nil, "the event is %+v", event)
	store := must.Get(r.js.ObjectStore(t.Context(), "KUBERNETES-objects"))(t)
	whole := must.Get(store.GetBytes(t.Context(), strings.TrimPrefix(event.Dataref, "nats-obj:KUBERNETES-objects/")))(t)
	var object unstructured.Unstructured
	require.NoError(t, json.Unmarshal(whole, &object.Object))
	if got, _, _ := unstructured.NestedString(object.Object, "spec", "text"); got != text || len(whole) != event.Datasize {
		t.Errorf("%d bytes are kept, %d of them its text, of %d", len(whole), len(got), event.Datasize)
	}
}

// largeObjects has a bridge that is killed publish small and large ConfigMaps, and checks that those larger than limit,
// and they alone, are in the log without what they hold.
func (r *fixture) largeObjects(limit int) []entry {
	r.t.Helper()
	r.configMap("default", "small", nil)
	r.large("listed", 1<<20)
	r.run()
	r.awaitStory("default/listed", "added")
	r.large("base64", 1<<20)
	r.huge("escaped", 500_000)
	r.awaitStory("default/base64", "added")
	r.awaitStory("default/escaped", "added")
	r.bridge.kill()
	r.patch("default", "base64", `{"metadata":{"labels":{"a":"b"}}}`)
	r.run()
	r.patch("default", "base64", `{"binaryData":null}`)
	r.remove("default", "escaped")
	r.awaitStory("default/base64", "added updated updated")
	log := r.awaitStory("default/escaped", "added deleted")
	r.awaitStatus(http.StatusOK, "ok")
	r.bridge.stop()
	without := 0
	for _, e := range log {
		if e.uid == "" {
			continue
		}
		var data map[string]json.RawMessage
		require.NoError(r.t, json.Unmarshal(e.data, &data))
		size, _ := strconv.Atoi(e.attribute("datasize"))
		_, whole := data["binaryData"]
		assert.True(r.t, !whole && data["data"] == nil, "%s of %s has what it holds", e.op, e.key)
		small := e.key == "default/small" || e.key == "default/base64" && e.op == "updated" && size == 0
		switch {
		case e.op == "rejected" || data["metadata"] == nil || !bytes.Contains(data["metadata"], []byte(e.uid)):
			r.t.Errorf("%s of %s is %.200s", e.op, e.key, e.data)
		case small != (size == 0), size != 0 && size < limit:
			r.t.Errorf("%s of %s lacks %d bytes", e.op, e.key, size)
		case size != 0:
			without++
		}
	}
	assert.Equal(r.t, 5, without, "events lack their objects, want 5")
	return log
}

// large makes a ConfigMap of n bytes that cannot be compressed; the API server shows them as base64.
func (r *fixture) large(name string, n int) {
	r.t.Helper()
	random, content := rand.NewPCG(1, 2), make([]byte, n)
	for i := range content {
		content[i] = byte(random.Uint64())
	}
	must.Get(r.kube.CoreV1().ConfigMaps("default").Create(r.t.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: name}, BinaryData: map[string][]byte{"x": content},
	}, metav1.CreateOptions{}))(r.t)
}

// huge makes a ConfigMap of n bytes that JSON shows as six times as many: etcd keeps it as it came, and takes no more
// than 1.5 MB.
func (r *fixture) huge(name string, n int) {
	r.t.Helper()
	cfg := rest.CopyConfig(r.api.RESTConfig())
	cfg.ContentType = runtime.ContentTypeProtobuf
	kube := must.Get(kubernetes.NewForConfig(cfg))(r.t)
	random, content := rand.NewPCG(3, 4), make([]byte, n)
	for i := range content {
		content[i] = 0x0e + byte(random.Uint64()%18)
	}
	must.Get(kube.CoreV1().ConfigMaps("default").Create(r.t.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string]string{"x": string(content)},
	}, metav1.CreateOptions{}))(r.t)
}

// What counts there is a record's size when it is compressed.
func TestBridge_publishes_what_is_too_large_for_Kafka_without_its_object(t *testing.T) {
	rig.Parallel(t, rig.All)
	r := newKafkaRig(t, watched)
	r.configureSink(watched, fmt.Sprintf(`oversize: metadata
    sink: {kafka: {brokers: ["%s"], topic: %s, create: {partitions: 3, replicas: 1, settings: {max.message.bytes: 100000}}}}
    checkpoint: {kafka: {topic: %[2]s-checkpoints}}`, strings.Join(r.kafka.cluster.Addresses(), `", "`), r.kafka.topic))
	log := r.largeObjects(maxPayload)
	ids := map[string]bool{}
	for _, e := range log {
		assert.False(t, ids[e.id], "%s is in the log twice", e.id)
		ids[e.id] = true
	}
}
