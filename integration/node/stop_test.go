// SPDX-License-Identifier: Apache-2.0

package node

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
)

func TestPod_that_is_deleted_is_followed_by_one_that_loses_and_repeats_nothing(t *testing.T) {
	r := shared.get(t).newRelease(t, "deleted")
	r.helm("install")
	pod := r.pods()[0]
	r.hasLimit(pod)
	written := r.write(func() {
		// Another Pod starts at once, and takes the checkpoint over, perhaps before this one is told to end: its exit
		// code is not said.
		ended := r.ended(pod, func() { r.kubectl("delete", "pod", pod.Name, "--wait=false") })
		t.Logf("the container ended with %+v", ended.Status.ContainerStatuses[0].State.Terminated)
		r.kubectl("rollout", "status", "deployment/kube-eventbridge", "--timeout=90s")
	})
	r.awaitVersion("late", r.configMap("late", "blue"))
	r.hasEach(written)
}

func TestPod_that_is_stopped_ends_well_before_it_would_be_killed(t *testing.T) {
	r := shared.get(t).newRelease(t, "stopped")
	r.helm("install")
	pod := r.pods()[0]
	var took time.Duration
	written := r.write(func() {
		began := time.Now()
		ended := r.ended(pod, func() { r.kubectl("scale", "deployment/kube-eventbridge", "--replicas=0") })
		took = time.Since(began)
		state := ended.Status.ContainerStatuses[0].State.Terminated
		assert.True(t, state != nil && state.ExitCode == 0 && state.Reason == "Completed",
			"the container ended with %+v", state)
	})
	t.Logf("the Pod took %s to end, of the %d s that it has", took.Round(time.Millisecond),
		*pod.Spec.TerminationGracePeriodSeconds)
	assert.LessOrEqual(t, took, time.Duration(*pod.Spec.TerminationGracePeriodSeconds)*time.Second/2,
		"it took %s to end", took)
	r.kubectl("scale", "deployment/kube-eventbridge", "--replicas=1")
	r.awaitVersion("late", r.configMap("late", "blue"))
	r.hasEach(written)
}

// ended does what ends a Pod, and returns what the kubelet said of it last.
func (r *release) ended(pod corev1.Pod, do func()) *corev1.Pod {
	r.t.Helper()
	pods := r.kube.CoreV1().Pods(r.namespace)
	w, err := pods.Watch(r.t.Context(), metav1.ListOptions{
		FieldSelector:   "metadata.name=" + pod.Name,
		ResourceVersion: pod.ResourceVersion,
	})
	require.NoError(r.t, err)
	defer w.Stop()
	do()
	deadline := time.After(90 * time.Second)
	for {
		select {
		case e, open := <-w.ResultChan():
			require.True(r.t, open, "the watch of a Pod ended before the Pod")
			if e.Type == watch.Deleted {
				return e.Object.(*corev1.Pod)
			}
		case <-deadline:
			r.t.Fatalf("%s does not end", pod.Name)
		}
	}
}

// hasLimit checks that the kernel holds the Pod to its limit of memory, and that the garbage collector goes by nine
// tenths of that.
func (r *release) hasLimit(pod corev1.Pod) {
	r.t.Helper()
	limit := pod.Spec.Containers[0].Resources.Limits.Memory().Value()
	if told := collectorLimit(r.t, pod); told < 0.85*float64(limit) || told > 0.95*float64(limit) {
		r.t.Errorf("the garbage collector goes by %.0f bytes, where the container has %d", told, limit)
	}
	processes := must.Get(filepath.Glob("/proc/[0-9]*"))(r.t)
	for _, process := range processes {
		groups, _ := os.ReadFile(filepath.Join(process, "cgroup")) // it may have ended
		program, _ := os.ReadFile(filepath.Join(process, "cmdline"))
		if !strings.Contains(string(groups), "pod"+string(pod.UID)) ||
			!strings.HasPrefix(string(program), "/kube-eventbridge\x00") {
			continue
		}
		got := kernelLimit(r.t, string(groups))
		assert.Equal(r.t, fmt.Sprint(limit), got, "the kernel limits it to %s bytes, want %d", got, limit)
		return
	}
	r.t.Error("no process runs in the Pod's container")
}

// collectorLimit returns the bytes that the Pod's metrics say the garbage collector goes by.
func collectorLimit(t *testing.T, pod corev1.Pod) float64 {
	t.Helper()
	url := fmt.Sprintf("http://%s:%d/metrics", pod.Status.PodIP, pod.Spec.Containers[0].Ports[0].ContainerPort)
	req := must.Get(http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil))(t)
	transport := &http.Transport{} // without a proxy: none knows the Pods of this network
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport, Timeout: 20 * time.Second}
	res, err := client.Do(req)
	require.NoError(t, err)
	defer res.Body.Close()
	body := must.Get(io.ReadAll(res.Body))(t)
	for line := range strings.Lines(string(body)) {
		var told float64
		if n, _ := fmt.Sscanf(line, "go_gc_gomemlimit_bytes %g", &told); n == 1 {
			return told
		}
	}
	t.Fatalf("%s has no metric of the garbage collector's limit", url)
	return 0
}

// kernelLimit returns the limit of memory of what is in these cgroups, as /proc/PID/cgroup has them.
func kernelLimit(t *testing.T, groups string) string {
	t.Helper()
	for line := range strings.Lines(groups) {
		_, rest, _ := strings.Cut(strings.TrimSpace(line), ":")
		controllers, path, _ := strings.Cut(rest, ":")
		for file, has := range map[string]bool{
			"/sys/fs/cgroup/memory" + path + "/memory.limit_in_bytes": controllers == "memory",
			"/sys/fs/cgroup" + path + "/memory.max":                   controllers == "",
		} {
			if text, err := os.ReadFile(file); has && err == nil {
				return strings.TrimSpace(string(text))
			}
		}
	}
	t.Fatalf("there is no limit for %q", groups)
	return ""
}
