// SPDX-License-Identifier: Apache-2.0

package clean

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/kube-eventbridge/kube-eventbridge/encode/jsonscan"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
)

func TestNew_refuses_what_cannot_be_undone(t *testing.T) {
	for _, c := range []struct {
		name   string
		config Config
		want   string
	}{
		{"one to one", Config{Namespaces: map[string]string{"a": "b", "b": "a", "c": "c"}, Selected: []string{"a", "b", "c", "d"}}, ""},
		{
			"two sources",
			Config{Namespaces: map[string]string{"a": "c", "b": "c"}},
			`namespaces "a" and "b" are both mapped to "c"; give each a target of its own`,
		},
		{
			"a selected namespace that keeps its name",
			Config{Namespaces: map[string]string{"a": "b"}, Selected: []string{"a", "b"}},
			`namespace "b" keeps its name, and "a" is mapped to it; map "b" too, or give "a" another target`,
		},
		{"every namespace", Config{Namespaces: map[string]string{"a": "b"}}, ""},
		{"no name", Config{Namespaces: map[string]string{"a": ""}}, "a namespace of the mapping has no name"},
		{
			"the name is ignored",
			Config{Ignore: paths("metadata.name")},
			`path "metadata.name": metadata.name identifies the object in both clusters; name something else`,
		},
		{
			"the metadata is ignored",
			Config{Ignore: paths("metadata[*]")},
			`path "metadata[*]": metadata.name identifies the object in both clusters; name something else`,
		},
		{
			"all labels are ignored",
			Config{Ignore: paths("metadata.labels")},
			`path "metadata.labels": metadata.labels["kube-eventbridge.io/replica"] identifies the object in both clusters; name something else`,
		},
		{"everything is ignored", Config{Ignore: paths("[*]")}, `path "[*]": it is all of the object; begin with a name, as in spec or data`},
		{"some are ignored", Config{Ignore: paths("spec.replicas", `metadata.labels["a/b"]`, "data")}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := New(c.config)
			if c.want == "" {
				require.NoError(t, err)
			} else {
				assert.EqualError(t, err, c.want)
			}
		})
	}
}

func TestTarget_and_Source_are_inverse(t *testing.T) {
	names := rapid.SampledFrom([]string{"a", "b", "c", "d"})
	rapid.Check(t, func(t *rapid.T) {
		r, err := New(Config{Namespaces: rapid.MapOfN(names, names, 0, 4).Draw(t, "mapping")})
		if err != nil {
			t.Skip()
		}
		for _, resource := range []schema.GroupResource{namespaces, core("pods")} {
			key := types.NamespacedName{Namespace: names.Draw(t, "namespace"), Name: names.Draw(t, "name")}
			if target, ok := r.Target(resource, key); ok {
				back, ok := r.Source(resource, target)
				assert.True(t, ok)
				assert.Equal(t, key, back)
			}
			if source, ok := r.Source(resource, key); ok {
				back, ok := r.Target(resource, source)
				assert.True(t, ok)
				assert.Equal(t, key, back)
			}
		}
	})
}

func TestObject_adds_labels_and_annotations_and_removes_what_is_ignored(t *testing.T) {
	r := must.Get(New(Config{
		Replica: "r", Labels: map[string]string{"team": "a"}, Annotations: map[string]string{"note": "x"},
		Ignore: paths("spec.replicas", "spec.containers[*].env", `metadata.annotations["a/b"]`, "data[*]", "spec.extra[*]"),
	}))(t)
	object := decoded(t, `
metadata: {name: a, labels: {team: b, app: c}, annotations: {a/b: x}}
spec: {replicas: 1, extra: {a: b}, containers: [{name: x, env: [{name: y}]}, null, {name: z}]}
data: {a: b}`)
	require.NoError(t, r.Object(core("widgets"), object))
	assert.Equal(t, decoded(t, `
metadata: {name: a, labels: {team: a, app: c, kube-eventbridge.io/replica: r}, annotations: {note: x}}
spec: {containers: [{name: x}, null, {name: z}]}`), object)
}

func TestObject_keeps_status_and_owners_if_told_so(t *testing.T) {
	r := must.Get(New(Config{Status: true, Owned: Remap}))(t)
	const text = `
metadata: {name: a, ownerReferences: [{uid: o, controller: true}, {uid: p}]}
status: {ready: true}`
	object := decoded(t, text)
	require.NoError(t, r.Object(core("widgets"), object))
	want := decoded(t, text)
	set(want["metadata"].(map[string]any), "labels", map[string]string{Label: ""})
	assert.Equal(t, want, object)

	for resource, kept := range map[schema.GroupResource]bool{
		namespaces: false, {Group: "apiextensions.k8s.io", Resource: "customresourcedefinitions"}: false, core("pods"): true,
	} {
		object = decoded(t, text)
		require.NoError(t, r.Object(resource, object))
		assert.Equal(t, kept, object["status"] != nil, resource)
	}

	known := map[types.UID]types.UID{"o": "o2"}
	uid := func(source types.UID, _ string) (types.UID, bool) { target, ok := known[source]; return target, ok }
	object = decoded(t, text)
	assert.Equal(t, []map[string]any{{"uid": "p"}}, Remapped(object, uid))
	assert.Equal(t, decoded(t, text), object, "an object with a missing owner waits as it is")
	known["p"] = "p2"
	assert.Empty(t, Remapped(object, uid))
	assert.Equal(t, []any{map[string]any{"uid": "o2", "controller": true}, map[string]any{"uid": "p2"}},
		in(object, "metadata", "ownerReferences"))
}

