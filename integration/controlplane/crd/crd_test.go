// SPDX-License-Identifier: Apache-2.0

package crd_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/kube-eventbridge/kube-eventbridge/integration/controlplane"
	"github.com/kube-eventbridge/kube-eventbridge/integration/controlplane/crd"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
)

func TestInstall_objects_can_be_created_at_once(t *testing.T) {
	c := controlplane.ForTest(t, controlplane.Config{})
	widgets := schema.GroupVersionResource{Group: "demo.example.com", Version: "v1", Resource: "widgets"}
	require.NoError(t, crd.Install(t.Context(), c.RESTConfig(), crd.Define(widgets, "Widget")))
	k := must.Get(dynamic.NewForConfig(c.RESTConfig()))(t)
	namespaced := k.Resource(widgets).Namespace("default")
	must.Get(namespaced.Create(t.Context(), &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "demo.example.com/v1", "kind": "Widget", "metadata": map[string]any{"name": "round"},
	}}, metav1.CreateOptions{}))(t)
}
