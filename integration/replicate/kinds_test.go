// SPDX-License-Identifier: Apache-2.0

package replicate

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/kube-eventbridge/kube-eventbridge/integration/controlplane"
	"github.com/kube-eventbridge/kube-eventbridge/integration/internal/rig"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
	"github.com/kube-eventbridge/kube-eventbridge/internal/replica"
	"github.com/kube-eventbridge/kube-eventbridge/internal/replica/clean"
	"github.com/kube-eventbridge/kube-eventbridge/internal/replica/guard"
	"github.com/kube-eventbridge/kube-eventbridge/internal/replica/plan"
	"github.com/kube-eventbridge/kube-eventbridge/internal/replica/selection"
	"github.com/kube-eventbridge/kube-eventbridge/internal/replica/write"
	"github.com/kube-eventbridge/kube-eventbridge/internal/testtier"
)

// kindsWithoutManifest are the kinds that no test replicates, and why.
var kindsWithoutManifest = map[string]string{
	"apiservices.apiregistration.k8s.io": "one whose service is missing makes discovery fail, for the bridge too",
}

// namedKinds are left out where nothing but a wildcard selects them. The test names them.
var namedKinds = []schema.GroupResource{
	{Resource: "nodes"},
	{Resource: "events"},
	{Resource: "endpoints"},
	{Resource: "persistentvolumes"},
	{Group: "discovery.k8s.io", Resource: "endpointslices"},
	{Group: "apps", Resource: "controllerrevisions"},
	{Group: "coordination.k8s.io", Resource: "leases"},
	{Group: "storage.k8s.io", Resource: "csinodes"},
	{Group: "storage.k8s.io", Resource: "csistoragecapacities"},
	{Group: "storage.k8s.io", Resource: "volumeattachments"},
	{Group: "resource.k8s.io", Resource: "resourceslices"},
	{Group: "networking.k8s.io", Resource: "ipaddresses"},
	{Group: "networking.k8s.io", Resource: "servicecidrs"},
	{Group: "flowcontrol.apiserver.k8s.io", Resource: "flowschemas"},
	{Group: "flowcontrol.apiserver.k8s.io", Resource: "prioritylevelconfigurations"},
	{Group: "certificates.k8s.io", Resource: "certificatesigningrequests"},
}

var kindsNamespaces = map[string]string{"shop": "copy", "bounds": "limits"}

// TestKinds_arrive_unchanged replicates an object of every kind that the API server serves, with all the fields that it
// takes. It compares source and target field by field, when they were created and when each was changed. A replica that
// is started again writes nothing. In the end all are deleted.
func TestKinds_arrive_unchanged(t *testing.T) {
	testtier.Needs(t, testtier.All)
	k := newKinds(t)
	for _, o := range manifests(t) {
		k.create(o)
	}
	k.createOddObjects()
	k.hasManifests()
	k.fields()
	r, stop := k.run()
	k.same(r, "created")
	stop()
	before := k.applied()
	r, _ = k.run()
	k.quiet(r, before)
	k.replaced()

	for _, id := range k.ids {
		k.patch(id, []byte(`{"metadata":{"labels":{"changed":"yes","gone":null},"annotations":{"changed":"yes"}}}`))
	}
	k.same(r, "changed")

	for _, id := range slices.Backward(k.ids) {
		if id.resource.Resource != "namespaces" && id.resource.Resource != "customresourcedefinitions" {
			k.delete(id)
		}
	}
	k.gone(r)
}

// kinds are the objects that the test replicates.
type kinds struct {
	*clusters
	from, to *dynamic.DynamicClient
	// resources are those of the source, by what objects say of themselves.
	resources map[schema.GroupVersionKind]metav1.APIResource
	ids       []kindID
}

// kindID names an object of the source.
type kindID struct {
	resource        schema.GroupVersionResource
	namespace, name string
}

func (id kindID) String() string {
	return fmt.Sprintf("%s %s/%s", id.resource.GroupResource(), id.namespace, id.name)
}

func newKinds(t *testing.T) *kinds {
	t.Helper()
	server := func(args ...string) controlplane.Config {
		return controlplane.Config{ServiceAccounts: true, APIServerArgs: args}
	}
	k := &kinds{clusters: newClustersOn(t, `[{resource: "*"}]`, [2]controlplane.Config{
		server("--service-cluster-ip-range=10.1.0.0/24", "--service-node-port-range=32000-32767"),
		server("--service-cluster-ip-range=10.2.0.0/24", "--service-node-port-range=30000-32200"),
	}, "managedFields")}
	k.from, k.to = k.dynamic(k.source), k.dynamic(k.target)
	k.discover()
	return k
}

