// SPDX-License-Identifier: Apache-2.0

package replicas

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kube-eventbridge/kube-eventbridge/integration/internal/pause"
)

// part is what a fault breaks. Two faults of different parts may be injected together.
type part uint8

const (
	ofProcess part = 1 << iota
	ofWay
	ofTarget
	ofBroker
	ofSource
	inTarget
	// ofObjects needs the API server's answers.
	ofObjects  = inTarget | ofTarget
	everything = ofProcess | ofWay | ofTarget | ofBroker | ofSource | ofObjects
)

// fault breaks something, and mends it before it returns.
type fault struct {
	name   string
	part   part
	weight int
	run    func(context.Context, *world) error
}

// faults are all that there are.
func faults() []fault {
	return []fault{
		{"replicator killed", ofProcess, 10, killReplicator},
		{"replicator stopped", ofProcess, 3, stopReplicator},
		{"replicator killed again and again", ofProcess, 4, killOften},
		{"replicator frozen", ofProcess, 5, freeze},
		{"bridge killed", ofSource, 4, killBridge},
		{"bridge's checkpoint lost", ofSource, 3, loseCheckpoint},
		{"CRD of the source deleted and created", ofSource, 3, func(ctx context.Context, w *world) error {
			return w.recreateCRD(ctx, w.source)
		}},
		{"source's API server killed", ofSource, 4, func(ctx context.Context, w *world) error {
			return errors.Join(w.source.KillAPIServer(), w.pause(ctx, 0, 2), w.source.StartAPIServer(context.WithoutCancel(ctx)))
		}},
		{"target's API server killed", ofTarget, 6, func(ctx context.Context, w *world) error {
			return errors.Join(w.target.KillAPIServer(), w.pause(ctx, 0, 2), w.target.StartAPIServer(context.WithoutCancel(ctx)))
		}},
		{"target's API server stopped", ofTarget, 4, stopTarget},
		{"target's etcd killed", ofTarget, 5, func(ctx context.Context, w *world) error {
			return errors.Join(w.target.KillEtcd(), w.pause(ctx, 0, 3), w.target.StartEtcd(context.WithoutCancel(ctx)))
		}},
		{"target's etcd compacted, and its API server restarted", ofTarget, 4, compactTarget},
		{"broker restarted", ofBroker, 6, func(ctx context.Context, w *world) error {
			return w.broker.restart(context.WithoutCancel(ctx), func() error { return w.pause(ctx, 0, 3) })
		}},
		{"connections to the broker cut", ofBroker, 5, cutBroker},
		{"broker silent", ofBroker, 4, func(ctx context.Context, w *world) error {
			w.broker.way().Silence()
			defer w.broker.way().Open()
			return w.pause(ctx, 2, 8)
		}},
		{"broker out of reach", ofBroker, 4, func(ctx context.Context, w *world) error {
			w.broker.way().Sever()
			defer w.broker.way().Open()
			return w.pause(ctx, 1, 5)
		}},
		{"target out of reach", ofWay, 5, func(ctx context.Context, w *world) error {
			return w.onWay(ctx, 5, true, func(*http.Request, http.RoundTripper) (*http.Response, error) { return nil, errCut })
		}},
		{"requests to the target cut", ofWay, 5, cutTarget},
		{"answers to writes lost", ofWay, 8, func(ctx context.Context, w *world) error {
			return w.onWay(ctx, 6, false, unheard(func() bool { return w.random.n(2) == 0 }))
		}},
		{"target slow", ofWay, 5, func(ctx context.Context, w *world) error {
			return w.onWay(ctx, 8, false, slow(func() time.Duration { return w.random.between(0, 2*time.Second) }))
		}},
		{"target answers 429", ofWay, 6, storm(http.StatusTooManyRequests)},
		{"target answers 401 and 403", ofWay, 4, storm(http.StatusUnauthorized, http.StatusForbidden)},
		{"target answers 500, 503 and 504", ofWay, 5, storm(http.StatusInternalServerError, http.StatusServiceUnavailable,
			http.StatusGatewayTimeout)},
		{"people delete all that is the replica's", ofObjects, 3, deleteAll},
		{"people change all that is the replica's", ofObjects, 3, changeAll},
		{"everything deleted in a namespace of the source", ofSource, 3, emptySource},
		{"namespace of the target deleted and created", ofObjects, 4, recreateNamespace},
		{"CRD of the target deleted and created", ofObjects, 3, func(ctx context.Context, w *world) error {
			return w.recreateCRD(ctx, w.target)
		}},
		{"quota", ofObjects, 3, quota},
		{"webhook denies", ofObjects, 3, webhook(true)},
		{"webhook dead", ofObjects, 3, webhook(false)},
		{"source's etcd restored without a version bump", everything, 3, restoreSource(false)},
		{"source's etcd restored with a version bump", everything, 3, restoreSource(true)},
		{"target's etcd restored without a version bump", everything, 3, restoreTarget(false)},
		{"target's etcd restored with a version bump", everything, 3, restoreTarget(true)},
	}
}

// pause waits for a random time, in seconds.
func (w *world) pause(ctx context.Context, from, to int) error {
	return pause.For(ctx, w.random.between(time.Duration(from)*time.Second, time.Duration(to)*time.Second))
}

func killReplicator(ctx context.Context, w *world) error {
	p, _, _ := w.leading(ctx) // any one, if none leads
	return errors.Join(p.kill(), w.pause(ctx, 0, 2), p.start())
}

func killOften(ctx context.Context, w *world) error {
	for range 5 {
		p, _, _ := w.leading(ctx) // any one, if none leads
		if err := errors.Join(p.kill(), p.start(), w.pause(ctx, 0, 2)); err != nil {
			return err
		}
	}
	return nil
}

