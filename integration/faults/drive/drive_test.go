// SPDX-License-Identifier: Apache-2.0

package drive_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/kube-eventbridge/kube-eventbridge/integration/controlplane"
	"github.com/kube-eventbridge/kube-eventbridge/integration/faults/drive"
	"github.com/kube-eventbridge/kube-eventbridge/integration/faults/oracle"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newDriver(t *testing.T, plane *controlplane.ControlPlane, cfg drive.Config) *drive.Driver {
	t.Helper()
	cfg.REST = plane.RESTConfig()
	d := must.Get(drive.New(cfg))(t)
	t.Cleanup(d.Close)
	require.NoError(t, d.Setup(t.Context()))
	return d
}

// during runs something until the function that is returned is called, or the test ends.
func during(t *testing.T, run func(context.Context) error) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- run(ctx) }()
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		assert.NoError(t, <-done)
	}
	t.Cleanup(stop)
	return stop
}

func recorded(t *testing.T, plane *controlplane.ControlPlane) *oracle.Recorder {
	t.Helper()
	var resources []oracle.Resource
	for _, k := range drive.Kinds() {
		resources = append(resources, oracle.Resource{Resource: k.Resource, Namespaced: k.Namespaced})
	}
	r := oracle.NewRecorder(oracle.RecorderConfig{Dial: plane.EtcdClient, Cluster: "test", Resources: resources})
	during(t, r.Run)
	require.NoError(t, r.Sync(t.Context()))
	return r
}

func truth(t *testing.T, r *oracle.Recorder, k drive.Kind, selector string) map[string][]oracle.State {
	t.Helper()
	require.NoError(t, r.Sync(t.Context()))
	s := oracle.Stream{Cluster: "test", Resource: k.Resource, LabelSelector: selector}
	all := must.Get(r.Truth(s))(t)
	return all.Streams[s]
}

// The tests share a control plane that is left as it was, and namespaces of their own.
func TestDriver(t *testing.T) {
	plane := controlplane.ForTest(t, controlplane.Config{})
	r := recorded(t, plane)
	t.Run("does everything that is hard to follow, to every kind", func(t *testing.T) { checkEverything(t, plane, r) })
	t.Run("gives secrets the values that it names", func(t *testing.T) { checkSecrets(t, plane) })
	t.Run("wants the same when the seed is the same", func(t *testing.T) { checkSeeds(t, plane) })
	t.Run("goes on when the API server was away", func(t *testing.T) { checkAway(t, plane) })
}

func checkEverything(t *testing.T, plane *controlplane.ControlPlane, r *oracle.Recorder) {
	t.Helper()
	d := newDriver(t, plane, drive.Config{Seed: 1, Changes: 1500, Objects: 8})
	before := r.Changes()
	require.NoError(t, d.Run(t.Context()))
	n := d.Counts()
	assert.True(t, n.Created != 0 && n.Updated != 0 && n.Relabelled != 0 && n.Deleted != 0 && n.Finalized != 0 &&
		n.Changes() >= 1500 && n.Changes() <= 1600, "counts %+v", n)
	for _, k := range drive.Kinds() {
		checkVariety(t, k, truth(t, r, k, ""), truth(t, r, k, drive.Selector))
	}
	// Each change is one revision, also a deletion that waits, and the end of the waiting.
	got := r.Changes() - before
	assert.Equal(t, n.Changes(), got, "etcd has %d changes, %d were acknowledged", got, n.Changes())
}

func checkSeeds(t *testing.T, plane *controlplane.ControlPlane) {
	t.Helper()
	run := func(seed uint64, namespace string) drive.Counts {
		d := newDriver(t, plane, drive.Config{
			Seed: seed, Changes: 100, Writers: 1, Namespaces: []string{namespace},
			Kinds: []drive.Kind{drive.ConfigMaps},
		})
		require.NoError(t, d.Run(t.Context()))
		return d.Counts()
	}
	a, b := run(5, "same-a"), run(5, "same-b")
	assert.Equal(t, b, a, "with the same seed")
	a, b = run(5, "same-c"), run(6, "same-d")
	assert.NotEqual(t, b, a, "with two seeds")
}

func checkAway(t *testing.T, plane *controlplane.ControlPlane) {
	t.Helper()
	d := newDriver(t, plane, drive.Config{Seed: 4, Namespaces: []string{"away"}})
	stop := during(t, d.Run)
	must.Happen(t, "some changes", func() bool { return d.Counts().Changes() > 20 })
	require.NoError(t, plane.KillAPIServer())
	must.Happen(t, "attempts", func() bool { return d.Counts().Retried > 10 })
	was := d.Counts().Changes()
	require.NoError(t, plane.StartAPIServer(t.Context()))
	must.Happen(t, "changes", func() bool { return d.Counts().Changes() > was+100 })
	stop()
}

func checkVariety(t *testing.T, k drive.Kind, all, selected map[string][]oracle.State) {
	t.Helper()
	owners, left, back := 0, 0, 0
	for key, states := range all {
		uids := map[string]bool{}
		for _, s := range states {
			uids[s.UID] = true
		}
		owners = max(owners, len(uids))
		for i, s := range selected[key] {
			if i > 0 && s.Op == oracle.Added && s.UID == selected[key][i-1].UID {
				back++
			}
			if s.Op == oracle.Deleted {
				left++
			}
		}
	}
	if owners < 2 || left == 0 || back == 0 {
		t.Errorf("%s: a name had at most %d owners, the selection was left %d times and entered again %d times", k.Kind,
			owners, left, back)
	}
}

func checkSecrets(t *testing.T, plane *controlplane.ControlPlane) {
	d := newDriver(t, plane, drive.Config{
		Seed: 2, Changes: 60, Kinds: []drive.Kind{drive.Secrets},
		Namespaces: []string{"secrets"},
	})
	require.NoError(t, d.Run(t.Context()))
	h := must.Get(rest.HTTPClientFor(plane.RESTConfig()))(t)
	defer h.CloseIdleConnections()
	kube := must.Get(kubernetes.NewForConfigAndClient(plane.RESTConfig(), h))(t)
	list := must.Get(kube.CoreV1().Secrets("secrets").List(t.Context(), metav1.ListOptions{}))(t)
	c := oracle.NewCanaries(d.Canaries()...)
	for _, s := range list.Items {
		require.NotNil(t, c.Find(s.Data["token"]), "secret %s has a value that is no canary", s.Name)
		assert.NotNil(t, c.Find(s.Data["inside"]), "secret %s has a value that is no canary", s.Name)
	}
	assert.NotEmpty(t, list.Items, "there are no secrets")
}
