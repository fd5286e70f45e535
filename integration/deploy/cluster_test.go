// SPDX-License-Identifier: Apache-2.0

package deploy

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"

	"github.com/kube-eventbridge/kube-eventbridge/integration/controlplane"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
)

// cluster is a real API server with RBAC and Pod Security.
type cluster struct {
	api      *controlplane.ControlPlane
	kube     *kubernetes.Clientset
	objects  *dynamic.DynamicClient
	warnings *warnings
}

// warnings collects what the API server warns of.
type warnings struct {
	mu   sync.Mutex
	said []string
}

// HandleWarningHeader implements [rest.WarningHandler].
func (w *warnings) HandleWarningHeader(_ int, _, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.said = append(w.said, text)
}

func (w *warnings) take() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	said := w.said
	w.said = nil
	return said
}

// newCluster returns clients of an API server whose warnings the test alone sees.
func newCluster(t *testing.T, api *controlplane.ControlPlane) *cluster {
	t.Helper()
	c := &cluster{api: api, warnings: &warnings{}}
	cfg := c.api.RESTConfig()
	cfg.WarningHandler = c.warnings
	c.kube = must.Get(kubernetes.NewForConfig(cfg))(t)
	c.objects = must.Get(dynamic.NewForConfig(cfg))(t)
	return c
}

// An API server takes what kustomize and the chart make, under the restricted Pod Security Standard, and the bridge
// runs as the account that they make. That the bridge runs with the chart's values, with two replicas and with the
// embedded server is tested on a node, in package node.
func TestManifests(t *testing.T) {
	t.Parallel()
	api := controlplane.ForTest(t, controlplane.Config{RBAC: true})
	for _, namespace := range []string{"events", "read", "closed", "web", "shop", "kube-eventbridge"} {
		newCluster(t, api).namespace(t, namespace)
	}
	for name, test := range map[string]func(*testing.T, *cluster){
		"of the chart": ofTheChart, "of kustomize": ofKustomize, "for two namespaces": forTwoNamespaces,
		"of replicas": ofReplicas,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, newCluster(t, api))
		})
	}
}

// namespace makes one under the restricted standard.
func (c *cluster) namespace(t *testing.T, name string) {
	t.Helper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
		"pod-security.kubernetes.io/enforce": "restricted", "pod-security.kubernetes.io/warn": "restricted",
	}}}
	must.Get(c.kube.CoreV1().Namespaces().Create(t.Context(), ns, metav1.CreateOptions{}))(t)
}

// apply has the API server take an object, or with dry run say that it would. The server refuses fields that it does
// not know.
func (c *cluster) apply(t *testing.T, o *unstructured.Unstructured, dryRun bool) error {
	t.Helper()
	resources := must.Get(restmapper.GetAPIGroupResources(discovery.NewDiscoveryClient(c.kube.RESTClient())))(t)
	kind := o.GroupVersionKind()
	mapping, err := restmapper.NewDiscoveryRESTMapper(resources).RESTMapping(kind.GroupKind(), kind.Version)
	if err != nil {
		return err
	}
	text := must.Get(o.MarshalJSON())(t)
	force := true
	options := metav1.PatchOptions{
		FieldManager: "deploy-test", Force: &force,
		FieldValidation: metav1.FieldValidationStrict,
	}
	if dryRun {
		options.DryRun = []string{metav1.DryRunAll}
	}
	_, err = c.objects.Resource(mapping.Resource).Namespace(o.GetNamespace()).Patch(t.Context(), o.GetName(),
		types.ApplyPatchType, text, options)
	if err == nil {
		if said := c.warnings.take(); len(said) > 0 {
			return fmt.Errorf("the API server warns: %s", strings.Join(said, "; "))
		}
	}
	return err
}

// takes checks that the API server would take all of it, the Pod included, without a warning. Objects of the Prometheus
// Operator, whose definitions are not there, are checked against its own types.
func (c *cluster) takes(t *testing.T, m manifests) {
	t.Helper()
	for _, o := range m {
		switch o.GetKind() {
		case "ServiceMonitor":
			into[monitoring.ServiceMonitor](t, o)
			continue
		case "PrometheusRule":
			into[monitoring.PrometheusRule](t, o)
			continue
		}
		assert.NoError(t, c.apply(t, o, true), "%s %s", o.GetKind(), o.GetName())
	}
	assert.NoError(t, c.create(t, m.pod(t)), "the Pod")
}

// create is a dry run.
func (c *cluster) create(t *testing.T, p *corev1.Pod) error {
	t.Helper()
	_, err := c.kube.CoreV1().Pods(p.Namespace).Create(t.Context(), p,
		metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}, FieldValidation: metav1.FieldValidationStrict})
	if said := c.warnings.take(); err == nil && len(said) > 0 {
		return fmt.Errorf("the API server warns: %s", strings.Join(said, "; "))
	}
	return err
}

// grant applies the service account and its permissions for real, and returns who that account is, by a token as Pods
// have it.
func (c *cluster) grant(t *testing.T, m manifests) *rest.Config {
	t.Helper()
	for _, kind := range []string{"ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"} {
		for _, o := range m.of(kind) {
			require.NoError(t, c.apply(t, o, false))
		}
	}
	account := m.pod(t).Spec.ServiceAccountName
	token, err := c.kube.CoreV1().ServiceAccounts(m.pod(t).Namespace).CreateToken(t.Context(), account, tokenRequest(),
		metav1.CreateOptions{})
	require.NoError(t, err)
	admin := c.api.RESTConfig()
	return &rest.Config{
		Host: admin.Host, BearerToken: token.Status.Token,
		TLSClientConfig: rest.TLSClientConfig{CAData: admin.CAData},
	}
}
