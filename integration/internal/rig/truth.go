// SPDX-License-Identifier: Apache-2.0

package rig

import (
	"context"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kube-eventbridge/kube-eventbridge/integration/controlplane"
	"github.com/kube-eventbridge/kube-eventbridge/integration/faults/oracle"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
)

// Truth is what happened to the objects of some streams, recorded from etcd while a test runs. Its methods are for the
// test's own goroutine.
type Truth struct {
	t        testing.TB
	recorder *oracle.Recorder
}

// CoreStream is the stream of a resource of the core group, such as configmaps, in one namespace or, if that is empty,
// in all.
func CoreStream(cluster, resource, namespace string) oracle.Stream {
	return oracle.Stream{
		Cluster: cluster, Namespace: namespace, Resource: schema.GroupVersionResource{Version: "v1", Resource: resource},
	}
}

// Record begins to record the objects of a cluster, until the test ends. Resources have to be namespaced.
func Record(
	t testing.TB, plane *controlplane.ControlPlane, cluster string, resources ...schema.GroupVersionResource,
) *Truth {
	t.Helper()
	cfg := oracle.RecorderConfig{Dial: plane.EtcdClient, Cluster: cluster}
	for _, r := range resources {
		cfg.Resources = append(cfg.Resources, oracle.Resource{Resource: r, Namespaced: true})
	}
	truth := &Truth{t: t, recorder: oracle.NewRecorder(cfg)}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- truth.recorder.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("record the truth: %v", err)
		}
	})
	truth.sync()
	return truth
}

// sync returns when everything that happened before is recorded.
func (tr *Truth) sync() {
	tr.t.Helper()
	ctx, cancel := context.WithTimeout(tr.t.Context(), Patience())
	defer cancel()
	Must(tr.t, tr.recorder.Sync(ctx))
}

// Recorder is what records, for what a test has to tell it; see [oracle.Recorder].
func (tr *Truth) Recorder() *oracle.Recorder { return tr.recorder }

// Judge compares a log with what happened to the objects of streams, and fails the test by each violation. The log is
// one that is not written to any more.
func (tr *Truth) Judge(log []Message, o oracle.Options, streams ...oracle.Stream) oracle.Report {
	tr.t.Helper()
	tr.sync()
	truth := must.Get(tr.recorder.Truth(streams...))(tr.t)
	return Judge(tr.t, truth, log, o)
}

// Judge compares a log with a truth, and fails the test by each violation.
func Judge(t testing.TB, truth *oracle.Truth, log []Message, o oracle.Options) oracle.Report {
	t.Helper()
	entries := must.Get(Entries(log))(t)
	report := oracle.Judge(truth, entries, o)
	for _, v := range report.Violations {
		t.Errorf("%s", v)
	}
	if report.Unknown > 0 || len(truth.Holes) > 0 {
		t.Errorf("the recorder has not seen everything: %d entries could not be judged, holes are %+v", report.Unknown,
			truth.Holes)
	}
	if report.Published == 0 {
		t.Error("the log has nothing of what happened")
	}
	t.Logf("%d changes, %d of them in a log of %d entries, %d hidden by snapshots and gaps, %d gaps",
		report.States, report.Published, len(log), report.Hidden, len(report.Gaps))
	return report
}
