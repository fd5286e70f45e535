// SPDX-License-Identifier: Apache-2.0

// Package released keeps what a person has released of a replica.
package released

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	typed "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/kube-eventbridge/kube-eventbridge/internal/replica"
)

// ConfigMap is a [replica.State] in a ConfigMap of the target cluster.
type ConfigMap struct {
	Client typed.ConfigMapInterface
	Name   string
}

const (
	deletesKey = "deletes"
	epochKey   = "epoch"
)

// Load implements [replica.State].
func (c *ConfigMap) Load(ctx context.Context) (r replica.Released, err error) {
	stored, err := c.Client.Get(ctx, c.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return r, nil
	case err != nil:
		return r, fmt.Errorf("read ConfigMap %s: %w", c.Name, err)
	}
	var bad, worse error
	if text := stored.Data[deletesKey]; text != "" {
		r.Deletes, bad = time.Parse(time.RFC3339Nano, text)
	}
	if text := stored.Data[epochKey]; text != "" {
		r.Epoch, worse = strconv.ParseUint(text, 10, 64)
	}
	if err := errors.Join(bad, worse); err != nil {
		return replica.Released{}, fmt.Errorf("read ConfigMap %s: %w; delete it if nothing shall be released", c.Name, err)
	}
	return r, nil
}

// Store implements [replica.State].
func (c *ConfigMap) Store(ctx context.Context, r replica.Released) error {
	m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: c.Name}, Data: map[string]string{
		epochKey: strconv.FormatUint(r.Epoch, 10),
	}}
	if !r.Deletes.IsZero() {
		m.Data[deletesKey] = r.Deletes.UTC().Format(time.RFC3339Nano)
	}
	_, err := c.Client.Update(ctx, m, metav1.UpdateOptions{})
	if apierrors.IsNotFound(err) {
		_, err = c.Client.Create(ctx, m, metav1.CreateOptions{})
	}
	if err != nil {
		return fmt.Errorf("write ConfigMap %s: %w", c.Name, err)
	}
	return nil
}
