// SPDX-License-Identifier: Apache-2.0

package released

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	typed "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/kube-eventbridge/kube-eventbridge/internal/replica/guard"
)

// one is a namespace that has at most one ConfigMap.
type one struct {
	typed.ConfigMapInterface
	has *corev1.ConfigMap
}

func (o *one) Get(_ context.Context, name string, _ metav1.GetOptions) (*corev1.ConfigMap, error) {
	if o.has == nil {
		return nil, apierrors.NewNotFound(corev1.Resource("configmaps"), name)
	}
	return o.has, nil
}

func (o *one) Update(_ context.Context, m *corev1.ConfigMap, _ metav1.UpdateOptions) (*corev1.ConfigMap, error) {
	if o.has == nil {
		return nil, apierrors.NewNotFound(corev1.Resource("configmaps"), m.Name)
	}
	o.has = m
	return m, nil
}

func (o *one) Create(_ context.Context, m *corev1.ConfigMap, _ metav1.CreateOptions) (*corev1.ConfigMap, error) {
	o.has = m
	return m, nil
}

func TestConfigMap_has_what_was_stored_last(t *testing.T) {
	c := ConfigMap{Client: &one{}, Name: "r"}
	at := time.Date(2026, 11, 20, 12, 0, 0, 7_000_000, time.UTC)
	for _, s := range []guard.Stops{
		{},
		{Deletes: at, Epoch: 7, Left: 300, HeldDeletes: true, HeldEpoch: 9},
		{Deletes: at},
		{Epoch: 8, HeldEpoch: 8},
	} {
		require.NoError(t, c.Store(t.Context(), s))
		stored, err := c.Load(t.Context())
		require.NoError(t, err)
		assert.Equal(t, s, stored)
	}
}

func TestConfigMap_that_is_not_there_has_nothing(t *testing.T) {
	s, err := (&ConfigMap{Client: &one{}, Name: "r"}).Load(t.Context())
	require.NoError(t, err)
	assert.Zero(t, s)
}

func TestConfigMap_that_cannot_be_read_is_named(t *testing.T) {
	for _, key := range []string{deletesKey, epochKey, leftKey, heldEpochKey} {
		c := ConfigMap{Client: &one{has: &corev1.ConfigMap{Data: map[string]string{key: "yesterday"}}}, Name: "r"}
		_, err := c.Load(t.Context())
		assert.ErrorContains(t, err, "ConfigMap r", key)
	}
}
