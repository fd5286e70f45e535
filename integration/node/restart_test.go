// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kube-eventbridge/kube-eventbridge/integration/internal/pause"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
)

func TestReplicas_restarted_one_after_the_other_lose_and_repeat_nothing(t *testing.T) {
	r := shared.get(t).newRelease(t, "restarted")
	r.values["replicas"] = 2
	r.set(map[string]any{}, "config", "leaderElection")
	r.helm("install")
	before := r.pods()
	r.awaitVersion("early", r.configMap("early", "green"))
	written := r.write(func() {
		r.kubectl("rollout", "restart", "deployment/kube-eventbridge")
		r.kubectl("rollout", "status", "deployment/kube-eventbridge", "--timeout=90s")
	})
	r.awaitVersion("late", r.configMap("late", "blue"))
	for _, old := range before {
		for _, p := range r.pods() {
			assert.NotEqual(t, old.UID, p.UID, "%s was not restarted", p.Name)
		}
	}
	r.hasEach(written)
	r.takeovers()
}

// write changes ConfigMaps while something is done, and returns the versions that it has made of each, in order.
func (r *release) write(while func()) map[string][]string {
	r.t.Helper()
	ctx, cancel := context.WithCancel(r.t.Context())
	defer cancel()
	written := map[string][]string{}
	var g errgroup.Group
	g.Go(func() error {
		for i := 0; ; i++ {
			name := "written-" + strconv.Itoa(i%5)
			version, err := r.putConfigMap(context.WithoutCancel(ctx), name, strconv.Itoa(i))
			if err != nil {
				return err
			}
			written[name] = append(written[name], version)
			if pause.For(ctx, 50*time.Millisecond) != nil {
				return nil
			}
		}
	})
	defer func() {
		cancel()
		assert.NoError(r.t, g.Wait(), "write")
	}()
	while()
	cancel()
	require.NoError(r.t, g.Wait())
	return written
}

// hasEach ends the bridge, and checks that the log has every version once and in order, and no event twice.
func (r *release) hasEach(written map[string][]string) {
	r.t.Helper()
	for name, versions := range written { // only one object's events are in order
		r.awaitVersion(name, versions[len(versions)-1])
	}
	r.kubectl("scale", "deployment/kube-eventbridge", "--replicas=0")
	r.kubectl("wait", "--for=delete", "pod", "-l", "app.kubernetes.io/instance=kube-eventbridge", "--timeout=90s")
	got, seen, total := map[string][]string{}, map[string]bool{}, 0
	for _, e := range r.events() {
		assert.False(r.t, seen[e.kind+e.id], "the log has %s %s twice", e.kind, e.id)
		seen[e.kind+e.id] = true
		if e.kind == "ConfigMap" {
			got[e.key] = append(got[e.key], e.version)
		}
	}
	for name, want := range written {
		total += len(want)
		if len(got[name]) != len(want) {
			r.t.Errorf("of %s the log has %d versions of %d", name, len(got[name]), len(want))
			continue
		}
		for i := range want {
			assert.Equal(r.t, want[i], got[name][i], "of %s the log has %s as number %d", name, got[name][i], i)
		}
	}
	r.t.Logf("%d changes were written, and are in the log once", total)
}

// takeovers checks that writers follow each other, and that none had to wait until a Lease expired.
func (r *release) takeovers() {
	r.t.Helper()
	var last event
	changed := 0
	for _, e := range r.events() {
		if e.kind != "ConfigMap" {
			continue
		}
		if last.epoch != "" && e.epoch != last.epoch {
			changed++
			silence := e.stored.Sub(last.stored).Round(time.Millisecond)
			r.t.Logf("writer %s follows %s after %s without an event in the log", e.epoch, last.epoch, silence)
			assert.Greater(r.t, number(r.t, e.epoch), number(r.t, last.epoch),
				"writer %s follows %s", e.epoch, last.epoch)
			assert.LessOrEqual(r.t, silence, 10*time.Second,
				"writer %s follows %s after; a Lease that is handed over takes no 15 s", e.epoch, last.epoch)
		}
		last = e
	}
	assert.NotEqual(r.t, 0, changed, "both Pods were restarted, but there was one writer")
}

func number(t *testing.T, text string) int {
	t.Helper()
	return must.Get(strconv.Atoi(text))(t)
}

func TestStatefulSet_that_is_killed_goes_on_with_its_volume(t *testing.T) {
	r := shared.get(t).newRelease(t, "kept")
	r.volume()
	r.set(true, "persistence", "enabled")
	pipeline := r.values["config"].(map[string]any)["pipelines"].([]any)[0].(map[string]any)
	pipeline["sink"] = map[string]any{"embedded": map[string]any{"maxAge": "168h"}}
	delete(pipeline, "checkpoint")
	r.helm("install")
	r.configMap("kept", "green")
	r.eventually("the first version in the log", func() bool {
		return slices.Contains(r.tail(),
			"added "+r.namespace+"/kept")
	})
	before := r.tail()

	pod := r.pods()[0]
	r.kubectl("delete", "pod", pod.Name, "--grace-period=0", "--force")
	r.configMap("kept", "blue")
	r.eventually("another Pod", func() bool {
		pods := r.pods()
		return len(pods) == 1 && pods[0].UID != pod.UID && len(pods[0].Status.ContainerStatuses) == 1 &&
			pods[0].Status.ContainerStatuses[0].Ready
	})
	r.eventually("the second version in the log", func() bool {
		return slices.Contains(r.tail(),
			"updated "+r.namespace+"/kept")
	})
	after := r.tail()
	assert.Equal(t, before, after[:len(before)],
		"the log had\n%s\nand has\n%s", strings.Join(before, "\n"), strings.Join(after, "\n"))
	for _, e := range after[len(before):] {
		assert.True(t, !strings.HasPrefix(e, "snapshot") && !strings.HasPrefix(e, "gap") &&
			e != "added "+r.namespace+"/kept", "there is a %s after the restart", e)
	}
}

// volume makes one on the node, of no class, which belongs to root as that of a provisioner does.
func (r *release) volume() {
	r.t.Helper()
	dir := filepath.Join(state, r.namespace)
	require.NoError(r.t, os.Mkdir(dir, 0o755))
	_, err := r.kube.CoreV1().PersistentVolumes().Create(r.t.Context(), &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: r.namespace},
		Spec: corev1.PersistentVolumeSpec{
			Capacity:               corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("8Gi")},
			AccessModes:            []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			PersistentVolumeSource: corev1.PersistentVolumeSource{Local: &corev1.LocalVolumeSource{Path: dir}},
			NodeAffinity: &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
				MatchExpressions: []corev1.NodeSelectorRequirement{{
					Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn,
					Values: []string{nodeName},
				}},
			}}}},
		},
	}, metav1.CreateOptions{})
	require.NoError(r.t, err)
}

// tail returns what has happened to which object, in the log that the bridge itself has.
func (r *release) tail() []string {
	r.t.Helper()
	out, err := r.command(r.t.Context(), "kubectl", "-n", r.namespace, "exec", "statefulset/kube-eventbridge", "--",
		"kube-eventbridge", "tail", "--config", "/etc/kube-eventbridge/bridge.yaml", "--from-start", "--follow=false", "-o",
		"json")
	if err != nil {
		return nil // there may be no Pod now
	}
	var log []string
	for line := range strings.Lines(out) {
		var e struct{ Type, Subject string }
		require.NoError(r.t, json.Unmarshal([]byte(line), &e))
		parts := strings.Split(e.Type, ".")
		log = append(log, strings.TrimSpace(parts[len(parts)-2]+" "+e.Subject))
	}
	return log
}
