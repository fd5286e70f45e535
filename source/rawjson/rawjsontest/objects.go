// SPDX-License-Identifier: Apache-2.0

// Package rawjsontest makes JSON as API servers write it.
package rawjsontest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	serializer "k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apimachinery/pkg/types"
)

// Hostile are strings that break scanners which look at single characters.
var Hostile = []string{
	``, `"`, `\`, `\\`, `\"`, `\\\"`, `}`, `{`, `}}`, `{{`, `]`, `[`, `"}}`, `}}` + "\n", "\n", "\r\n", "\t", "\x00",
	`,"name":"evil"`,
	`"metadata":{"name":"evil","uid":"evil","resourceVersion":"evil"}`, `{"type":"DELETED","object":{}}`, `</script>&<>`,
	"\u2028\u2029", "日本語", "😀", "\ufffd", strings.Repeat(`\`, 33), strings.Repeat(`"`, 33), `\u0022`, `\ud83d`,
}

// Codec is what an API server encodes JSON with.
func Codec(streaming bool) *serializer.Serializer {
	return serializer.NewSerializerWithOptions(serializer.DefaultMetaFactory, nil, nil,
		serializer.SerializerOptions{StreamingCollectionsEncoding: streaming})
}

// ServerObject encodes an object as an API server does.
func ServerObject(t testing.TB, obj runtime.Object) []byte {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, Codec(false).Encode(obj, &b))
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// ServerFrame encodes a watch event as an API server does: the encoded object within an event that is encoded again.
func ServerFrame(t testing.TB, kind string, obj runtime.Object) []byte {
	t.Helper()
	var object, event bytes.Buffer
	require.NoError(t, Codec(false).Encode(obj, &object))
	e := &metav1.WatchEvent{Type: kind, Object: runtime.RawExtension{Raw: object.Bytes()}}
	require.NoError(t, Codec(false).Encode(e, &event))
	return event.Bytes()
}

// Pod is a pod of 6.8 KB, 2 KB of them managedFields.
func Pod(n int) *corev1.Pod {
	name := fmt.Sprintf("web-7d4b9c6f5d-%05d", n)
	now := metav1.NewTime(time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC))
	pod := &corev1.Pod{
		TypeMeta: metav1.TypeMeta{Kind: "Pod", APIVersion: "v1"},
		ObjectMeta: metav1.ObjectMeta{
			Name: name, GenerateName: "web-7d4b9c6f5d-", Namespace: "production",
			UID:             types.UID(fmt.Sprintf("3f0c1a52-7f5e-4e0e-9d0b-%012d", n)),
			ResourceVersion: fmt.Sprint(100000 + n), CreationTimestamp: now,
			Labels:      map[string]string{"app": "web", "pod-template-hash": "7d4b9c6f5d", "team": "storefront"},
			Annotations: map[string]string{"prometheus.io/scrape": "true", "note": `says "hello" {to} you`},
		},
		Spec: corev1.PodSpec{NodeName: "node-17", ServiceAccountName: "web", RestartPolicy: corev1.RestartPolicyAlways},
		Status: corev1.PodStatus{
			Phase: corev1.PodRunning, HostIP: "10.0.0.17", PodIP: "10.244.3.8", StartTime: &now,
			Conditions: []corev1.PodCondition{
				{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: now},
				{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: now},
			},
		},
	}
	for i := range 2 {
		pod.ManagedFields = append(pod.ManagedFields, managed(i, now))
	}
	for i := range 3 {
		pod.Spec.Containers = append(pod.Spec.Containers, container(i))
		pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, corev1.ContainerStatus{
			Name: fmt.Sprint("container-", i), Ready: true, Image: "registry.example.com/web:1.2.3",
			ImageID:     "registry.example.com/web@sha256:" + strings.Repeat("ab", 32),
			ContainerID: "containerd://" + strings.Repeat("cd", 32),
			State:       corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: now}},
		})
	}
	return pod
}

func managed(i int, now metav1.Time) metav1.ManagedFieldsEntry {
	var f strings.Builder
	f.WriteString(`{"f:metadata":{"f:annotations":{".":{},"f:note":{}},"f:labels":{".":{},"f:app":{}}},` +
		`"f:spec":{"f:containers":{`)
	for j := range 4 {
		if j > 0 {
			f.WriteByte(',')
		}
		fmt.Fprintf(&f,
			`"k:{\"name\":\"container-%d\"}":{".":{},"f:env":{".":{},"k:{\"name\":\"VARIABLE\"}":{".":{},"f:name":{},"f:value":{}}},`+
				`"f:image":{},"f:imagePullPolicy":{},"f:name":{},"f:resources":{}}`, j)
	}
	f.WriteString(`},"f:dnsPolicy":{},"f:restartPolicy":{}}}`)
	return metav1.ManagedFieldsEntry{
		Manager: fmt.Sprint("manager-", i), Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "v1", Time: &now,
		FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(f.String()),
	}
}

func container(i int) corev1.Container {
	c := corev1.Container{
		Name: fmt.Sprint("container-", i), Image: "registry.example.com/web:1.2.3",
		Args:            []string{"--listen=:8080", "--log=json"},
		ImagePullPolicy: corev1.PullIfNotPresent, TerminationMessagePath: "/dev/termination-log",
		VolumeMounts: []corev1.VolumeMount{{
			Name: "kube-api-access", ReadOnly: true,
			MountPath: "/var/run/secrets/kubernetes.io/serviceaccount",
		}},
	}
	for j := range 6 {
		c.Env = append(c.Env, corev1.EnvVar{
			Name:  fmt.Sprint("VARIABLE_", j),
			Value: "a value of some length, as they are in a cluster, number " + fmt.Sprint(j),
		})
	}
	return c
}

// Sorted is the same object as a custom resource, a Widget of example.com/v1: decoded and encoded with Sorted keys.
func Sorted(t testing.TB, obj runtime.Object) *unstructured.Unstructured {
	t.Helper()
	u := &unstructured.Unstructured{}
	require.NoError(t, json.Unmarshal(ServerObject(t, obj), &u.Object))
	u.SetGroupVersionKind(schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Widget"})
	return u
}

// Tally counts reads and bytes.
type Tally struct {
	io.Reader
	Reads, Bytes int
}

// Read implements io.Reader.
func (c *Tally) Read(b []byte) (int, error) {
	n, err := c.Reader.Read(b)
	c.Reads++
	c.Bytes += n
	return n, err
}
