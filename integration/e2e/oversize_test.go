// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/kube-eventbridge/kube-eventbridge/integration/controlplane"
)

// Brokers take 1 MB.
const maxPayload = 1 << 20

func TestBridge_publishes_what_is_too_large_for_NATS_without_its_object(t *testing.T) {
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

// largeObjects has a bridge that is killed publish small and large ConfigMaps, and checks that those larger than limit, and they alone, are in the log
// without what they hold.
func (r *rig) largeObjects(limit int) []entry {
	r.t.Helper()
	r.configMap("default", "small", nil)
	r.large("listed", 1<<20)
	r.run()
	r.awaitStory("default/listed", "added")
	r.large("base64", 1<<20)
	r.huge("escaped", 500_000)
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
		must(r.t, json.Unmarshal(e.data, &data))
		size, _ := strconv.Atoi(e.attribute("datasize"))
		if _, whole := data["binaryData"]; whole || data["data"] != nil {
			r.t.Errorf("%s of %s has what it holds", e.op, e.key)
		}
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
	if without != 5 {
		r.t.Errorf("%d events lack their objects, want 5", without)
	}
	return log
}

// large makes a ConfigMap of n bytes that cannot be compressed; the API server shows them as base64.
func (r *rig) large(name string, n int) {
	r.t.Helper()
	random, content := rand.NewPCG(1, 2), make([]byte, n)
	for i := range content {
		content[i] = byte(random.Uint64())
	}
	_, err := r.kube.CoreV1().ConfigMaps("default").Create(r.t.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: name}, BinaryData: map[string][]byte{"x": content},
	}, metav1.CreateOptions{})
	must(r.t, err)
}

// huge makes a ConfigMap of n bytes that JSON shows as six times as many: etcd keeps it as it came, and takes no more than 1.5 MB.
func (r *rig) huge(name string, n int) {
	r.t.Helper()
	cfg := rest.CopyConfig(r.api.RESTConfig())
	cfg.ContentType = runtime.ContentTypeProtobuf
	kube, err := kubernetes.NewForConfig(cfg)
	must(r.t, err)
	random, content := rand.NewPCG(3, 4), make([]byte, n)
	for i := range content {
		content[i] = 0x0e + byte(random.Uint64()%18)
	}
	_, err = kube.CoreV1().ConfigMaps("default").Create(r.t.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string]string{"x": string(content)},
	}, metav1.CreateOptions{})
	must(r.t, err)
}

// What counts there is a record's size when it is compressed.
func TestBridge_publishes_what_is_too_large_for_Kafka_without_its_object(t *testing.T) {
	r := newKafkaRig(t, 1)
	r.configureSink(watched, fmt.Sprintf(`oversize: metadata
    sink: {kafka: {brokers: ["%s"], create: {partitions: 3, replicas: 1, settings: {max.message.bytes: 100000}}}}
    checkpoint: {kafka: {}}`, strings.Join(r.kafka.cluster.Addresses(), `", "`)))
	log := r.largeObjects(maxPayload)
	ids := map[string]bool{}
	for _, e := range log {
		if ids[e.id] {
			t.Errorf("%s is in the log twice", e.id)
		}
		ids[e.id] = true
	}
}
