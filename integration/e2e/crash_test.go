// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
)

// truth is what the API server said of each object: its states in order, by key.
type truth struct {
	mu      sync.Mutex
	states  map[string][]string // "uid@rv", a deletion as "uid deleted"
	changes int
}

func (h *truth) add(key, state string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.states[key] = append(h.states[key], state)
	h.changes++
}

func (h *truth) count() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.changes
}

// drive changes the ConfigMaps of one name after another until there were n changes: mostly updates, now and then a
// deletion, after which the name is used again.
func drive(ctx context.Context, kube *kubernetes.Clientset, h *truth, worker, n int, seed uint64) error {
	random := rand.New(rand.NewPCG(seed, uint64(worker)))
	client := kube.CoreV1().ConfigMaps("default")
	alive := map[string]*corev1.ConfigMap{}
	for i := range n {
		name := fmt.Sprintf("w%d-%d", worker, random.IntN(8))
		key := "default/" + name
		switch known := alive[name]; {
		case known == nil:
			got, err := client.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
			if err != nil {
				return err
			}
			alive[name] = got
			h.add(key, string(got.UID)+"@"+got.ResourceVersion)
		case random.IntN(12) == 0:
			if err := client.Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
				return err
			}
			delete(alive, name)
			h.add(key, string(known.UID)+" deleted")
		default:
			patch := fmt.Appendf(nil, `{"data":{"i":%q}}`, strconv.Itoa(i))
			got, err := client.Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{})
			if err != nil {
				return err
			}
			h.add(key, string(got.UID)+"@"+got.ResourceVersion)
		}
	}
	return nil
}

func TestBridge_killed_ten_times_loses_repeats_and_misorders_nothing(t *testing.T) {
	disturbed(newRig(t, watched), 5000, 10, func(r *rig) {
		r.bridge.kill()
		r.run()
	})
}

func TestBridge_loses_repeats_and_misorders_nothing_when_its_broker_restarts(t *testing.T) {
	disturbed(newRig(t, watched), 3000, 5, func(r *rig) {
		r.broker.stop()
		r.broker.start()
	})
}

// watched is what the changes are made of.
const watched = `[{resource: configmaps, namespaces: [default]}]`

// disturbed makes changes, disturbs the bridge at random times meanwhile, and compares the log with the truth.
func disturbed(r *rig, changes, times int, disturb func(*rig)) {
	t := r.t
	t.Helper()
	const workers = 4
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	h := &truth{states: map[string][]string{}}
	r.run()
	r.await("the snapshot", func(log []entry) bool {
		return slices.ContainsFunc(log, func(e entry) bool { return e.op == "snapshot-completed" })
	})

	var driving sync.WaitGroup
	for w := range workers {
		driving.Go(func() {
			if err := drive(t.Context(), r.kube, h, w, changes/workers, seed); err != nil {
				t.Error(err)
			}
		})
	}
	random := rand.New(rand.NewPCG(seed, 99))
	for k := range times {
		at := (k+1)*changes/(times+1) + random.IntN(changes/(2*times))
		waitUntil(t, func() bool { return h.count() >= at || t.Failed() })
		disturb(r)
	}
	driving.Wait()
	r.settle(func(log []entry) bool { return countObjects(log, h) >= h.count() })
	r.bridge.stop()
	log := r.entries()
	checkLog(t, log, h)
	t.Logf("%d changes, %d entries in the log", h.count(), len(log))
}

func waitUntil(t *testing.T, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	deadline := time.After(2 * time.Minute)
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatal("the workload does not get on")
		}
	}
}

func countObjects(log []entry, h *truth) int {
	n := 0
	for _, e := range log {
		if _, ours := h.states[e.key]; ours {
			n++
		}
	}
	return n
}

// checkLog compares the log with the truth: P1 to P5 at once, as every state must be there once and in its place.
func checkLog(t *testing.T, log []entry, h *truth) {
	t.Helper()
	got := map[string][]string{}
	ids := map[string]uint64{}
	for _, e := range log {
		if first, twice := ids[e.id]; twice {
			t.Errorf("id %s is in the log twice, at %d and %d", e.id, first, e.seq)
		}
		ids[e.id] = e.seq
		if e.op == "deleted" {
			got[e.key] = append(got[e.key], e.uid+" deleted")
		} else if e.key != "" {
			got[e.key] = append(got[e.key], e.uid+"@"+e.rv)
		}
	}
	for key, states := range h.states {
		compare(t, key, got[key], states)
	}
}

// compare says where the log's states of one object first differ from the truth.
func compare(t *testing.T, key string, got, want []string) {
	t.Helper()
	if slices.Equal(got, want) {
		return
	}
	at := 0
	for at < min(len(got), len(want)) && got[at] == want[at] {
		at++
	}
	around := func(states []string) []string { return states[max(0, min(len(states), at)-3):min(len(states), at+5)] }
	t.Errorf("%s: the log has %d states and should have %d; from the %dth on they differ:\n%v\n%v", key, len(got), len(want), at, around(got), around(want))
}
