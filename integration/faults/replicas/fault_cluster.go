// SPDX-License-Identifier: Apache-2.0

package replicas

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	admission "k8s.io/api/admission/v1"
	admissionregistration "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset/typed/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kube-eventbridge/kube-eventbridge/integration/controlplane"
	"github.com/kube-eventbridge/kube-eventbridge/integration/controlplane/crd"
)

// recreateNamespace deletes a namespace of the target, does what its controller would do, and creates it again.
func recreateNamespace(ctx context.Context, w *world) error {
	name := w.namespaces[pick(w.random, w.sources())]
	all := w.admin.CoreV1().Namespaces()
	if err := all.Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
		return err
	}
	if err := w.pause(ctx, 0, 2); err != nil {
		return err
	}
	if err := poll(ctx, time.Minute, "the namespace to be gone", func() bool {
		empty := true
		for _, r := range resources {
			objects := w.to.Resource(r).Namespace(name)
			list, err := objects.List(ctx, metav1.ListOptions{})
			if empty = empty && err == nil && len(list.Items) == 0; err != nil {
				continue
			}
			for i := range list.Items {
				name := list.Items[i].GetName()
				_ = objects.Delete(ctx, name, metav1.DeleteOptions{}) // it is asked again
				if list.Items[i].GetFinalizers() != nil {
					_ = patch(ctx, objects, name, map[string]any{"metadata": map[string]any{"finalizers": nil}}) // so is this
				}
			}
		}
		got, err := all.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return apierrors.IsNotFound(err)
		}
		if empty {
			got.Spec.Finalizers = nil
			_, _ = all.Finalize(ctx, got, metav1.UpdateOptions{}) // so is this
		}
		return false
	}); err != nil {
		return err
	}
	waited := w.pause(ctx, 0, 4)
	w.note("namespace %s is created again", name)
	return errors.Join(waited, makeNamespace(context.WithoutCancel(ctx), w.admin, name))
}

func (w *world) recreateCRD(ctx context.Context, in *controlplane.ControlPlane) error {
	c, err := apiextensions.NewForConfig(in.RESTConfig())
	if err != nil {
		return err
	}
	all, name := c.CustomResourceDefinitions(), widgets.GroupResource().String()
	if err := all.Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
		return err
	}
	if err := poll(ctx, time.Minute, "the CRD to be gone", func() bool {
		_, err := all.Get(ctx, name, metav1.GetOptions{})
		return apierrors.IsNotFound(err)
	}); err != nil {
		return err
	}
	waited := w.pause(ctx, 0, 4)
	w.note("the CRD is created again")
	return errors.Join(waited, crd.Install(context.WithoutCancel(ctx), in.RESTConfig(), crd.Define(widgets, "Widget")))
}

// quota allows no more objects in a namespace for a while. No controller says how many there are, so this does.
func quota(ctx context.Context, w *world) error {
	all := w.admin.CoreV1().ResourceQuotas(w.namespaces[pick(w.random, w.sources())])
	none := corev1.ResourceList{
		corev1.ResourceConfigMaps: resource.MustParse("0"), corev1.ResourceSecrets: resource.MustParse("0"),
	}
	made, err := all.Create(ctx, &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Name: "none"}, Spec: corev1.ResourceQuotaSpec{Hard: none},
	}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	made.Status = corev1.ResourceQuotaStatus{Hard: none, Used: none}
	_, err = all.UpdateStatus(ctx, made, metav1.UpdateOptions{})
	waited := w.pause(ctx, 3, 8)
	return errors.Join(err, waited, all.Delete(context.WithoutCancel(ctx), "none", metav1.DeleteOptions{}))
}

// webhook refuses the replica's objects for a while, or is away.
func webhook(denies bool) func(context.Context, *world) error {
	return func(ctx context.Context, w *world) error {
		cert, err := w.target.ServingCertificate()
		if err != nil {
			return err
		}
		l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{
			Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12,
		})
		if err != nil {
			return err
		}
		url := "https://" + l.Addr().String()
		if denies {
			server := &http.Server{
				Handler: http.HandlerFunc(deny), ReadHeaderTimeout: time.Minute, ErrorLog: log.New(io.Discard, "", 0),
			}
			served := make(chan struct{})
			go func() { defer close(served); _ = server.Serve(l) }() // Close ends it
			defer func() { _ = server.Close(); <-served }()
		} else {
			_ = l.Close() // no server listens there
		}
		fails, none, path := admissionregistration.Fail, admissionregistration.SideEffectClassNone, url+"/"
		all := w.admin.AdmissionregistrationV1().ValidatingWebhookConfigurations()
		_, err = all.Create(ctx, &admissionregistration.ValidatingWebhookConfiguration{
			ObjectMeta: metav1.ObjectMeta{Name: "refuses"},
			Webhooks: []admissionregistration.ValidatingWebhook{{
				Name: "refuses.example.com", FailurePolicy: &fails, SideEffects: &none, AdmissionReviewVersions: []string{"v1"},
				ClientConfig:   admissionregistration.WebhookClientConfig{URL: &path, CABundle: w.target.RESTConfig().CAData},
				ObjectSelector: &metav1.LabelSelector{MatchLabels: map[string]string{label: replicaName}},
				Rules: []admissionregistration.RuleWithOperations{{
					Operations: []admissionregistration.OperationType{admissionregistration.Create, admissionregistration.Update},
					Rule: admissionregistration.Rule{
						APIGroups: []string{"", widgets.Group}, APIVersions: []string{"*"},
						Resources: []string{"configmaps", "secrets", "widgets"},
					},
				}},
			}},
		}, metav1.CreateOptions{})
		if err != nil {
			return err
		}
		waited := w.pause(ctx, 3, 8)
		return errors.Join(waited, all.Delete(context.WithoutCancel(ctx), "refuses", metav1.DeleteOptions{}))
	}
}

