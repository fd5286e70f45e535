// SPDX-License-Identifier: Apache-2.0

package drive

import (
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kube-eventbridge/kube-eventbridge/integration/controlplane/crd"
)

// Label is the label that the driver changes; Selector selects the objects where it is yes, which is every second one
// at first.
const (
	Label    = "faults.example.com/watched"
	Selector = Label + "=yes"
)

// Finalizer is the finalizer that makes deletions wait.
const Finalizer = "faults.example.com/wait"

// Kind is something that the driver changes.
type Kind struct {
	Resource   schema.GroupVersionResource
	Kind       string
	Namespaced bool
}

// The kinds: two that are built in and namespaced, one of which is secret, a custom resource, and one that is
// cluster-scoped.
var (
	ConfigMaps = Kind{schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}, "ConfigMap", true}
	Secrets    = Kind{schema.GroupVersionResource{Version: "v1", Resource: "secrets"}, "Secret", true}
	Widgets    = Kind{
		schema.GroupVersionResource{Group: "faults.example.com", Version: "v1", Resource: "widgets"},
		"Widget", true,
	}
	ClusterRoles = Kind{schema.GroupVersionResource{
		Group: "rbac.authorization.k8s.io", Version: "v1",
		Resource: "clusterroles",
	}, "ClusterRole", false}
	// OldWidgets are widgets in the version that they had before, in which they are served too.
	OldWidgets = Kind{Widgets.Resource.GroupResource().WithVersion("v1beta1"), Widgets.Kind, true}
	// Namespaces are not changed by the driver.
	Namespaces = Kind{schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}, "Namespace", false}
)

// Kinds returns all kinds that the driver changes.
func Kinds() []Kind { return []Kind{ConfigMaps, Secrets, Widgets, ClusterRoles} }

// WidgetDefinition returns the definition of widgets. It is the caller's to change.
func WidgetDefinition() *apiextensionsv1.CustomResourceDefinition {
	d := crd.Define(Widgets.Resource, Widgets.Kind)
	old := d.Spec.Versions[0]
	old.Name, old.Storage = OldWidgets.Resource.Version, false
	d.Spec.Versions = append(d.Spec.Versions, old)
	return d
}