func (k *kinds) dynamic(c *controlplane.ControlPlane) *dynamic.DynamicClient {
	k.t.Helper()
	cfg := rest.CopyConfig(c.RESTConfig())
	cfg.QPS, cfg.WarningHandler = -1, rest.NoWarnings{}
	return must.Get(dynamic.NewForConfig(cfg))(k.t)
}

// discover asks the source which resources it serves.
func (k *kinds) discover() {
	k.t.Helper()
	client := must.Get(discovery.NewDiscoveryClientForConfig(k.source.RESTConfig()))(k.t)
	_, lists, err := client.ServerGroupsAndResources()
	require.NoError(k.t, err)
	k.resources = make(map[schema.GroupVersionKind]metav1.APIResource)
	for _, list := range lists {
		gv := must.Get(schema.ParseGroupVersion(list.GroupVersion))(k.t)
		for _, r := range list.APIResources {
			if strings.Contains(r.Name, "/") || !hasVerbs(r, "list", "watch", "create") {
				continue
			}
			r.Group, r.Version = gv.Group, gv.Version
			k.resources[gv.WithKind(r.Kind)] = r
		}
	}
}

func hasVerbs(r metav1.APIResource, verbs ...string) bool {
	return !slices.ContainsFunc(verbs, func(v string) bool { return !slices.Contains(r.Verbs, v) })
}

// hasManifests fails the test if a kind has neither a manifest nor a reason.
func (k *kinds) hasManifests() {
	k.t.Helper()
	missing := make(map[string]bool)
	for _, r := range k.resources {
		name := schema.GroupResource{Group: r.Group, Resource: r.Name}.String()
		missing[name] = missing[name] || kindsWithoutManifest[name] == ""
	}
	for _, id := range k.ids {
		name := id.resource.GroupResource().String()
		assert.Empty(k.t, kindsWithoutManifest[name], "%s has a manifest", name)
		delete(missing, name)
	}
	maps.DeleteFunc(missing, func(_ string, without bool) bool { return !without })
	assert.Empty(k.t, slices.Sorted(maps.Keys(missing)), "kinds without a manifest in testdata/kinds")
}

// firstKinds are created before others: the API server refuses objects that need them.
var firstKinds = []string{
	"Namespace", "CustomResourceDefinition", "PriorityClass", "RuntimeClass", "ServiceAccount",
}

// manifests returns the objects in the files, in the order in which they can be created.
func manifests(t *testing.T) (all []*unstructured.Unstructured) {
	t.Helper()
	podSpec := documents(t, "testdata/kinds/podspec.yaml")[0]
	for _, path := range must.Get(filepath.Glob("testdata/kinds/*.yaml"))(t) {
		if filepath.Base(path) == "podspec.yaml" {
			continue
		}
		for _, object := range documents(t, path) {
			included, _ := include(object, podSpec).(map[string]any)
			all = append(all, &unstructured.Unstructured{Object: included})
		}
	}
	rank := func(o *unstructured.Unstructured) int {
		if i := slices.Index(firstKinds, o.GetKind()); i >= 0 {
			return i
		}
		return len(firstKinds)
	}
	slices.SortStableFunc(all, func(a, b *unstructured.Unstructured) int { return rank(a) - rank(b) })
	return all
}

func documents(t *testing.T, path string) (all []map[string]any) {
	t.Helper()
	d := yaml.NewYAMLToJSONDecoder(bytes.NewReader(must.Get(os.ReadFile(path))(t)))
	for {
		var object map[string]any
		err := d.Decode(&object)
		if errors.Is(err, io.EOF) {
			return all
		}
		require.NoError(t, err, path)
		all = append(all, object)
	}
}

// include puts the spec of a pod where "$include: podspec" is. The other members there win; those that are null are
// removed.
func include(v any, podSpec map[string]any) any {
	switch v := v.(type) {
	case map[string]any:
		if _, has := v["$include"]; has {
			spec := (&unstructured.Unstructured{Object: podSpec}).DeepCopy().Object
			maps.Copy(spec, v)
			delete(spec, "$include")
			maps.DeleteFunc(spec, func(_ string, v any) bool { return v == nil })
			return spec
		}
		for name, value := range v {
			v[name] = include(value, podSpec)
		}
	case []any:
		for i := range v {
			v[i] = include(v[i], podSpec)
		}
	}
	return v
}

