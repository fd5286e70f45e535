// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
)

const (
	kubectlName           = "kubectl"
	controllerManagerName = "kube-controller-manager"
)

// NodeBinaries returns a directory with what makes a cluster with nodes of a control plane, and with what its users
// type: kube-controller-manager, kube-scheduler, kube-proxy, kubelet, kubectl and helm. They are built as [Binaries]
// builds, of the same version of Kubernetes, into the same directory of the cache, whatever KUBEBUILDER_ASSETS says;
// helm is of the version in the go.mod of the integration tests, with the libraries that these use.
func NodeBinaries(ctx context.Context, log io.Writer) (string, error) {
	if log == nil {
		log = io.Discard
	}
	b, err := newBuild(log)
	if err == nil {
		b.targets, err = b.nodeTargets()
	}
	if err == nil {
		err = b.run(ctx)
	}
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	return b.dir, nil
}

// Kubectl returns the path of a kubectl: the one on the path, or one that is built as [NodeBinaries] builds.
func Kubectl(ctx context.Context, log io.Writer) (string, error) {
	if path, err := exec.LookPath(kubectlName); err == nil {
		return path, nil
	}
	return nodeBinary(ctx, kubectlName, log)
}

// ControllerManager returns the path of a kube-controller-manager that is built as [NodeBinaries] builds.
func ControllerManager(ctx context.Context, log io.Writer) (string, error) {
	return nodeBinary(ctx, controllerManagerName, log)
}

// nodeBinary builds one of the programs of [NodeBinaries].
func nodeBinary(ctx context.Context, name string, log io.Writer) (string, error) {
	if log == nil {
		log = io.Discard
	}
	b, err := newBuild(log)
	if err == nil {
		b.targets, err = b.nodeTargets()
	}
	if err == nil {
		b.targets = slices.DeleteFunc(b.targets, func(t target) bool { return t.name != name })
		err = b.run(ctx)
	}
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	return filepath.Join(b.dir, name), nil
}

var helmRequirement = regexp.MustCompile(`(?m)^\s*helm\.sh/helm/v4 (v\S+)`)

func (b *build) nodeTargets() ([]target, error) {
	kube := b.version["k8s.io/kubernetes"]
	var targets []target
	for _, name := range []string{controllerManagerName, "kube-scheduler", "kube-proxy", "kubelet", kubectlName} {
		targets = append(targets, target{
			name: name, pkg: "k8s.io/kubernetes/cmd/" + name, version: kube,
			flags: versionFlags(kube), takes: "about a minute",
		})
	}
	integration := filepath.Join(b.module, "..", "..")
	mod, err := os.ReadFile(filepath.Join(integration, "go.mod"))
	if err != nil {
		return nil, fmt.Errorf("read pinned versions: %w", err)
	}
	helm := helmRequirement.FindSubmatch(mod)
	if helm == nil {
		return nil, errors.New("the go.mod of the integration tests does not pin helm")
	}
	return append(targets, target{
		name: "helm", pkg: "helm.sh/helm/v4/cmd/helm", version: string(helm[1]), flags: "-s -w",
		takes: "some seconds", module: integration,
	}), nil
}
