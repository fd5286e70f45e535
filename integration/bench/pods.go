// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Every variable part of a pod has a fixed width, so that one pod becomes another by overwriting bytes.
const (
	namespaces  = 20
	baseVersion = 1_000_000_000 // ten digits from the first version to the last

	namespaceMark = "team-NN"
	nameMark      = "checkout-NNNNNNNN"
	uidMark       = "7c0e6a52-31d8-4b6f-9d0a-UUUUUUUUUUUU"
	versionMark   = "VVVVVVVVVV"
	restartMark   = 987654
)

// podIdentity is what tells one pod of the load from another.
type podIdentity struct{ Namespace, Name, UID string }

func identityOf(index int) podIdentity {
	return podIdentity{
		Namespace: fmt.Sprintf("team-%02d", index%namespaces),
		Name:      fmt.Sprintf("checkout-%08d", index),
		UID:       fmt.Sprintf("7c0e6a52-31d8-4b6f-9d0a-%012d", index),
	}
}

// podTemplate writes pods of about 5 KB, a third of it managedFields, in the member order of a real API server.
type podTemplate struct {
	text []byte // from the member metadata on
	// Offsets of digits to overwrite.
	namespace, name, uid, version, restarts, times []int
}

// Prefixes of a pod: a watch sends kind and apiVersion, the items of a list do not have them.
const (
	watchedPrefix = `{"kind":"Pod","apiVersion":"v1",`
	listedPrefix  = `{`
)

func newPodTemplate() (*podTemplate, error) {
	text, err := json.Marshal(templatePod())
	if err != nil {
		return nil, fmt.Errorf("encode the pod: %w", err)
	}
	text = text[bytes.Index(text, []byte(`"metadata"`)):]
	restarts := fmt.Appendf(nil, `"restartCount":%d`, restartMark)
	return &podTemplate{
		text:      text,
		namespace: offsets(text, []byte(namespaceMark), len("team-")),
		name:      offsets(text, []byte(nameMark), len("checkout-")),
		uid:       offsets(text, []byte(uidMark), len(uidMark)-12),
		version:   offsets(text, []byte(versionMark), 0),
		restarts:  offsets(text, restarts, len(`"restartCount":`)),
		times:     offsets(text, []byte("T08:00:59Z"), len("T08:00:")),
	}, nil
}

// appendPod appends the pod of that index as it was at version, which begins with one of the prefixes.
func (t *podTemplate) appendPod(dst []byte, prefix string, index int, version uint64) []byte {
	dst = append(dst, prefix...)
	body := len(dst)
	dst = append(dst, t.text...)
	text := dst[body:]
	put(text, t.namespace, 2, uint64(index%namespaces))
	put(text, t.name, 8, uint64(index))
	put(text, t.uid, 12, uint64(index))
	put(text, t.version, 10, version)
	put(text, t.restarts, 6, 100_000+version%900_000)
	put(text, t.times, 2, version%60)
	return dst
}

// put overwrites width digits at each offset.
func put(text []byte, offsets []int, width int, n uint64) {
	for _, at := range offsets {
		v := n
		for i := at + width - 1; i >= at; i-- {
			text[i] = byte('0' + v%10)
			v /= 10
		}
	}
}

func offsets(text, mark []byte, skip int) []int {
	var found []int
	for from := 0; ; {
		i := bytes.Index(text[from:], mark)
		if i < 0 {
			return found
		}
		found = append(found, from+i+skip)
		from += i + len(mark)
	}
}

func templatePod() *corev1.Pod {
	created := metav1.NewTime(time.Date(2026, 5, 4, 8, 0, 0, 0, time.UTC))
	touched := metav1.NewTime(time.Date(2026, 5, 4, 8, 0, 59, 0, time.UTC))
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Name: nameMark, GenerateName: "checkout-", Namespace: namespaceMark, UID: uidMark, ResourceVersion: versionMark,
		Generation: 1, CreationTimestamp: created,
		Labels: map[string]string{
			"app.kubernetes.io/name": "checkout", "app.kubernetes.io/part-of": "shop", "app.kubernetes.io/version": "4.17.2",
			"pod-template-hash": "6d5f9c7b84", "topology.example.com/tier": "backend",
		},
		Annotations: map[string]string{
			"prometheus.io/port": "9090", "prometheus.io/scrape": "true",
			"checksum/config": "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
		},
		OwnerReferences: []metav1.OwnerReference{{
			APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "checkout-6d5f9c7b84", UID: types.UID("1f0b2c3d-9a77-4c08-8f43-0d2b6e7a5c11"),
			Controller: new(true), BlockOwnerDeletion: new(true),
		}},
		ManagedFields: []metav1.ManagedFieldsEntry{
			{Manager: "kube-controller-manager", Operation: "Update", APIVersion: "v1", Time: &created, FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(controllerFields)},
			{Manager: "kubelet", Operation: "Update", APIVersion: "v1", Time: &touched, FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(kubeletFields), Subresource: "status"},
		},
	}}
	pod.Spec = templateSpec()
	pod.Status = templateStatus(created, touched)
	return pod
}

