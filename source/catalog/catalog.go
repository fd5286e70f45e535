// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"github.com/kube-eventbridge/kube-eventbridge/internal/pause"
	"github.com/kube-eventbridge/kube-eventbridge/source/kube"
)

const (
	// slowPoll is between two requests where nothing seems to change, quickPoll where changes are not told, and
	// retryPoll after a failure.
	slowPoll, quickPoll, retryPoll = 90 * time.Second, 10 * time.Second, 2 * time.Second
	// staleAfter is how old an answer may be where somebody doubts that something is there.
	staleAfter = time.Second
	// settledAfter is for how long answers have to lack a resource whose definition is gone, certainAfter one that
	// nothing else shows to be gone.
	settledAfter, certainAfter = 3 * time.Second, 10 * time.Second
	// together is how long to wait before asking: who changes one thing often changes another.
	together = 300 * time.Millisecond
)

// echoes are after what waits, besides together, until an API server has to be asked again: it tells of a definition
// before it serves what is defined.
func echoes() []time.Duration {
	return []time.Duration{700 * time.Millisecond, 2 * time.Second, 4 * time.Second}
}

// Config says how a [Catalog] is kept.
type Config struct {
	// Watch keeps it by watching definitions of custom resources and of aggregated API servers, or where that is not
	// permitted by asking every ten seconds. Without it the API server is asked seldom, and when somebody has a reason.
	Watch bool
	// Log may be nil.
	Log *slog.Logger
}

// Catalog knows what resources an API server has, as they come, go and change their versions. It is safe for concurrent
// use.
type Catalog struct {
	client    *kube.Client
	discovery *discovery.DiscoveryClient
	metadata  metadata.Interface
	log       *slog.Logger
	// soon has room for one reason to ask, told for one that has echoes.
	soon, told chan struct{}
	// watched is closed when definitions are to be watched.
	watched chan struct{}
	begin   func()
	// denied counts the definitions that may not be watched.
	denied denials

	// mu guards what follows.
	mu      sync.Mutex
	offers  *Offers
	changed chan struct{}
	seen    sightings
	// problem is what was logged last of requests that failed.
	problem string
}

// New returns a catalog that does nothing until Run. Client is of the API server that cfg names.
func New(cfg *rest.Config, client *kube.Client, c Config) (*Catalog, error) {
	cfg = rest.CopyConfig(cfg)
	m, err := metadata.NewForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("catalog: %w", err)
	}
	cfg.Timeout = discoveryTimeout
	d, err := discovery.NewDiscoveryClientForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("catalog: %w", err)
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	all := &Catalog{
		client: client, discovery: d, metadata: m, log: c.Log, changed: make(chan struct{}),
		soon: make(chan struct{}, 1), told: make(chan struct{}, 1), watched: make(chan struct{}),
	}
	all.begin = sync.OnceFunc(func() { close(all.watched) })
	if c.Watch {
		all.Watch()
	}
	return all, nil
}

// Watch has the catalog kept as [Config] says of Watch, from now on.
func (c *Catalog) Watch() { c.begin() }

func (c *Catalog) watches() bool {
	select {
	case <-c.watched:
		return true
	default:
		return false
	}
}

// Run keeps the catalog until ctx ends, and returns nil then. It may be called once.
func (c *Catalog) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	for _, d := range []schema.GroupVersionResource{definitions, services} {
		g.Go(func() error {
			select {
			case <-c.watched:
				return c.attend(ctx, d)
			case <-ctx.Done():
				return nil
			}
		})
	}
	g.Go(func() error {
		c.ask(ctx)
		return nil
	})
	return g.Wait()
}

// Now returns what there is, nil before the first answer, and a channel that is closed when that is no longer so.
func (c *Catalog) Now() (*Offers, <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.offers, c.changed
}

// Problem returns why there was no answer to the last request, or only one in part; nil where there was one in full.
func (c *Catalog) Problem() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.problem == "" {
		return nil
	}
	return errors.New(c.problem)
}

// Look asks the API server once, for who does not Run the catalog. The error says why there was no answer, or only one
// in part, which is returned too.
func (c *Catalog) Look(ctx context.Context) (*Offers, error) {
	c.refresh(ctx)
	offers, _ := c.Now()
	if err := c.Problem(); err != nil {
		return offers, err
	}
	return offers, ctx.Err()
}

// Refresh has the API server asked soon, and once. It does not wait for that.
func (c *Catalog) Refresh() { wake(c.soon) }

// news has the API server asked soon, and again until it has had the time to serve what a definition says.
func (c *Catalog) news() { wake(c.told) }

func wake(who chan<- struct{}) {
	select {
	case who <- struct{}{}:
	default: // it is about to
	}
}

// ask asks the API server until ctx ends.
func (c *Catalog) ask(ctx context.Context) {
	var left []time.Duration
	for {
		wait := c.refresh(ctx)
		if len(left) > 0 {
			wait, left = min(wait, left[0]), left[1:]
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
			continue
		case <-c.soon:
		case <-c.told:
			left = echoes()
		}
		timer.Stop()
		if pause.For(ctx, together) != nil {
			return
		}
	}
}

// refresh asks once, and returns when to ask again.
func (c *Catalog) refresh(ctx context.Context) time.Duration {
	var a answer
	var err error
	a.groups, a.lists, err = c.discovery.ServerGroupsAndResourcesWithContext(ctx)
	var partial *discovery.ErrGroupDiscoveryFailed
	if errors.As(err, &partial) {
		a.failed = partial.Groups
	}
	if ctx.Err() != nil {
		return slowPoll
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tell(err)
	if err != nil && partial == nil {
		c.seen.failed()
		return retryPoll
	}
	has := a.offers(c.offers)
	c.seen.answered(time.Now(), a.failed, c.offers, has)
	if !reflect.DeepEqual(has, c.offers) {
		c.offers = has
		close(c.changed)
		c.changed = make(chan struct{})
	}
	if c.watches() && c.denied.any() || partial != nil {
		return quickPoll
	}
	return slowPoll
}

// tell logs what is new of requests that failed; the caller holds mu.
func (c *Catalog) tell(err error) {
	problem := ""
	if err != nil {
		problem = err.Error()
	}
	if problem == c.problem {
		return
	}
	c.problem = problem
	if err == nil {
		c.log.Info("the API server says what it has again")
		return
	}
	c.log.Warn("the API server does not say all that it has; what is known of the rest is kept", "err", err)
}
