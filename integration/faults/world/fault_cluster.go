// SPDX-License-Identifier: Apache-2.0

package world

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"time"

	coordination "k8s.io/api/coordination/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset/typed/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/kube-eventbridge/kube-eventbridge/integration/controlplane/crd"
	"github.com/kube-eventbridge/kube-eventbridge/integration/internal/pause"
	"github.com/kube-eventbridge/kube-eventbridge/integration/internal/try"
)

// clusterFaults change what the cluster knows, or allows.
func clusterFaults() []Fault {
	return []Fault{
		{
			Name: "etcd compacted and API server restarted while the bridge is away", Parts: Process | API, Weight: 6,
			Cost: 20 * time.Second, run: goAway((*injection).compactAndRestart),
		},
		{
			Name: "API server restarted while the bridge is away", Parts: Process | API, Weight: 6, Cost: 20 * time.Second,
			run: goAway((*injection).restartAPI),
		},
		{
			Name: "etcd compacted and API server restarted under open watches", Parts: API, Weight: 6, Cost: 20 * time.Second,
			run: compactLive,
		},
		{
			Name: "etcd restored without a version bump", Parts: API, Weight: 3, Cost: 25 * time.Second, Loses: EtcdRestored,
			run: restore(false),
		},
		{
			Name: "etcd restored with a version bump", Parts: API, Weight: 3, Cost: 25 * time.Second, Loses: EtcdRestored,
			run: restore(true),
		},
		{Name: "a CRD's spec changed", Parts: API, CRD: true, Weight: 5, Cost: 8 * time.Second, run: changeCRD},
		{
			Name: "a CRD deleted and created again", Parts: API, Weight: 3, Cost: 20 * time.Second, Loses: TypeDeleted,
			CRD: true, run: recreateCRD,
		},
		{Name: "RBAC taken away and given back", Parts: API, Cost: 10 * time.Second, run: revoke},
	}
}

// goAway kills the bridge, and restarts the API server after some changes that its watches do not show any more then.
func goAway(restart func(*injection, context.Context) error) func(context.Context, *injection) error {
	return func(ctx context.Context, i *injection) error {
		try.Do(i.KillBridge())
		waited := pause.For(ctx, i.between(200*time.Millisecond, 2*time.Second))
		try.Do(restart(i, ctx))
		gone := i.api.now().Gone
		try.Do(errors.Join(waited, i.StartBridge()))
		return i.awaitGone(ctx, gone)
	}
}

func (i *injection) restartAPI(ctx context.Context) error {
	i.note(ctx, "the API server is restarted")
	return i.control.RestartAPIServer(ctx)
}

func compactLive(ctx context.Context, i *injection) error {
	gone := i.api.now().Gone
	try.Do(i.compactAndRestart(ctx))
	return i.awaitGone(ctx, gone)
}

func (i *injection) compactAndRestart(ctx context.Context) error {
	if err := i.control.KillAPIServer(); err != nil {
		return err
	}
	i.note(ctx, "the API server was killed, and etcd is compacted")
	compacted := i.control.Compact(ctx)
	return errors.Join(compacted, i.control.StartAPIServer(context.WithoutCancel(ctx)))
}

// awaitGone waits until the bridge has been told that a version is too old.
func (i *injection) awaitGone(ctx context.Context, before int) error {
	if err := i.await(ctx, "the API server to say 410", func() bool { return i.api.now().Gone > before }); err != nil {
		return err
	}
	i.note(ctx, "the bridge was told that its version is too old")
	return nil
}

// restore puts etcd back by a few seconds, under the running bridge.
func restore(bump bool) func(context.Context, *injection) error {
	return func(ctx context.Context, i *injection) error {
		snapshot := filepath.Join(i.dir, "etcd-snapshot.db")
		kept := i.revision(ctx)
		if err := i.control.Snapshot(ctx, snapshot); err != nil {
			return err
		}
		at := i.revision(ctx)
		missed := i.await(ctx, "changes that are undone", func() bool { return i.revision(ctx) > at+5 })
		if missed == nil {
			missed = pause.For(ctx, i.between(0, 2*time.Second))
		}
		before, err := i.putBack(ctx, snapshot, bump)
		if err != nil {
			return err
		}
		versions := "versions run backwards"
		if bump {
			versions = "versions were bumped"
		}
		i.record(ctx, Event{
			Kind: EtcdRestored, Fault: i.fault.Name, Before: before, Kept: kept,
			Text: fmt.Sprintf("etcd, which was at revision %d, was put back to what it had at %d at the latest; %s", before, at,
				versions),
		})
		return errors.Join(missed, os.Remove(snapshot))
	}
}

