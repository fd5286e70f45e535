// SPDX-License-Identifier: Apache-2.0

// Package released keeps what guards of a replica have stopped, and what a person has released of that.
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

	"github.com/kube-eventbridge/kube-eventbridge/internal/replica/guard"
)

// ConfigMap is a [guard.State] in a ConfigMap of the target cluster.
type ConfigMap struct {
	Client typed.ConfigMapInterface
	Name   string
}

const (
	deletesKey     = "deletes"
	epochKey       = "epoch"
	leftKey        = "left"
	heldDeletesKey = "heldDeletes"
	heldEpochKey   = "heldEpoch"
)

// Load implements [guard.State].
func (c *ConfigMap) Load(ctx context.Context) (s guard.Stops, err error) {
	stored, err := c.Client.Get(ctx, c.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return s, nil
	case err != nil:
		return s, fmt.Errorf("read ConfigMap %s: %w", c.Name, err)
	}
	var bad, worse, worst, left error
	if text := stored.Data[deletesKey]; text != "" {
		s.Deletes, bad = time.Parse(time.RFC3339Nano, text)
	}
	if text := stored.Data[epochKey]; text != "" {
		s.Epoch, worse = strconv.ParseUint(text, 10, 64)
	}
	if text := stored.Data[heldEpochKey]; text != "" {
		s.HeldEpoch, worst = strconv.ParseUint(text, 10, 64)
	}
	if text := stored.Data[leftKey]; text != "" {
		s.Left, left = strconv.Atoi(text)
	}
	s.HeldDeletes = stored.Data[heldDeletesKey] == "true"
	if err := errors.Join(bad, worse, worst, left); err != nil {
		return guard.Stops{}, fmt.Errorf("read ConfigMap %s: %w; delete it if nothing shall be released", c.Name, err)
	}
	return s, nil
}

// Store implements [guard.State].
func (c *ConfigMap) Store(ctx context.Context, s guard.Stops) error {
	m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: c.Name}, Data: map[string]string{
		epochKey: strconv.FormatUint(s.Epoch, 10),
	}}
	if !s.Deletes.IsZero() {
		m.Data[deletesKey] = s.Deletes.UTC().Format(time.RFC3339Nano)
	}
	if s.Left != 0 {
		m.Data[leftKey] = strconv.Itoa(s.Left)
	}
	if s.HeldDeletes {
		m.Data[heldDeletesKey] = "true"
	}
	if s.HeldEpoch != 0 {
		m.Data[heldEpochKey] = strconv.FormatUint(s.HeldEpoch, 10)
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