func deny(res http.ResponseWriter, r *http.Request) {
	var review admission.AdmissionReview
	if json.NewDecoder(r.Body).Decode(&review) != nil || review.Request == nil {
		res.WriteHeader(http.StatusBadRequest)
		return
	}
	review.Response = &admission.AdmissionResponse{
		UID: review.Request.UID, Result: &metav1.Status{Message: "the campaign wants it", Code: http.StatusForbidden},
	}
	res.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(res).Encode(&review) // who asked has gone
}

// restoreSource puts the source's etcd back by a few seconds. The replica has to stop then, until it is resumed.
func restoreSource(bump bool) func(context.Context, *world) error {
	return func(ctx context.Context, w *world) error {
		if w.other != nil {
			return restoreTarget(bump)(ctx, w.other)
		}
		snapshot := filepath.Join(w.dir, "source.db")
		if err := errors.Join(w.source.Snapshot(ctx, snapshot), w.pause(ctx, 3, 6),
			w.source.Restore(context.WithoutCancel(ctx), snapshot, bump), os.Remove(snapshot)); err != nil {
			return err
		}
		return w.stops(ctx)
	}
}

// stops wants the replica to stop, as the source's etcd was restored, and resumes it.
func (w *world) stops(ctx context.Context) error {
	w.note("the source's etcd is restored")
	w.unknown.Store(true)
	held := func() bool {
		s, err := w.status(ctx)
		return err == nil && s.HeldEpoch != 0 && s.CaughtUp
	}
	if poll(ctx, time.Minute, "", held) != nil {
		w.violated("R4", "the replica does not stop after the source's etcd was restored")
		return nil
	}
	w.note("the replica is held")
	if err := w.pause(ctx, 1, 2); err != nil { // what was under way ends
		return err
	}
	h := hold{from: time.Now()}
	if err := w.pause(ctx, 2, 5); err != nil {
		return err
	}
	if w.random.n(2) == 0 {
		w.note("the replicator is killed while it is held")
		p, _, _ := w.leading(ctx) // any one, if none leads
		if err := errors.Join(p.kill(), p.start()); err != nil {
			return err
		}
		if poll(ctx, 30*time.Second, "", held) != nil {
			w.violated("R4", "the replica was held, and is not after a restart")
		}
		if err := w.pause(ctx, 1, 4); err != nil {
			return err
		}
	}
	h.to = time.Now()
	w.mu.Lock()
	w.holds = append(w.holds, h)
	w.mu.Unlock()
	w.note("the replica is resumed")
	return w.resume(ctx)
}

// restoreTarget puts the target's etcd back by a few seconds.
func restoreTarget(bump bool) func(context.Context, *world) error {
	return func(ctx context.Context, w *world) error {
		snapshot := filepath.Join(w.dir, "target.db")
		rev, err := w.target.Revision(ctx)
		if err != nil {
			return err
		}
		if err := errors.Join(w.target.Snapshot(ctx, snapshot), w.pause(ctx, 3, 6), w.target.KillAPIServer(),
			w.history.complete(ctx)); err != nil {
			return err
		}
		w.history.end()
		w.history.restored()
		err = w.target.Restore(context.WithoutCancel(ctx), snapshot, bump)
		w.note("the target's etcd is restored to what it had at %d", rev)
		if err := errors.Join(err, w.history.begin(context.WithoutCancel(ctx), rev+1), os.Remove(snapshot)); err != nil {
			return err
		}
		if w.other != nil {
			return w.other.stops(ctx)
		}
		return nil
	}
}

// resync has the bridge publish everything again: a restored etcd may come to the same versions with other content. It
// is complete only while no stream waits for the API server.
func (w *world) resync(ctx context.Context) error {
	var said []byte
	err := poll(ctx, 3*time.Minute, "a complete resync", func() (complete bool) {
		bounded, cancel := context.WithTimeout(ctx, time.Minute)
		defer cancel()
		var err error
		said, err = exec.CommandContext(bounded, w.o.Binary, "resync", "--server", w.bridge.server).CombinedOutput()
		return err == nil
	})
	if err != nil {
		return fmt.Errorf("%w: %s", err, said)
	}
	return nil
}
