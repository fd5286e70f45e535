// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kube-eventbridge/kube-eventbridge/integration/internal/rig"
	"github.com/kube-eventbridge/kube-eventbridge/integration/rules"
	"github.com/kube-eventbridge/kube-eventbridge/internal/metric"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
)

// eyes are a Prometheus that looks at a bridge.
type eyes struct {
	*fixture
	*rules.Prometheus
}

func newEyes(r *fixture, settings map[string]string) *eyes {
	return &eyes{r, rules.NewPrometheus(r.t, map[string]string{"a": r.server}, settings)}
}

// ready waits until all is well, and lets that last.
func (e *eyes) ready(steps int) {
	e.t.Helper()
	e.awaitStatus(200, "ok")
	e.poll("all to be in the log", func() (bool, string) { return e.settled(), "there is something unsettled" })
	e.Hold(steps)
}

// The faults of docs/operations.md, its remedies, and the rules as they are.
func TestRunbook_alerts_fire_on_the_fault_and_end_by_the_remedy(t *testing.T) {
	rig.Parallel(t, rig.All)
	r := newRig(t, watched)
	replaced(t, r.config, r.config, "dataDir:", "buffer: {maxBytes: 1Mi}\ndataDir:")
	// What takes minutes elsewhere takes moments here.
	e := newEyes(r, map[string]string{"behindSeconds": "1", "watchRestarts": "0"})
	e.During(func() { e.Hold(25) }, func() {
		r.run()
		e.ready(30)
	}, "KubeEventbridgeDown", "KubeEventbridgeAbsent")
	e.definedOnly()

	e.During(func() {
		r.broker.stop()
		e.fill(30, 100_000)
		e.Told("broker_ready", func(v float64) bool { return v == 0 })
		e.Told("oldest_unsettled_seconds", func(v float64) bool { return v > 1 })
		e.Told("buffered_bytes", func(v float64) bool { return v > 0.9*(1<<20) })
		e.Hold(15)
	}, func() {
		r.broker.start()
		e.ready(20)
	}, "KubeEventbridgeBrokerAway", "KubeEventbridgeBehind", "KubeEventbridgeBufferFull")

	e.During(func() {
		require.NoError(t, r.api.StopAPIServer(context.WithoutCancel(t.Context())))
		e.Told("stream_watching", func(v float64) bool { return v == 0 })
		e.Grows(2, 12, "watch_restarts_total") // what was not there before has not grown
	}, func() {
		require.NoError(t, r.api.StartAPIServer(context.WithoutCancel(t.Context())))
		e.ready(70)
	}, "KubeEventbridgeNotWatching", "KubeEventbridgeWatchesRestart")
	e.Also("KubeEventbridgeGap")

	e.During(func() {
		r.bridge.stop()
		require.NoError(t, r.js.DeleteStream(t.Context(), "KUBERNETES"))
		r.run()
		e.ready(10)
	}, func() { e.Hold(160) }, "KubeEventbridgeLogLost")

	e.During(func() {
		second := e.twin()
		e.fill(1, 10)
		e.eventually("both to find the other", func() bool {
			e.touch()
			return slices.Equal(e.foreign(), []bool{true, true})
		})
		e.Hold(1)
		second.stop()
		delete(e.Servers, "b")
	}, func() {
		e.ready(40)
	}, "KubeEventbridgeOtherWriter")
	e.Also("KubeEventbridgeGap", "KubeEventbridgeBehind")
	e.Judge()
}

// twin runs a second bridge with the same configuration and a directory of its own, as instance b.
func (e *eyes) twin() *bridge {
	e.t.Helper()
	first, server := e.bridge, freeAddress(e.t)
	config := filepath.Join(e.t.TempDir(), "twin.yaml")
	text := must.Get(os.ReadFile(e.config))(e.t)
	text = bytes.ReplaceAll(text, []byte(e.server), []byte(server))
	text = bytes.ReplaceAll(text, []byte(filepath.Join(e.dir, "data")), []byte(e.t.TempDir()))
	require.NoError(e.t, os.WriteFile(config, text, 0o600))
	e.Servers["b"] = server
	second := e.startAt(server, nil, "run", "--config", config)
	e.bridge = first
	return second
}

// touch changes what fill has made last.
func (e *eyes) touch() {
	e.t.Helper()
	patch := fmt.Appendf(nil, `{"data":{"a":%q}}`, time.Now())
	name := fmt.Sprintf("large-%d-0", e.Step())
	_, err := e.kube.CoreV1().ConfigMaps("default").Patch(e.t.Context(), name, types.MergePatchType, patch,
		metav1.PatchOptions{})
	require.NoError(e.t, err)
}

// foreign says of both bridges whether they know of the other.
func (e *eyes) foreign() (known []bool) {
	for _, instance := range []string{"a", "b"} {
		known = append(known, slices.ContainsFunc(e.Ask(instance, e.Servers[instance]), func(s rules.Sighting) bool {
			return s.Name() == "kube_eventbridge_foreign_events_total" && s.Value > 0
		}))
	}
	return known
}

// fill makes as many ConfigMaps of some size.
func (e *eyes) fill(n, bytes int) {
	e.t.Helper()
	for i := range n {
		m := &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("large-%d-%d", e.Step(), i)},
			Data:       map[string]string{"a": strings.Repeat("a", bytes)},
		}
		must.Get(e.kube.CoreV1().ConfigMaps("default").Create(e.t.Context(), m, metav1.CreateOptions{}))(e.t)
	}
}

// settled reports whether the stream watches, and all that was read is in the log.
func (e *eyes) settled() bool {
	told := false
	for _, s := range e.Scrape() {
		switch s.Name() {
		case "kube_eventbridge_oldest_unsettled_seconds", "kube_eventbridge_buffered_events":
			if s.Value > 0 {
				return false
			}
		case "kube_eventbridge_stream_watching":
			told = s.Value == 1
		}
	}
	return told
}

// definedOnly compares what a bridge tells with what is defined.
func (e *eyes) definedOnly() {
	e.t.Helper()
	for _, m := range metric.All() {
		lazy := m.Name == "watch_restarts_total" || m.Name == "events_filtered_total" // from the first on
		assert.True(e.t, m.Optional || lazy || e.Seen[m.FullName()], "%s is not there", m.FullName())
		delete(e.Seen, m.FullName())
	}
	for name := range e.Seen {
		assert.True(e.t, strings.HasPrefix(name, "go_") || strings.HasPrefix(name, "process_"),
			"%s is there, and not defined", name)
	}
}