// putBack restores etcd, and returns the revision that it had before.
func (i *injection) putBack(ctx context.Context, snapshot string, bump bool) (before int64, err error) {
	if err := i.control.KillAPIServer(); err != nil {
		return 0, err
	}
	before = i.revision(ctx)
	if i.cfg.Restoring != nil {
		if err := i.cfg.Restoring(ctx); err != nil {
			return 0, errors.Join(err, i.control.StartAPIServer(context.WithoutCancel(ctx)))
		}
	}
	if err := i.control.Restore(context.WithoutCancel(ctx), snapshot, bump); err != nil {
		return 0, err
	}
	if i.cfg.Restored != nil {
		return before, i.cfg.Restored(snapshot)
	}
	return before, nil
}

func (i *injection) definitions() (apiextensions.CustomResourceDefinitionInterface, error) {
	c, err := apiextensions.NewForConfig(i.RESTConfig())
	if err != nil {
		return nil, fmt.Errorf("client for CRDs: %w", err)
	}
	return c.CustomResourceDefinitions(), nil
}

// changeCRD gives the first CRD another short name, which makes every version of its objects too old.
func changeCRD(ctx context.Context, i *injection) error {
	c := try.Get(i.definitions())
	got := try.Get(c.Get(ctx, i.cfg.CRDs[0].Name, metav1.GetOptions{}))
	name := fmt.Sprintf("x%d", i.random.Uint32())
	got.Spec.Names.ShortNames = []string{name}
	if _, err := c.Update(ctx, got, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("change CRD: %w", err)
	}
	i.note(ctx, "%s got the short name %s", got.Name, name)
	return pause.For(ctx, 1500*time.Millisecond) // a second later its watches end
}

func recreateCRD(ctx context.Context, i *injection) error {
	c := try.Get(i.definitions())
	name := i.cfg.CRDs[0].Name
	before := i.revision(ctx)
	if err := c.Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
		return fmt.Errorf("delete CRD: %w", err)
	}
	try.Do(poll(ctx, 30*time.Second, "the CRD to be gone", func() bool {
		i.unfinalize(ctx)
		_, err := c.Get(ctx, name, metav1.GetOptions{})
		return apierrors.IsNotFound(err)
	}))
	waited := pause.For(ctx, i.between(0, 3*time.Second))
	try.Do(crd.Install(context.WithoutCancel(ctx), i.RESTConfig(), i.cfg.CRDs[0].DeepCopy()))
	i.record(ctx, Event{
		Kind: TypeDeleted, Fault: i.fault.Name, Before: before,
		Text: name + " was deleted and created again",
	})
	return waited
}

// unfinalize removes the finalizers of the first CRD's objects, so that they can go with it.
func (i *injection) unfinalize(ctx context.Context) {
	spec := i.cfg.CRDs[0].Spec
	client, err := dynamic.NewForConfig(i.RESTConfig())
	if err != nil {
		return
	}
	objects := client.Resource(schema.GroupVersionResource{
		Group: spec.Group, Version: spec.Versions[0].Name,
		Resource: spec.Names.Plural,
	})
	list, err := objects.List(ctx, metav1.ListOptions{})
	if err != nil {
		return // they are gone
	}
	for _, o := range list.Items {
		if len(o.GetFinalizers()) > 0 {
			_, _ = objects.Namespace(o.GetNamespace()).Patch(ctx, o.GetName(), types.MergePatchType,
				[]byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
		}
	}
}

// revoke takes the bridge's permissions away, and cuts its watches: those that are open would stay.
func revoke(ctx context.Context, i *injection) error {
	k := try.Get(kubernetes.NewForConfig(i.RESTConfig()))
	before := i.api.now().Status[http.StatusForbidden]
	if err := k.RbacV1().ClusterRoleBindings().Delete(ctx, bridgeUser, metav1.DeleteOptions{}); err != nil {
		return fmt.Errorf("take permissions away: %w", err)
	}
	missed := i.await(ctx, "the bridge to be forbidden something", func() bool {
		i.api.cut()
		return i.api.now().Status[http.StatusForbidden] > before
	})
	if missed == nil {
		missed = pause.For(ctx, i.between(0, 3*time.Second))
	}
	try.Do(i.grant(context.WithoutCancel(ctx)))
	i.note(ctx, "%d requests were forbidden", i.api.now().Status[http.StatusForbidden]-before)
	return missed
}

// grant lets the bridge read everything, and have a Lease.
func (w *World) grant(ctx context.Context) error {
	k, err := kubernetes.NewForConfig(w.admin)
	if err != nil {
		return err
	}
	_, err = k.RbacV1().ClusterRoles().Create(ctx, &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: bridgeUser},
		Rules: []rbacv1.PolicyRule{
			{Verbs: []string{"get", "list", "watch"}, APIGroups: []string{"*"}, Resources: []string{"*"}},
			{Verbs: []string{"create", "update"}, APIGroups: []string{coordination.GroupName}, Resources: []string{"leases"}},
		},
	}, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("give permissions: %w", err)
	}
	_, err = k.RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: bridgeUser},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: bridgeUser},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: bridgeUser}},
	}, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("give permissions: %w", err)
	}
	return nil
}
