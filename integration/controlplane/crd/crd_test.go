// SPDX-License-Identifier: Apache-2.0

package crd_test

import (
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
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
	anything := &apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: new(true)}
	if err := crd.Install(t.Context(), c.RESTConfig(), &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "widgets.demo.example.com"},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: "demo.example.com", Scope: apiextensionsv1.NamespaceScoped,
			Names:    apiextensionsv1.CustomResourceDefinitionNames{Plural: "widgets", Singular: "widget", Kind: "Widget", ListKind: "WidgetList"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{Name: "v1", Served: true, Storage: true, Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: anything}}},
		},
	}); err != nil {
		t.Fatal(err)
	}
	k := must.Get(dynamic.NewForConfig(c.RESTConfig()))(t)
	widgets := schema.GroupVersionResource{Group: "demo.example.com", Version: "v1", Resource: "widgets"}
	if _, err := k.Resource(widgets).Namespace("default").Create(t.Context(), &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "demo.example.com/v1", "kind": "Widget", "metadata": map[string]any{"name": "round"},
	}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}
