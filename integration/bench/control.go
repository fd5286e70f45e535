// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/kube-eventbridge/kube-eventbridge/integration/internal/try"
)

// control is one run of m: a bridge lists the same ConfigMaps from a real API server and from the load server, which
// shows whether the load server is fair.
func (b *bench) control(ctx context.Context, run int) error {
	n := b.objectsReal
	b.progress("run %d: %s ConfigMaps of a real API server, and of the load server", run, thousands(n))
	ctx, cancel := deadline(ctx, 20*time.Minute+time.Duration(n)*10*time.Millisecond)
	defer cancel()
	err := try.Run(func(end *try.Scope) {
		r, config := b.newControlPlane(ctx, end)
		try.Do(createMany(ctx, config, n))
		b.measureControl(ctx, end, run, r, loadNamespace, "a real API server")
	})
	if err != nil {
		return err
	}
	return try.Run(func(end *try.Scope) {
		b.measureControl(ctx, end, run, b.newRigOf(ctx, end, configMaps, n), "", "the load server")
	})
}

func (b *bench) measureControl(ctx context.Context, end *try.Scope, run int, r *rig, namespace, of string) {
	started := time.Now()
	p := try.Get(b.startBridge(r, configMaps, namespace, nil))
	end.Finally(p.stop)
	phase := thousands(b.objectsReal) + " ConfigMaps of " + of + ", listed and published"
	b.measureList(ctx, run, b.bridgeOf(configMaps), r, p, b.objectsReal, phase, started)
}

// createMany creates n ConfigMaps, as the load server has them, in one namespace.
func createMany(ctx context.Context, config *rest.Config, n int) error {
	config = rest.CopyConfig(config)
	config.QPS = -1
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("make a client: %w", err)
	}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: loadNamespace}}
	if _, err := client.CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("create namespace %s: %w", loadNamespace, err)
	}
	t, err := newTemplate(configMaps)
	if err != nil {
		return err
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(writers)
	for i := range n {
		g.Go(func() error { return createOne(ctx, client, t.appendWatched(nil, i, baseVersion)) })
	}
	return g.Wait()
}

// createOne creates a ConfigMap of another API server.
func createOne(ctx context.Context, client kubernetes.Interface, object []byte) error {
	m := &corev1.ConfigMap{}
	if err := json.Unmarshal(object, m); err != nil {
		return fmt.Errorf("decode a ConfigMap: %w", err)
	}
	m.Namespace, m.UID, m.ResourceVersion, m.ManagedFields = loadNamespace, types.UID(""), "", nil
	_, err := client.CoreV1().ConfigMaps(loadNamespace).Create(ctx, m, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("create ConfigMap %s: %w", m.Name, err)
	}
	return nil
}