func templateSpec() corev1.PodSpec {
	env := func(name, value string) corev1.EnvVar { return corev1.EnvVar{Name: name, Value: value} }
	probe := &corev1.Probe{
		ProbeHandler:  corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"/app/checkout", "health"}}},
		PeriodSeconds: 10, TimeoutSeconds: 1, SuccessThreshold: 1, FailureThreshold: 3,
	}
	size := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("250m"), corev1.ResourceMemory: resource.MustParse("256Mi")}
	return corev1.PodSpec{
		Volumes: []corev1.Volume{{Name: "config", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
			LocalObjectReference: corev1.LocalObjectReference{Name: "checkout"}, DefaultMode: new(int32(420)),
		}}}},
		Containers: []corev1.Container{{
			Name: "checkout", Image: "registry.example.com/shop/checkout:4.17.2",
			Ports:     []corev1.ContainerPort{{Name: "http", ContainerPort: 8080, Protocol: "TCP"}, {Name: "metrics", ContainerPort: 9090, Protocol: "TCP"}},
			Env:       []corev1.EnvVar{env("LOG_LEVEL", "info"), env("DB_HOST", "orders-db.shop.svc"), env("DB_POOL", "32"), env("OTEL_SERVICE_NAME", "checkout"), env("GREETING", `say "hello" & <goodbye>`)},
			Resources: corev1.ResourceRequirements{Limits: size, Requests: size},
			VolumeMounts: []corev1.VolumeMount{
				{Name: "config", MountPath: "/etc/checkout", ReadOnly: true},
				{Name: "kube-api-access-x7k2p", MountPath: "/var/run/secrets/kubernetes.io/serviceaccount", ReadOnly: true},
			},
			ReadinessProbe: probe, LivenessProbe: probe,
			TerminationMessagePath: "/dev/termination-log", TerminationMessagePolicy: "File", ImagePullPolicy: "IfNotPresent",
		}},
		RestartPolicy: "Always", TerminationGracePeriodSeconds: new(int64(30)), DNSPolicy: "ClusterFirst", ServiceAccountName: "checkout",
		NodeName: "node-17.eu-central.example.com", SecurityContext: &corev1.PodSecurityContext{RunAsNonRoot: new(true)}, SchedulerName: "default-scheduler",
		Tolerations: []corev1.Toleration{
			{Key: "node.kubernetes.io/not-ready", Operator: "Exists", Effect: "NoExecute", TolerationSeconds: new(int64(300))},
			{Key: "node.kubernetes.io/unreachable", Operator: "Exists", Effect: "NoExecute", TolerationSeconds: new(int64(300))},
		},
		Priority: new(int32(0)), EnableServiceLinks: new(true), PreemptionPolicy: new(corev1.PreemptLowerPriority),
	}
}

func templateStatus(created, touched metav1.Time) corev1.PodStatus {
	condition := func(kind corev1.PodConditionType, at metav1.Time) corev1.PodCondition {
		return corev1.PodCondition{Type: kind, Status: "True", ObservedGeneration: 1, LastTransitionTime: at}
	}
	return corev1.PodStatus{
		ObservedGeneration: 1, Phase: "Running", HostIP: "10.20.30.40", PodIP: "10.244.17.23", StartTime: &created, QOSClass: "Guaranteed",
		HostIPs: []corev1.HostIP{{IP: "10.20.30.40"}}, PodIPs: []corev1.PodIP{{IP: "10.244.17.23"}},
		Conditions: []corev1.PodCondition{
			condition("PodReadyToStartContainers", created), condition("Initialized", created), condition("Ready", touched),
			condition("ContainersReady", touched), condition("PodScheduled", created),
		},
		ContainerStatuses: []corev1.ContainerStatus{{
			Name: "checkout", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: touched}}, Ready: true, RestartCount: restartMark,
			Image:       "registry.example.com/shop/checkout:4.17.2",
			ImageID:     "registry.example.com/shop/checkout@sha256:2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae",
			ContainerID: "containerd://fcde2b2edba56bf408601fb721fe9b5c338d10ee429ea04fae5511b68fbf8fb9", Started: new(true),
		}},
	}
}

const controllerFields = `{"f:metadata":{"f:annotations":{".":{},"f:checksum/config":{},"f:prometheus.io/port":{},"f:prometheus.io/scrape":{}},"f:generateName":{},` +
	`"f:labels":{".":{},"f:app.kubernetes.io/name":{},"f:app.kubernetes.io/part-of":{},"f:pod-template-hash":{}},"f:ownerReferences":{".":{},` +
	`"k:{\"uid\":\"1f0b2c3d-9a77-4c08-8f43-0d2b6e7a5c11\"}":{}}},"f:spec":{"f:containers":{"k:{\"name\":\"checkout\"}":{".":{},` +
	`"f:env":{".":{},"k:{\"name\":\"DB_HOST\"}":{".":{},"f:name":{},"f:value":{}},"k:{\"name\":\"LOG_LEVEL\"}":{".":{},"f:name":{},"f:value":{}}},` +
	`"f:image":{},"f:imagePullPolicy":{},"f:livenessProbe":{},"f:name":{},"f:readinessProbe":{},"f:resources":{},"f:volumeMounts":{".":{},` +
	`"k:{\"mountPath\":\"/etc/checkout\"}":{".":{},"f:mountPath":{},"f:name":{},"f:readOnly":{}}}}},"f:dnsPolicy":{},"f:restartPolicy":{},"f:schedulerName":{},` +
	`"f:serviceAccountName":{},"f:volumes":{".":{},"k:{\"name\":\"config\"}":{".":{},"f:configMap":{},"f:name":{}}}}}`

const kubeletFields = `{"f:status":{"f:conditions":{"k:{\"type\":\"ContainersReady\"}":{".":{},"f:lastTransitionTime":{},"f:status":{},"f:type":{}},` +
	`"k:{\"type\":\"Initialized\"}":{".":{},"f:lastTransitionTime":{},"f:status":{},"f:type":{}},"k:{\"type\":\"Ready\"}":{".":{},"f:lastTransitionTime":{},` +
	`"f:status":{},"f:type":{}}},"f:containerStatuses":{},"f:hostIP":{},"f:phase":{},"f:podIP":{},"f:podIPs":{".":{},"k:{\"ip\":\"10.244.17.23\"}":{".":{},"f:ip":{}}},"f:startTime":{}}}`