// create makes an object in the source, in namespace shop if it does not say otherwise.
func (k *kinds) create(o *unstructured.Unstructured) kindID {
	k.t.Helper()
	rig.Poll(k.t, "a source that serves "+o.GroupVersionKind().String(), func() (bool, string) {
		_, served := k.resources[o.GroupVersionKind()]
		if !served {
			k.discover()
		}
		return served, ""
	})
	r := k.resources[o.GroupVersionKind()]
	id := kindID{resource: schema.GroupVersionResource{Group: r.Group, Version: r.Version, Resource: r.Name}}
	if id.name = o.GetName(); r.Namespaced {
		id.namespace = o.GetNamespace()
		if id.namespace == "" {
			id.namespace = "shop"
		}
	}
	rig.Poll(k.t, "a source that takes "+id.String(), func() (bool, string) {
		_, err := k.at(k.from, id, id.namespace).Create(k.t.Context(), o, metav1.CreateOptions{
			FieldManager: "kinds", FieldValidation: metav1.FieldValidationStrict,
		})
		require.False(k.t, apierrors.IsInvalid(err) || apierrors.IsBadRequest(err), "%s: %v", id, err)
		return err == nil, fmt.Sprint(err) // a resource that was defined a moment ago is not there yet
	})
	k.ids = append(k.ids, id)
	return id
}

func (k *kinds) at(c *dynamic.DynamicClient, id kindID, namespace string) dynamic.ResourceInterface {
	if id.namespace == "" {
		return c.Resource(id.resource)
	}
	return c.Resource(id.resource).Namespace(namespace)
}

func (k *kinds) patch(id kindID, patch []byte) {
	k.t.Helper()
	_, err := k.at(k.from, id, id.namespace).Patch(k.t.Context(), id.name, types.MergePatchType, patch,
		metav1.PatchOptions{FieldManager: "changes"})
	require.NoError(k.t, err, id)
}

