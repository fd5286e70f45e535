// SPDX-License-Identifier: Apache-2.0

// Package crd installs custom resource definitions into a control plane of a test, with envtest.
package crd

import (
	"context"
	"fmt"
	"strings"

	"github.com/go-logr/logr"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// Define returns the definition of a namespaced kind, in one version, whose objects can have any content.
func Define(of schema.GroupVersionResource, kind string) *apiextensionsv1.CustomResourceDefinition {
	anything := &apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: new(true)}
	return &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: of.GroupResource().String()},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: of.Group, Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{
				Plural: of.Resource, Singular: strings.ToLower(kind), Kind: kind, ListKind: kind + "List",
			},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: of.Version, Served: true, Storage: true,
				Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: anything},
			}},
		},
	}
}

// Install creates or updates definitions and returns once discovery shows their resources. It looks at ctx before, not
// during the ten seconds at most that this takes. It silences controller-runtime's log, of which a process has only
// one.
func Install(ctx context.Context, cfg *rest.Config, crds ...*apiextensionsv1.CustomResourceDefinition) error {
	if ctx.Err() != nil {
		return fmt.Errorf("install CRDs: %w", context.Cause(ctx))
	}
	log.SetLogger(logr.New(log.NullLogSink{})) // else it complains on stderr, half a minute later, that it was not set
	if _, err := envtest.InstallCRDs(rest.CopyConfig(cfg), envtest.CRDInstallOptions{CRDs: crds}); err != nil {
		return fmt.Errorf("install CRDs: %w", err)
	}
	return nil
}
