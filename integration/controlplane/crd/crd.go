// SPDX-License-Identifier: Apache-2.0

// Package crd installs custom resource definitions into a control plane of a test, with envtest.
package crd

import (
	"context"
	"fmt"

	"github.com/go-logr/logr"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// Install creates or updates definitions and returns once discovery shows their resources. It looks at ctx before, not
// during the ten seconds at most that this takes. It silences controller-runtime's log, of which a process has only one.
func Install(ctx context.Context, cfg *rest.Config, crds ...*apiextensionsv1.CustomResourceDefinition) error {
	if ctx.Err() != nil {
		return fmt.Errorf("install CRDs: %w", context.Cause(ctx))
	}
	log.SetLogger(logr.New(log.NullLogSink{})) // else it complains on stderr, half a minute later, that nobody did
	if _, err := envtest.InstallCRDs(rest.CopyConfig(cfg), envtest.CRDInstallOptions{CRDs: crds}); err != nil {
		return fmt.Errorf("install CRDs: %w", err)
	}
	return nil
}