func (k *kinds) delete(id kindID) {
	k.t.Helper()
	err := k.at(k.from, id, id.namespace).Delete(k.t.Context(), id.name,
		metav1.DeleteOptions{GracePeriodSeconds: new(int64)})
	require.NoError(k.t, err, id)
	// No controller removes finalizers.
	_, err = k.at(k.from, id, id.namespace).Patch(k.t.Context(), id.name, types.MergePatchType,
		[]byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
	require.True(k.t, err == nil || apierrors.IsNotFound(err), "%s: %v", id, err)
}

// createOddObjects makes objects that are unusual in other ways than by their kind.
func (k *kinds) createOddObjects() {
	object := func(text string) *unstructured.Unstructured {
		k.t.Helper()
		o := &unstructured.Unstructured{}
		require.NoError(k.t, yaml.Unmarshal([]byte(text), &o.Object))
		return o
	}
	configMap := func(name string) *unstructured.Unstructured {
		return object("{apiVersion: v1, kind: ConfigMap, metadata: {name: " + name + "}, data: {a: b}}")
	}

	large := configMap("large")
	text := strings.Repeat("0123456789\n", 900*1024/11)
	require.NoError(k.t, unstructured.SetNestedField(large.Object, text, "data", "text"))
	k.create(large)

	binary := make([]byte, 64<<10)
	for i := range binary {
		binary[i] = byte(i * 7)
	}
	bytes := configMap("binary")
	require.NoError(k.t, unstructured.SetNestedStringMap(bytes.Object, map[string]string{
		"all": base64.StdEncoding.EncodeToString(binary), "empty": "",
	}, "binaryData"))
	k.create(bytes)

	many, texts := configMap("many-annotations"), make(map[string]string)
	for i := range 60 {
		texts[fmt.Sprintf("example.com/note-%d", i)] = fmt.Sprintf("ünïcode %d 漢字\n<&>", i)
	}
	texts["kubectl.kubernetes.io/last-applied-configuration"] = `{"apiVersion":"v1"}`
	texts["argocd.argoproj.io/tracking-id"] = "x"
	many.SetAnnotations(texts)
	many.SetLabels(map[string]string{
		"app.kubernetes.io/instance": "i", "argocd.argoproj.io/instance": "x", "empty": "",
	})
	k.create(many)

	held := configMap("held")
	held.SetFinalizers([]string{"example.com/f", "example.com/g"})
	held.SetGenerateName("held-")
	owner := k.create(held)

	owned := configMap("owned")
	owned.SetOwnerReferences([]metav1.OwnerReference{{
		APIVersion: "v1", Kind: "ConfigMap", Name: owner.name, UID: k.get(k.from, owner, "shop").GetUID(),
		BlockOwnerDeletion: new(true), Controller: new(false),
	}})
	k.create(owned)

	managed := k.create(configMap("managed"))
	for i := range 8 {
		applied := object(fmt.Sprintf(
			"{apiVersion: v1, kind: ConfigMap, metadata: {name: managed, labels: {m%d: x}}, data: {m%d: ü, shared: s}}", i, i))
		_, err := k.at(k.from, managed, "shop").Apply(k.t.Context(), managed.name, applied,
			metav1.ApplyOptions{FieldManager: fmt.Sprint("manager-", i)})
		require.NoError(k.t, err)
	}
	_, err := k.at(k.from, managed, "shop").Update(k.t.Context(), k.get(k.from, managed, "shop"),
		metav1.UpdateOptions{FieldManager: "kubectl-client-side-apply"})
	require.NoError(k.t, err)

	ending := configMap("ending")
	ending.SetFinalizers([]string{"example.com/f"})
	ends := k.create(ending)
	require.NoError(k.t, k.at(k.from, ends, "shop").Delete(k.t.Context(), ends.name, metav1.DeleteOptions{}))

	bound := k.create(object(`{apiVersion: v1, kind: Pod, metadata: {name: bound}, spec: {serviceAccountName: runs,
  nodeName: nn, containers: [{name: a, image: x}]}}`))
	_, err = k.at(k.from, bound, "shop").Patch(k.t.Context(), bound.name, types.StrategicMergePatchType,
		[]byte(`{"spec":{"ephemeralContainers":[{"name":"debug","image":"x","targetContainerName":"a"}]}}`),
		metav1.PatchOptions{}, "ephemeralcontainers")
	require.NoError(k.t, err)

	// The API server takes duplicates from a client that creates, and not from one that applies.
	k.create(object(`{apiVersion: apps/v1, kind: Deployment, metadata: {name: duplicates}, spec: {
  selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: a, image: x,
  env: [{name: A, value: "1"}, {name: A, value: "2"}, {name: B}],
  ports: [{containerPort: 80}, {containerPort: 80}]}]}}}}`))

	k.create(configMap("emptied")) // an update with nulls and empty maps
	k.patch(k.ids[len(k.ids)-1], []byte(`{"data":{},"binaryData":{},"metadata":{"labels":{},"annotations":{}}}`))
	for _, id := range k.ids {
		if id.name == "node-port" {
			k.patch(id, []byte(`{"metadata":{"labels":{"gone":"soon"}}}`))
		}
	}
}

func (k *kinds) get(c *dynamic.DynamicClient, id kindID, namespace string) *unstructured.Unstructured {
	k.t.Helper()
	return must.Get(k.at(c, id, namespace).Get(k.t.Context(), id.name, metav1.GetOptions{}))(k.t)
}

// run runs a replica that selects everything.
func (k *kinds) run() (r *replica.Replica, stop func()) {
	k.t.Helper()
	rules := clean.Config{Namespaces: kindsNamespaces}
	entries := []selection.Entry{k.entry("*", "", rules)}
	for _, named := range namedKinds {
		entries = append(entries, k.entry(named.Group, named.Resource, rules))
	}
	cfg := k.replicaConfig("kinds", entries...)
	cfg.Limit, cfg.Config = guard.Limit{Percent: 100}, plan.Config{Existing: plan.Refuse, Deletes: true}
	return k.replicate(cfg)
}

// applied returns which sequence was applied to each object of the target.
func (k *kinds) applied() map[kindID]string {
	k.t.Helper()
	all := make(map[kindID]string)
	for _, id := range k.ids {
		namespace, name := placeOf(id)
		target := must.Get(k.at(k.to, id, namespace).Get(k.t.Context(), name, metav1.GetOptions{}))(k.t)
		all[id] = target.GetAnnotations()[clean.OriginSequence]
	}
	return all
}

// repaired is how often the address of the source's own Service is written at most: the target's API server deletes it
// every five seconds, because its Service has another one. Then it is contested.
const repaired = 4

// quiet waits until a replica that was started again has written what is new in the source, and nothing else. The API
// server writes the status of some objects.
func (k *kinds) quiet(r *replica.Replica, before map[kindID]string) {
	k.t.Helper()
	settled(k.t, r)
	rig.Poll(k.t, "a replica that writes nothing again", func() (bool, string) {
		var changed []kindID
		for id, sequence := range k.applied() {
			if sequence != before[id] {
				changed = append(changed, id)
			}
		}
		s, _ := r.Status()
		done, most := s.Writes["done"], uint64(len(changed)+repaired)
		return done >= uint64(len(changed)) && done <= most, fmt.Sprintf("%d writes, and changes of %v", done, changed)
	})
}

// replaced fails the test if a request that replaces an object of the target by the source's would change it.
func (k *kinds) replaced() {
	k.t.Helper()
	rules := must.Get(clean.New(clean.Config{Replica: "kinds", Namespaces: kindsNamespaces}))(k.t)
	for _, id := range k.ids {
		if id.resource.Resource == "customresourcedefinitions" {
			continue // its API server writes the status meanwhile
		}
		resource := id.resource.GroupResource()
		namespace, name := placeOf(id)
		wanted := k.get(k.from, id, id.namespace)
		target := must.Get(k.at(k.to, id, namespace).Get(k.t.Context(), name, metav1.GetOptions{}))(k.t)
		require.NoError(k.t, rules.Object(resource, wanted.Object), id)
		annotations := wanted.GetAnnotations()
		if annotations == nil {
			annotations = make(map[string]string)
		}
		for _, origin := range []string{clean.Origin, clean.OriginUID, clean.OriginSequence} {
			annotations[origin] = target.GetAnnotations()[origin]
		}
		wanted.SetAnnotations(annotations)
		rules.Retain(resource, wanted.Object, target.DeepCopy().Object)
		replaced, err := k.at(k.to, id, namespace).Update(k.t.Context(), wanted,
			metav1.UpdateOptions{FieldManager: write.Manager, DryRun: []string{metav1.DryRunAll}})
		if !assert.NoError(k.t, err, id) {
			continue
		}
		replaced.SetManagedFields(nil)
		target.SetManagedFields(nil)
		assert.Empty(k.t, cmp.Diff(target.Object, replaced.Object), id)
	}
}

// placeOf returns where an object is in the target.
func placeOf(id kindID) (namespace, name string) {
	namespace, name = id.namespace, id.name
	if to, mapped := kindsNamespaces[namespace]; mapped {
		namespace = to
	}
	if to, mapped := kindsNamespaces[name]; mapped && id.resource.Resource == "namespaces" {
		name = to
	}
	return namespace, name
}

// same waits until each object is in the target as it is in the source.
func (k *kinds) same(r *replica.Replica, what string) {
	k.t.Helper()
	rig.Poll(k.t, "objects that are the same once they were "+what, func() (bool, string) {
		var different []string
		for _, id := range k.ids {
			if d := k.difference(id); d != "" {
				different = append(different, fmt.Sprintf("%s: %s", id, d))
			}
		}
		s, _ := r.Status()
		return len(different) == 0 && s.Pending == 0,
			fmt.Sprintf("%d differ:\n%s\n%+v\n%+v", len(different), strings.Join(different, "\n"), s, r.Waiting(100))
	})
}

// difference says how an object of the target differs from the source's.
func (k *kinds) difference(id kindID) string {
	source, err := k.at(k.from, id, id.namespace).Get(k.t.Context(), id.name, metav1.GetOptions{})
	if err != nil {
		return err.Error()
	}
	namespace, name := placeOf(id)
	target, err := k.at(k.to, id, namespace).Get(k.t.Context(), name, metav1.GetOptions{})
	if err != nil {
		return err.Error()
	}
	if d := cmp.Diff(expected(id, source.Object), actual(id, target.Object)); d != "" {
		return d
	}
	for _, path := range absent {
		protects := func(v any) bool { return strings.HasSuffix(fmt.Sprint(v), "-protection]") } // set by the target
		if left := slices.DeleteFunc(find(target.Object, path), protects); len(left) > 0 {
			return fmt.Sprintf("%s is in the target: %v", strings.Join(path, " "), left)
		}
	}
	return ""
}

// gone waits until the target has none of the objects that were deleted.
func (k *kinds) gone(r *replica.Replica) {
	k.t.Helper()
	rig.Poll(k.t, "objects that are gone", func() (bool, string) {
		var left []string
		for _, id := range k.ids {
			_, err := k.at(k.from, id, id.namespace).Get(k.t.Context(), id.name, metav1.GetOptions{})
			namespace, name := placeOf(id)
			target, there := k.at(k.to, id, namespace).Get(k.t.Context(), name, metav1.GetOptions{})
			ends := there == nil && target.GetDeletionTimestamp() != nil // no controller removes finalizers
			if (err == nil) != (there == nil) && !ends {
				left = append(left, fmt.Sprintf("%s: source %v, target %v", id, err, there))
			}
		}
		return len(left) == 0, fmt.Sprintf("%s\n%+v", strings.Join(left, "\n"), r.Waiting(100))
	})
}
