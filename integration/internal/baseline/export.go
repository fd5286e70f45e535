// SPDX-License-Identifier: Apache-2.0

package baseline

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/kube-eventbridge/kube-eventbridge/integration/internal/pause"
)

// again is the time between two attempts at something that has to be there before anything can be exported.
const again = 500 * time.Millisecond

// exporter publishes what informers say.
type exporter struct {
	cfg       *settings
	log       *slog.Logger
	publisher *publisher
	connected func() bool
	watched   atomic.Pointer[[]watched] // nil before there are any
}

// watched is a stream whose first list is published once synced says so.
type watched struct {
	stream
	synced func() bool
}

// run exports until reading ends. What was handed to the publisher lives as long as delivering.
func (e *exporter) run(reading, delivering context.Context) error {
	config, err := clientcmd.BuildConfigFromFlags("", e.cfg.Kubernetes.Kubeconfig)
	if err != nil {
		return fmt.Errorf("read kubeconfig: %w", err)
	}
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("make a client: %w", err)
	}
	if err := e.createLog(reading); err != nil {
		return stopped(reading, err)
	}
	streams, err := e.streams(reading, config)
	if err != nil {
		return stopped(reading, err)
	}
	g, reading := errgroup.WithContext(reading)
	var all []watched
	for _, s := range streams {
		informer := dynamicinformer.NewFilteredDynamicInformer(client, s.resource, s.namespace, 0, cache.Indexers{},
			func(o *metav1.ListOptions) {
				o.LabelSelector = s.selector
			}).Informer()
		registered, err := informer.AddEventHandler(e.handler(delivering, s))
		if err = errors.Join(err, informer.SetTransform(slim)); err != nil {
			return fmt.Errorf("watch %s: %w", s, err)
		}
		all = append(all, watched{s, registered.HasSynced})
		g.Go(func() error {
			informer.RunWithContext(reading)
			return nil
		})
	}
	e.watched.Store(&all)
	return g.Wait()
}

// stopped returns nil if the error is only that ctx has ended.
func stopped(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

func (e *exporter) handler(ctx context.Context, s stream) cache.ResourceEventHandler {
	return cache.ResourceEventHandlerDetailedFuncs{
		AddFunc: func(obj any, first bool) {
			reason := byWatch
			if first {
				reason = byList
			}
			e.export(ctx, s, obj, added, reason)
		},
		UpdateFunc: func(before, obj any) {
			if version(before) != version(obj) { // else it was only listed again
				e.export(ctx, s, obj, updated, byWatch)
			}
		},
		DeleteFunc: func(obj any) {
			if gone, is := obj.(cache.DeletedFinalStateUnknown); is {
				obj = gone.Obj
			}
			e.export(ctx, s, obj, deleted, byWatch)
		},
	}
}

func version(obj any) string {
	if m, err := meta.Accessor(obj); err == nil {
		return m.GetResourceVersion()
	}
	return ""
}

func (e *exporter) export(ctx context.Context, s stream, obj any, op, reason string) {
	u, is := obj.(*unstructured.Unstructured)
	if !is {
		e.log.Error("not an object", "stream", s.String(), "what", fmt.Sprintf("%T", obj))
		return
	}
	m, err := s.event(u, op, reason)
	if err != nil {
		e.log.Error("cannot export", "stream", s.String(), "err", err)
		return
	}
	e.publisher.publish(ctx, m)
}

// createLog creates the stream if it is missing, and waits for a broker that is away.
func (e *exporter) createLog(ctx context.Context) error {
	n := e.cfg.nats()
	return retry(ctx, "create the log", func(ctx context.Context) error {
		_, err := e.publisher.js.CreateStream(ctx, jetstream.StreamConfig{
			Name: n.Stream, Subjects: []string{"k8s.>"}, Storage: jetstream.FileStorage, Duplicates: n.DuplicateWindow,
			AllowDirect: true,
		})
		if errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) {
			return nil
		}
		return err
	})
}

// streams finds out what the configured resources are, and waits until all of them exist.
func (e *exporter) streams(ctx context.Context, config *rest.Config) (all []stream, err error) {
	d, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("make a client: %w", err)
	}
	mapper := restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(d))
	for _, r := range e.cfg.Pipelines[0].Resources {
		var gvr schema.GroupVersionResource
		err := retry(ctx, "find "+r.Resource, func(context.Context) (err error) {
			gvr, err = mapper.ResourceFor(schema.ParseGroupResource(r.Resource).WithVersion(""))
			if err != nil {
				mapper.Reset()
			}
			return err
		})
		if err != nil {
			return nil, err
		}
		namespaces := r.Namespaces
		if len(namespaces) == 0 {
			namespaces = []string{metav1.NamespaceAll}
		}
		for _, n := range namespaces {
			all = append(all, stream{e.cfg.Cluster, e.cfg.Pipelines[0].Name, gvr, n, r.LabelSelector})
		}
	}
	return all, nil
}

// retry does something until it succeeds or ctx ends.
func retry(ctx context.Context, what string, do func(context.Context) error) error {
	for {
		one, cancel := context.WithTimeout(ctx, ackTimeout)
		err := do(one)
		cancel()
		if err == nil {
			return nil
		}
		if pause.For(ctx, again) != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
	}
}
