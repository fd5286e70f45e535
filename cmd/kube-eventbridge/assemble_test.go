// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	"github.com/kube-eventbridge/kube-eventbridge/internal/config"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestStreams_name_a_resource_so_that_the_API_server_knows_it(t *testing.T) {
	cfg, err := config.FromArgs(config.Args{Resources: []string{"pods.v1", "deployments.v1.apps", "widgets.example.com", "nodes"}})
	require.NoError(t, err)
	specs, _, err := (&process{cfg: cfg}).streams(&cfg.Pipelines[0], checkpoint.Identity{Cluster: "c"})
	require.NoError(t, err)
	for i, want := range []schema.GroupVersionResource{
		{Version: "v1", Resource: "pods"},
		{Group: "apps", Version: "v1", Resource: "deployments"},
		{Group: "example.com", Resource: "widgets"},
		{Resource: "nodes"},
	} {
		full, group := schema.ParseResourceArg(specs[i].Resource)
		got := group.WithVersion("")
		if want.Version != "" && full != nil {
			got = *full
		}
		assert.Equal(t, want, got, "%s is read as", specs[i].Resource)
	}
}

func TestStreams_are_one_for_each_namespace(t *testing.T) {
	const file = `{pipelines: [{name: a, resources: [
    {resource: pods, namespaces: [x, y], delivery: latest, snapshot: never, labelSelector: "a=b"}, {resource: nodes}]}]}`
	cfg, _, err := config.Parse("f", []byte(file))
	require.NoError(t, err)
	specs, _, err := (&process{cfg: cfg}).streams(&cfg.Pipelines[0], checkpoint.Identity{Cluster: "c"})
	require.NoError(t, err)
	require.Len(t, specs, 3)
	for i, namespace := range []string{"x", "y", ""} {
		if s := specs[i]; s.Namespace != namespace || s.Latest != (i < 2) || s.SkipSnapshot != (i < 2) || (s.LabelSelector == "a=b") != (i < 2) {
			t.Errorf("stream %d is %+v", i, s)
		}
	}
}