func stopReplicator(ctx context.Context, w *world) error {
	if err := poll(ctx, time.Minute, "the replicator to answer", func() bool { // before that it may not hear signals yet
		_, err := w.status(ctx)
		return err == nil
	}); err != nil {
		return err
	}
	stopping, cancel := context.WithTimeout(ctx, 40*time.Second)
	defer cancel()
	p, _, _ := w.leading(ctx) // any one, if none leads
	err := p.p.Stop(stopping)
	if err == nil && p.p.State().ExitCode() != 0 {
		err = fmt.Errorf("the replicator ended with %s", p.p.State())
	}
	return errors.Join(err, w.pause(ctx, 0, 2), p.start())
}

// freeze stops a replicator for longer than its Lease lasts.
func freeze(ctx context.Context, w *world) error {
	p, _, _ := w.leading(ctx) // any one, if none leads
	err := p.p.Signal(syscall.SIGSTOP)
	return errors.Join(err, w.pause(ctx, 6, 12), p.p.Signal(syscall.SIGCONT))
}

// loseCheckpoint has the bridge begin again without knowing what it has published. What was deleted meanwhile only a
// resync tells.
func loseCheckpoint(ctx context.Context, w *world) error {
	w.unknown.Store(true)
	return errors.Join(w.bridge.kill(), os.RemoveAll(filepath.Join(w.dir, "data")), w.pause(ctx, 0, 3), w.bridge.start())
}

func killBridge(ctx context.Context, w *world) error {
	return errors.Join(w.bridge.kill(), w.pause(ctx, 0, 3), w.bridge.start())
}

func stopTarget(ctx context.Context, w *world) error {
	stopping, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	return errors.Join(w.target.StopAPIServer(stopping), w.target.StartAPIServer(context.WithoutCancel(ctx)))
}

func compactTarget(ctx context.Context, w *world) error {
	if err := w.history.complete(ctx); err != nil {
		return err
	}
	killed, compacted := w.target.KillAPIServer(), w.target.Compact(ctx)
	return errors.Join(killed, compacted, w.target.StartAPIServer(context.WithoutCancel(ctx)))
}

func cutBroker(ctx context.Context, w *world) error {
	for range 1 + w.random.n(8) {
		w.broker.way().Cut()
		if err := w.pause(ctx, 0, 1); err != nil {
			return err
		}
	}
	return nil
}

func cutTarget(ctx context.Context, w *world) error {
	n := 0
	for range 3 + w.random.n(30) {
		n += w.way.cut()
		if err := pause.For(ctx, w.random.between(0, 300*time.Millisecond)); err != nil {
			return err
		}
	}
	w.note("%d requests were cut", n)
	return nil
}

// onWay has requests intercepted for a time, in seconds at most. Cuts also ends what is under way.
func (w *world) onWay(ctx context.Context, most int, cuts bool, do intercept) error {
	w.way.set(do)
	defer w.way.set(nil)
	if cuts {
		w.way.cut()
	}
	return w.pause(ctx, 1, most)
}

// storm answers requests with these codes for a while. Half the time it is for writes alone.
func storm(codes ...int) func(context.Context, *world) error {
	return func(ctx context.Context, w *world) error {
		var n atomic.Int64
		retryAfter, all := w.random.n(2), w.random.n(2) == 0
		defer func() { w.note("%d requests were refused", n.Load()) }()
		return w.onWay(ctx, 7, all, func(r *http.Request, next http.RoundTripper) (*http.Response, error) {
			if all || isWrite(r) {
				return refusal(r, codes[int(n.Add(1))%len(codes)], retryAfter), nil
			}
			return next.RoundTrip(r)
		})
	}
}

// emptySource deletes all objects of a namespace of the source. Where deletes have a limit the replica has to hold
// them.
func emptySource(ctx context.Context, w *world) error {
	namespace, n := pick(w.random, w.sources()), 0
	for _, r := range resources {
		objects := w.from.Resource(r).Namespace(namespace)
		list, err := objects.List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		for i := range list.Items {
			if objects.Delete(ctx, list.Items[i].GetName(), metav1.DeleteOptions{}) == nil {
				n++
			}
		}
	}
	w.note("%d objects of namespace %s were deleted in the source", n, namespace)
	return w.pause(ctx, 2, 5)
}

// everyTarget calls do with each object of the target that is the replica's.
func (w *world) everyTarget(ctx context.Context, do func(k key) error) (n int, err error) {
	for _, r := range resources {
		for from, to := range w.namespaces {
			list, err := w.to.Resource(r).Namespace(to).List(ctx, metav1.ListOptions{})
			if err != nil {
				return n, err
			}
			for i := range list.Items {
				o := &list.Items[i]
				if k := (key{r, from, o.GetName()}); w.isOurs(k, o.GetLabels(), o.GetAnnotations()) && do(k) == nil {
					n++
				}
			}
		}
	}
	return n, nil
}

func deleteAll(ctx context.Context, w *world) error {
	n, err := w.everyTarget(ctx, func(k key) error {
		return w.targetOf(k).Delete(ctx, k.name, metav1.DeleteOptions{})
	})
	w.note("people have deleted %d objects", n)
	return err
}

func changeAll(ctx context.Context, w *world) error {
	n, err := w.everyTarget(ctx, func(k key) error {
		return patch(ctx, w.targetOf(k), k.name, content(k.resource, map[string]any{
			"value": text(k.resource, newValue("person")),
		}))
	})
	w.note("people have changed %d objects", n)
	return err
}
