// SPDX-License-Identifier: Apache-2.0

package replicawrite

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/kube-eventbridge/kube-eventbridge/integration/controlplane"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
	"github.com/kube-eventbridge/kube-eventbridge/internal/replica/write"
)

// data decodes a ConfigMap of an answer, and returns its data and its managers: operation by name.
func data(t *testing.T, a write.Answer) (map[string]string, map[string]metav1.ManagedFieldsOperationType) {
	t.Helper()
	require.Equal(t, write.Done, a.Outcome, a.Message)
	var m corev1.ConfigMap
	require.NoError(t, json.Unmarshal(a.Object, &m))
	managers := map[string]metav1.ManagedFieldsOperationType{}
	for _, entry := range m.ManagedFields {
		managers[entry.Manager+string(entry.Operation[:1])] = entry.Operation
	}
	return m.Data, managers
}

func TestFields_of_others(t *testing.T) {
	api := controlplane.ForTest(t, controlplane.Config{})
	var records []recording
	u := newUser(t, api.RESTConfig(), &records)
	others := must.Get(kubernetes.NewForConfig(api.RESTConfig()))(t).CoreV1().ConfigMaps("default")
	// edit has another manager set a field, and returns the object as it is then.
	edit := func(t *testing.T, o object, manager, key, value string) object {
		t.Helper()
		patch := must.Get(json.Marshal(map[string]any{"data": map[string]string{key: value}}))(t)
		must.Get(others.Patch(t.Context(), o.Name, types.MergePatchType, patch,
			metav1.PatchOptions{FieldManager: manager}))(t)
		return u.done(get, o)
	}
	const one, two = `{"key":"one"}`, `{"key":"two"}`

	t.Run("an apply leaves fields that others have added", func(t *testing.T) {
		o := edit(t, u.done(create, configMap("default", "added")), "someone", "theirs", "x")
		values, _ := data(t, u.do(apply, o.with(one, two)))
		assert.Equal(t, map[string]string{"key": "two", "theirs": "x"}, values)
	})
	t.Run("an apply removes fields that it had set", func(t *testing.T) {
		o := u.done(create, configMap("default", "removed").with(one, `{"key":"one","more":"x"}`))
		values, _ := data(t, u.do(apply, o.with(`,"more":"x"`, ``)))
		assert.Equal(t, map[string]string{"key": "one"}, values)
	})
	t.Run("an apply without force conflicts, and names the fields", func(t *testing.T) {
		o := edit(t, u.done(create, configMap("default", "taken")), "someone", "key", "x")
		a := u.do(apply, o.with(one, two))
		assert.Equal(t, write.Conflict, a.Outcome, a.Message)
		require.Len(t, a.Causes, 1)
		assert.Equal(t, ".data.key", a.Causes[0].Field)
		a = u.do(apply, o.with(one, two).at(old))
		assert.Equal(t, write.Conflict, a.Outcome, "an old version beside a conflict: %s", a.Message)
		values, _ := data(t, u.do(get, o))
		assert.Equal(t, map[string]string{"key": "x"}, values)
		values, _ = data(t, u.do(force, o.with(one, two)))
		assert.Equal(t, map[string]string{"key": "two"}, values)
	})
	t.Run("a create of what another has made does not conflict", func(t *testing.T) {
		m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "theirs"}, Data: map[string]string{"key": "x"}}
		must.Get(others.Create(t.Context(), m, metav1.CreateOptions{FieldManager: "someone"}))(t)
		a := u.do(create, configMap("default", "theirs"))
		assert.Equal(t, write.Exists, a.Outcome, a.Message)
	})
	t.Run("an apply of what another has set to the same is no conflict", func(t *testing.T) {
		o := edit(t, u.done(create, configMap("default", "same")), "someone", "key", "two")
		u.done(apply, o.with(one, two))
	})
	t.Run("a put removes fields of others", func(t *testing.T) {
		o := edit(t, u.done(create, configMap("default", "put")), "someone", "theirs", "x")
		values, _ := data(t, u.do(put, o.with(one, two)))
		assert.Equal(t, map[string]string{"key": "two"}, values)
	})

	upgrade := func(t *testing.T, o object, adopt bool) write.Answer {
		t.Helper()
		return must.Get(u.target.Upgrade(t.Context(), o.Object, o.uid, o.resourceVersion, adopt))(t)
	}
	t.Run("an upgrade lets an apply change what a post has set", func(t *testing.T) {
		o := u.made(configMap("default", "upgraded").with(one, `{"key":"one","more":"x"}`))
		changed := o.with(`{"key":"one","more":"x"}`, two)
		assert.Equal(t, write.Conflict, u.do(apply, changed).Outcome)
		a := upgrade(t, o, false)
		values, managers := data(t, a)
		assert.Len(t, values, 2)
		assert.Equal(t, map[string]metav1.ManagedFieldsOperationType{write.Manager + "A": "Apply"}, managers)
		assert.NotEqual(t, o.resourceVersion, a.ResourceVersion)
		values, _ = data(t, u.do(apply, changed.at(a.ResourceVersion)))
		assert.Equal(t, map[string]string{"key": "two"}, values)
	})
	t.Run("an upgrade of what is applied changes nothing", func(t *testing.T) {
		o := u.done(create, configMap("default", "applied"))
		a := upgrade(t, o, true)
		assert.Equal(t, write.Done, a.Outcome, a.Message)
		assert.Equal(t, o.resourceVersion, a.ResourceVersion)
	})
	t.Run("an upgrade to adopt takes the fields of kubectl, and of it only", func(t *testing.T) {
		m := &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Name: "adopted"}, Data: map[string]string{"key": "theirs", "more": "x"},
		}
		must.Get(others.Create(t.Context(), m, metav1.CreateOptions{FieldManager: "kubectl-client-side-apply"}))(t)
		o := edit(t, configMap("default", "adopted"), "someone", "left", "x")
		_, managers := data(t, upgrade(t, o, false))
		assert.Contains(t, managers, "kubectl-client-side-applyU", "without adopt")
		a := upgrade(t, o, true)
		_, managers = data(t, a)
		assert.NotContains(t, managers, "kubectl-client-side-applyU")
		values, _ := data(t, u.do(apply, o.at(a.ResourceVersion)))
		assert.Equal(t, map[string]string{"key": "one", "left": "x"}, values)
	})
	t.Run("an upgrade of another state changes nothing", func(t *testing.T) {
		o := u.made(configMap("default", "stale"))
		assert.Equal(t, write.Stale, upgrade(t, o.at(old), false).Outcome)
		assert.Equal(t, write.Stale, upgrade(t, o.of(nobodys), false).Outcome)
		assert.Equal(t, write.Gone, upgrade(t, o.absent(), false).Outcome)
		assert.Equal(t, o.resourceVersion, u.do(get, o).ResourceVersion)
	})
}