func TestObject_refuses_what_is_no_object_and_what_has_no_target(t *testing.T) {
	r := must.Get(New(Config{Namespaces: map[string]string{"a": "b"}}))(t)
	for text, want := range map[string]string{
		`{}`:                                        "the object has no metadata.name",
		`metadata: text`:                            "the object has no metadata.name",
		`metadata: {name: [x]}`:                     "the object has no metadata.name",
		`metadata: {name: x, labels: [y]}`:          "metadata.labels is not an object",
		`metadata: {name: x, annotations: y}`:       "metadata.annotations is not an object",
		`metadata: {name: x, namespace: b}`:         "b/x has no target: another namespace is mapped to the name of its own",
		`metadata: {name: x, labels: null, a: [1]}`: "",
	} {
		err := r.Object(core("pods"), decoded(t, text))
		if want == "" {
			require.NoError(t, err, text)
		} else {
			require.EqualError(t, err, want, text)
		}
	}
}

func TestRetain_keeps_what_belongs_to_the_target(t *testing.T) {
	for _, c := range []struct{ name, resource, desired, actual, want string }{
		{"metadata and ignored fields", "deployments.apps", `
metadata: {name: a, annotations: {mine: new}}
spec: {paused: true, template: {spec: {containers: [{name: a, image: x}, {name: b, image: y}]}}}`, `
metadata: {name: a, uid: u, resourceVersion: "7", finalizers: [f], annotations: {mine: old, theirs: x, deployment.kubernetes.io/revision: "2"}}
spec: {replicas: 3, paused: false, template: {spec: {containers: [{name: a, image: z, env: [{name: e}]}, {name: c, env: [{name: f}]}]}}}
status: {replicas: 3}`, `
metadata: {name: a, uid: u, resourceVersion: "7", finalizers: [f], annotations: {mine: new, deployment.kubernetes.io/revision: "2"}}
spec: {replicas: 3, paused: true, template: {spec: {containers: [{name: a, image: x, env: [{name: e}]}, {name: b, image: y}]}}}
status: {replicas: 3}`},
		{"a claim's volume", "persistentvolumeclaims", `
metadata: {name: a}
spec: {storageClassName: x}`, `
metadata: {name: a, annotations: {pv.kubernetes.io/bound-by-controller: "yes"}}
spec: {storageClassName: x, volumeName: pvc-9}`, `
metadata: {name: a, annotations: {pv.kubernetes.io/bound-by-controller: "yes"}}
spec: {storageClassName: x, volumeName: pvc-9}`},
		{"the rules of an aggregated ClusterRole only", "clusterroles.rbac.authorization.k8s.io", `
metadata: {name: a}`, `
metadata: {name: a}
rules: [{verbs: [get]}]`, `
metadata: {name: a}`},
		{"no address of a Service", "services", `
metadata: {name: a}
spec: {type: ExternalName}`, `
metadata: {name: a}
spec: {type: ClusterIP, clusterIP: 10.0.0.1}`, `
metadata: {name: a}
spec: {type: ExternalName}`},
		{"a Job's selector", "jobs.batch", `
metadata: {name: a}
spec: {template: {metadata: {}}}`, `
metadata: {name: a}
spec: {selector: {matchLabels: {controller-uid: u}}, template: {metadata: {labels: {controller-uid: u}}}}`, `
metadata: {name: a}
spec: {selector: {matchLabels: {controller-uid: u}}, template: {metadata: {labels: {controller-uid: u}}}}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := must.Get(New(Config{Ignore: paths("spec.replicas", "spec.template.spec.containers[*].env")}))(t)
			desired := decoded(t, c.desired)
			r.Retain(schema.ParseGroupResource(c.resource), desired, decoded(t, c.actual))
			assert.Equal(t, decoded(t, c.want), desired)
		})
	}
}

// anything draws JSON of any shape, with names that the rules are about.
func anything(depth int) *rapid.Generator[any] {
	scalars := rapid.OneOf(
		rapid.SampledFrom([]any{nil, true, json.Number("1"), json.Number("-2.5e3"), "", "None"}),
		rapid.SampledFrom([]string{
			"shop", "a", "a-token-abcde", "kubernetes.io/metadata.name", "ServiceAccount", "system:serviceaccount:shop", `{"spec":[]}`,
		}).AsAny(),
	)
	if depth == 0 {
		return scalars
	}
	return rapid.OneOf(scalars, rapid.SliceOfN(anything(depth-1), 0, 3).AsAny(),
		rapid.MapOfN(members, anything(depth-1), 0, 5).AsAny())
}

var members = rapid.SampledFrom(func() []string {
	names := []string{
		"metadata", "spec", "kind", "name", "namespace", "secret", "secretName", "port", "nodePort", "protocol", "f:spec",
		"fieldsV1", "f:ports", `k:{"port":1}`, "matchLabels", "matchExpressions", "key", "values", "manualSelector",
		"aggregationRule", "volumes", "controller", "uid", lastApplied, Label, Origin, OriginUID, OriginSequence, rancher + "x", "phase",
		"conditions", "type", "kubernetes.io/metadata.name",
	}
	rulesAndKinds := [][]Rule{Common}
	for _, k := range Kinds {
		rulesAndKinds = append(rulesAndKinds, k.Rules)
	}
	for _, rules := range rulesAndKinds {
		for _, rule := range rules {
			for _, p := range rule.Paths {
				for _, s := range p.Steps() {
					if !s.Every {
						names = append(names, s.Name)
					}
				}
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}())

// shaped draws an object with values where rules of its resource look for them.
func shaped(t *rapid.T, resource schema.GroupResource) map[string]any {
	metadata := map[string]any{"name": "a"}
	for name, v := range rapid.MapOfN(members, anything(2), 0, 3).Draw(t, "metadata") {
		metadata[name] = v
	}
	object := map[string]any{"metadata": metadata}
	for name, v := range rapid.MapOfN(members, anything(4), 0, 3).Draw(t, "members") {
		if name != "metadata" || rapid.Bool().Draw(t, "odd") {
			object[name] = v
		}
	}
	for rule := range rulesOf(resource) {
		for _, p := range rule.Paths {
			if rapid.Bool().Draw(t, "has") {
				plant(object, p.Steps(), anything(3).Draw(t, p.String()))
			}
		}
	}
	return object
}

func plant(object map[string]any, steps []jsonscan.Step, value any) {
	name := steps[0].Name
	list := len(steps) > 1 && steps[1].Every
	switch {
	case len(steps) == 1:
		object[name] = value
	case len(steps) == 2 && list:
		object[name] = []any{value, nil}
	default:
		child, isMap := object[name].(map[string]any)
		if elements, isList := object[name].([]any); isList && list && len(elements) > 0 {
			child, isMap = elements[0].(map[string]any)
		}
		if !isMap {
			child = map[string]any{}
			object[name] = child
			if list {
				object[name] = []any{child, nil, "odd"}
			}
		}
		if list {
			steps = steps[1:]
		}
		plant(child, steps[1:], value)
	}
}

func resources() (all []schema.GroupResource) {
	for resource := range ofResource {
		all = append(all, resource)
	}
	slices.SortFunc(all, func(a, b schema.GroupResource) int { return slices.Compare([]string{a.String()}, []string{b.String()}) })
	return append(all, core("secrets"), core("configmaps"), core("widgets"))
}

func TestObject_changes_nothing_the_second_time_and_takes_any_shape(t *testing.T) {
	all := rapid.SampledFrom(resources())
	rapid.Check(t, func(t *rapid.T) {
		r := must.Get(New(Config{
			Replica: "r", Namespaces: mapping, Ignore: paths("spec.volumes[*].name", "spec.ports", "spec[*].values"),
			Annotations: map[string]string{"note": "x"}, Status: rapid.Bool().Draw(t, "status"),
			Owned: rapid.SampledFrom([]Owned{Skip, Drop, Remap}).Draw(t, "owned"),
		}))(t)
		resource := all.Draw(t, "resource")
		object := shaped(t, resource)
		r.Skips(resource, object)
		Remapped(copied(object).(map[string]any), func(types.UID, string) (types.UID, bool) { return "x", true })
		actual, source := shaped(t, resource), copied(object["metadata"])
		if r.Object(resource, object) != nil {
			return
		}
		once := copied(object).(map[string]any)
		for _, name := range []string{"name", "namespace"} { // as before they were mapped
			if v := member(source, name); v != nil {
				object["metadata"].(map[string]any)[name] = v
			}
		}
		require.NoError(t, r.Object(resource, object))
		if resource != core("services") { // the first use removes the sign that a port was chosen
			assert.Equal(t, once, object)
		}
		assert.True(t, Covers(object, object))
		Covers(object, actual)
		Project(object, actual)
		r.Retain(resource, object, actual)
	})
}

func copied(v any) any {
	switch v := v.(type) {
	case map[string]any:
		c := make(map[string]any, len(v))
		for name, value := range v {
			c[name] = copied(value)
		}
		return c
	case []any:
		c := make([]any, len(v))
		for i := range v {
			c[i] = copied(v[i])
		}
		return c
	default:
		return v
	}
}
