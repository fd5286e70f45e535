// SPDX-License-Identifier: Apache-2.0

// Package drive changes objects of a real API server, at random from a seed: as much as a cluster does in a month, and
// everything that is hard to follow.
//
// What the writers want to do depends on the seed only; what becomes of it also on time and on the faults around them.
// A request whose answer was lost may have been served, so the driver cannot tell what exists: that is the oracle's
// work.
package drive

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/flowcontrol"

	"github.com/kube-eventbridge/kube-eventbridge/integration/controlplane/crd"
)

// Config says what to change. REST is required.
type Config struct {
	// REST is for a user who may do everything with the kinds, and create namespaces and definitions.
	REST *rest.Config
	Seed uint64
	// Rate bounds the changes per second of all writers together; 0 is no bound.
	Rate float64
	// Objects is how many names of each kind are used, 20 if it is 0.
	Objects int
	// Writers write at the same time, to different objects. 0 means 4.
	Writers int
	// Kinds are changed; nil means [Kinds].
	Kinds []Kind
	// Namespaces take the objects of namespaced kinds in turn; nil means drive-a and drive-b.
	Namespaces []string
	// Changes ends Run after so many changes that were answered, and the bursts that are under way; 0 is no end.
	Changes int
}

// Driver changes objects. Its methods may be called concurrently, but Run only once at a time.
type Driver struct {
	cfg     Config
	http    *http.Client
	client  *dynamic.DynamicClient
	limiter flowcontrol.RateLimiter
	secrets []string

	mu     sync.Mutex // guards what follows
	counts Counts
}

// Counts are how often the API server has answered that something was done.
type Counts struct {
	Created, Updated, Relabelled, Deleted, Finalized int
	// Refused counts answers such as NotFound, AlreadyExists and Conflict, which are normal where answers get lost.
	Refused int
	// Retried counts requests without a useful answer.
	Retried int
}

// Changes is the number of changes: what the API server has acknowledged.
func (c Counts) Changes() int { return c.Created + c.Updated + c.Relabelled + c.Deleted + c.Finalized }

// requestTimeout is for a server that stops and says nothing.
const requestTimeout = 5 * time.Second

// New returns a driver that has done nothing. The caller must call Close.
func New(cfg Config) (*Driver, error) {
	cfg.Objects, cfg.Writers = either(cfg.Objects, 20), either(cfg.Writers, 4)
	if cfg.Kinds == nil {
		cfg.Kinds = Kinds()
	}
	if cfg.Namespaces == nil {
		cfg.Namespaces = []string{"drive-a", "drive-b"}
	}
	c := rest.CopyConfig(cfg.REST)
	c.Timeout, c.QPS = requestTimeout, -1
	h, err := rest.HTTPClientFor(c)
	if err != nil {
		return nil, fmt.Errorf("make driver: %w", err)
	}
	client, err := dynamic.NewForConfigAndClient(c, h)
	if err != nil {
		return nil, fmt.Errorf("make driver: %w", err)
	}
	d := &Driver{cfg: cfg, http: h, client: client, limiter: flowcontrol.NewFakeAlwaysRateLimiter()}
	if cfg.Rate > 0 {
		d.limiter = flowcontrol.NewTokenBucketRateLimiter(float32(cfg.Rate), max(1, int(cfg.Rate/10)))
	}
	d.secrets = canaries(cfg.Seed)
	return d, nil
}

func either(n, otherwise int) int {
	if n == 0 {
		return otherwise
	}
	return n
}

// Close closes idle connections.
func (d *Driver) Close() { d.http.CloseIdleConnections() }

// Setup creates the namespaces, and the definition of widgets if they are among the kinds. What is there already is no
// error. Then it waits until the API server serves watches of the kinds and of namespaces.
func (d *Driver) Setup(ctx context.Context) error {
	for _, k := range d.cfg.Kinds {
		if k == Widgets {
			if err := crd.Install(ctx, d.cfg.REST, WidgetDefinition()); err != nil {
				return err
			}
		}
	}
	for _, name := range d.cfg.Namespaces {
		o := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "v1", "kind": "Namespace",
			"metadata": map[string]any{"name": name},
		}}
		err := d.call(ctx, func(ctx context.Context) error {
			_, err := d.client.Resource(corev1.SchemeGroupVersion.WithResource("namespaces")).Create(ctx, o, createOptions)
			return err
		})
		if err != nil && !errors.Is(err, errRefused) {
			return fmt.Errorf("create namespace %s: %w", name, err)
		}
	}
	for _, k := range append(slices.Clone(d.cfg.Kinds), Namespaces) {
		if err := d.awaitCache(ctx, k); err != nil {
			return fmt.Errorf("wait for the watch cache of %s: %w", k.Resource.Resource, err)
		}
	}
	return nil
}

// awaitCache waits for a watch cache. Before it is there, etcd answers lists, and the cache forgets what came between.
func (d *Driver) awaitCache(ctx context.Context, k Kind) error {
	return d.call(ctx, func(ctx context.Context) error {
		w, err := d.client.Resource(k.Resource).Watch(ctx, metav1.ListOptions{
			AllowWatchBookmarks: true, SendInitialEvents: new(true),
			ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan,
		})
		if err != nil {
			return err
		}
		defer w.Stop()
		for e := range w.ResultChan() {
			if e.Type == watch.Bookmark { // everything of before has been sent
				return nil
			}
			if e.Type == watch.Error {
				return apierrors.FromObject(e.Object)
			}
		}
		return errors.New("the watch has ended")
	})
}

// Run changes objects until ctx ends, or as many changes as configured are done, whatever happens to the API server
// meanwhile. The error is an answer that says that the driver is wrong.
func (d *Driver) Run(ctx context.Context) error {
	g, inner := errgroup.WithContext(ctx)
	for i := range d.cfg.Writers {
		w := d.writer(i)
		g.Go(func() error { return w.run(inner) })
	}
	if err := g.Wait(); err != nil && ctx.Err() == nil {
		return err
	}
	return nil
}

func (d *Driver) writer(n int) *writer {
	w := &writer{driver: d, n: n, rand: rand.New(rand.NewPCG(d.cfg.Seed, uint64(n)+1))} //nolint:gosec // it must be repeatable, and n is small
	for i := n; i < d.cfg.Objects; i += d.cfg.Writers {
		for _, k := range d.cfg.Kinds {
			s := &slot{kind: k, name: fmt.Sprintf("drive-%d", i)}
			if k.Namespaced {
				s.namespace = d.cfg.Namespaces[i%len(d.cfg.Namespaces)]
			}
			w.slots = append(w.slots, s)
		}
	}
	return w
}

// Counts returns what was done so far.
func (d *Driver) Counts() Counts {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.counts
}

func (d *Driver) count(do func(*Counts)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	do(&d.counts)
}

// done reports whether as many changes were made as configured.
func (d *Driver) done() bool { return d.cfg.Changes > 0 && d.Counts().Changes() >= d.cfg.Changes }
