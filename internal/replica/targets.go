// SPDX-License-Identifier: Apache-2.0

package replica

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kube-eventbridge/kube-eventbridge/internal/replica/clean"
	"github.com/kube-eventbridge/kube-eventbridge/internal/replica/keys"
	"github.com/kube-eventbridge/kube-eventbridge/internal/replica/listing"
	"github.com/kube-eventbridge/kube-eventbridge/internal/replica/observed"
	"github.com/kube-eventbridge/kube-eventbridge/internal/replica/resyncs"
	"github.com/kube-eventbridge/kube-eventbridge/internal/replica/selection"
	"github.com/kube-eventbridge/kube-eventbridge/internal/replica/waiting"
	"github.com/kube-eventbridge/kube-eventbridge/source"
	"github.com/kube-eventbridge/kube-eventbridge/source/catalog"
	"github.com/kube-eventbridge/kube-eventbridge/source/kube"
	"github.com/kube-eventbridge/kube-eventbridge/source/reader"
)

// targets reads the objects of the target that bear the replica's label, resource by resource.
type targets struct {
	run     *run
	client  *kube.Client
	catalog *catalog.Catalog
	reading sync.WaitGroup

	listing *listing.Streams

	askEvery time.Duration
}

func newTargets(r *run, client *kube.Client, offered *catalog.Catalog, streams *listing.Streams) *targets {
	return &targets{run: r, client: client, catalog: offered, listing: streams, askEvery: askEvery}
}

// open begins to read a resource of the target, until ctx ends.
func (t *targets) open(ctx context.Context, res *selection.Resource) {
	t.listing.Open(res.Number)
	t.reading.Go(func() {
		for backoff := (kube.Backoff{}); ; {
			err := t.read(ctx, res)
			switch {
			case ctx.Err() != nil:
				return
			case errors.As(err, new(*source.RewoundError)):
				t.run.end(fmt.Errorf("%w: %w", errRewound, err))
				return
			}
			t.run.log.Warn("the target is listed again", slog.String("resource", res.Resource), slog.Any("reason", err))
			t.listing.Open(res.Number)
			t.forget(res)
			if backoff.Wait(ctx, err) != nil {
				return
			}
		}
	})
}

// state returns how far the stream is read that has an object.
func (t *targets) state(res *selection.Resource, k keys.Key) listing.State {
	at, _ := placeOf(res, k)
	return t.listing.State(res.Number, at.Namespace)
}

// placeOf returns where the target has an object of a resource; ok is false if it has no place there.
func placeOf(res *selection.Resource, k keys.Key) (at types.NamespacedName, ok bool) {
	return res.Places().Target(res.GroupResource(), types.NamespacedName{Namespace: k.Namespace, Name: k.Name})
}

// has reports whether a stream of the target, which a namespace stands for, has the object of a key.
func has(res *selection.Resource, namespace string, k keys.Key) bool {
	at, ok := placeOf(res, k)
	return namespace == "" || ok && at.Namespace == namespace
}

// forget removes what is known of the target's objects of a resource.
func (t *targets) forget(res *selection.Resource) {
	for _, row := range t.run.table.Of(res.Number) {
		t.run.table.Vanish(row.Key, "")
	}
}

// read reads a resource, in all of its streams, once the target serves it. The error is ctx's, or says why a stream
// cannot be read on.
func (t *targets) read(ctx context.Context, res *selection.Resource) error {
	served, err := t.served(ctx, res, func() {
		t.listing.SetUnserved(res.Number)
		t.run.lookAtAll(res, "")
	})
	if err != nil {
		return err
	}
	namespaces := res.Namespaces(served.Namespaced)
	t.listing.Begin(res.Number, served.Version, namespaces)
	group, ctx := errgroup.WithContext(ctx)
	for _, namespace := range namespaces {
		f := newFeed(t.run, res, source.Stream{
			Resource: served, Namespace: namespace, LabelSelector: clean.Label + "=" + t.run.cfg.Name,
		})
		group.Go(func() error {
			return (&reader.Reader{
				Client: t.client, Stream: f.stream, Feed: f, History: f, Observer: f,
			}).Run(ctx)
		})
	}
	group.Go(func() error { return t.follow(ctx, served) })
	group.Go(func() error {
		return kube.Rewound(ctx, t.client, func() source.Stream {
			return source.Stream{Resource: served, Namespace: t.listing.Any(res.Number)}
		}, t.askEvery)
	})
	return group.Wait()
}

// askEvery is how often the target is asked for its version.
const askEvery = 10 * time.Second

// errOther says that a resource is not served any more, or in other versions.
var errOther = errors.New("the target does not serve the version that was read")

// follow returns errOther when the target does not serve a version of a resource any more, or ctx's error.
func (t *targets) follow(ctx context.Context, served source.Resource) error {
	for {
		offers, changed := t.catalog.Now()
		if offers != nil {
			found := offers.Get(served.Group, served.Resource)
			if found == nil {
				return errOther
			}
			if _, same := found.In(served.Version); !same {
				return errOther
			}
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// served waits until the target serves a resource, and returns it in the version that the log has, or in another one.
// It calls lacks each time that the target says that it does not.
func (t *targets) served(ctx context.Context, res *selection.Resource, lacks func()) (source.Resource, error) {
	for {
		offers, changed := t.catalog.Now()
		if offers != nil {
			if found := offers.Get(res.Group, res.GroupVersionResource.Resource); found != nil {
				if same, ok := found.In(res.Version); ok {
					return same, nil
				}
				return found.Versions[0], nil
			}
			lacks()
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return source.Resource{}, ctx.Err()
		}
	}
}

// within returns which keys of a stream of the target a scope of the source has, as far as the labels of the target's
// objects tell. A namespace stands for the stream. The error is as for list.
func (t *targets) within(
	ctx context.Context, res *selection.Resource, namespace string, sc resyncs.Scope,
) (func(keys.Key) bool, error) {
	if sc.LabelSelector == "" {
		return func(k keys.Key) bool { return has(res, namespace, k) }, nil
	}
	none := func(keys.Key) bool { return false }
	if _, err := labels.Parse(sc.LabelSelector); err != nil {
		return none, nil //nolint:nilerr // nothing is known to be within
	}
	if sc.Namespace != "" {
		target, ok := res.Places().TargetNamespace(sc.Namespace)
		if !ok || namespace != "" && namespace != target {
			return none, nil
		}
		namespace = target
	}
	served, err := t.served(ctx, res, func() {})
	if err != nil {
		return nil, err
	}
	stream := source.Stream{
		Resource: served, Namespace: namespace, LabelSelector: clean.Label + "=" + t.run.cfg.Name + "," + sc.LabelSelector,
	}
	found := make(map[keys.Key]struct{})
	if err := t.list(ctx, stream, func(item *kube.Item) {
		if key, ok := res.Key(item.Namespace, item.Name); ok {
			found[key] = struct{}{}
		}
	}); err != nil {
		return nil, err
	}
	return func(k keys.Key) bool { _, in := found[k]; return in }, nil
}

// list calls f with what a stream of the target has, until it has all of it. What is in the way is told. The error is
// ctx's, or that of the target if nothing is to be written.
func (t *targets) list(ctx context.Context, stream source.Stream, f func(*kube.Item)) error {
	part := stream.Name() + ", to prune"
	defer t.run.health.Set(part, nil)
	for backoff := (kube.Backoff{}); ; {
		_, err := kube.Current(ctx, t.client, stream, func(item *kube.Item) error { f(item); return nil })
		if err == nil || ctx.Err() != nil || t.run.compares {
			return err
		}
		t.run.health.Set(part, err)
		if err := backoff.Wait(ctx, err); err != nil {
			return err
		}
	}
}

// feed takes over what a stream of the target has. It implements what package source asks of the far side. Nothing is
// held up: a change is put into the table where it is delivered.
type feed struct {
	run    *run
	res    *selection.Resource
	stream source.Stream
	listed func()
	// seen has the rows of a list under way; nil while there is none. The list is of version.
	seen    map[keys.ID]struct{}
	version string
	// rewound, if not nil, tells of an object of the list that is older than it was known before that version.
	rewound error
}

func newFeed(r *run, res *selection.Resource, stream source.Stream) *feed {
	return &feed{run: r, res: res, stream: stream, listed: sync.OnceFunc(func() {
		r.checkEpochs(res)
		if r.targets.listing.Missed(res.Number, stream.Namespace) {
			r.deletions.CountLate(func(row *keys.Row) bool {
				return row.Resource == res.Number && has(res, stream.Namespace, row.Key)
			})
		}
		r.lookAtAll(res, r.targets.listing.SetListed(res.Number, stream.Namespace)...)
	})}
}

// Admit implements [source.Feed].
func (f *feed) Admit(ctx context.Context, _ string, _ int) (source.Ticket, error) {
	return 0, ctx.Err()
}

// Deliver implements [source.Feed].
func (f *feed) Deliver(c source.Change) {
	defer c.Body.Release()
	key, ok := f.res.Key(c.Namespace, c.Name)
	if !ok {
		return
	}
	if c.Op == source.Deleted {
		f.ended(key, c.UID)
		return
	}
	object, err := observed.Decode(c.Body.Bytes())
	if err != nil {
		return // no API server sends that
	}
	actual := f.run.observer.Actual(f.res, key, object)
	if f.seen != nil {
		f.compare(key, actual)
	}
	if actual.Owner == keys.Ours && f.run.table.MayHaveForgotten(key) {
		f.run.end(errForgotten)
	}
	id, changed := f.run.table.Observe(key, actual)
	if f.seen != nil {
		f.seen[id] = struct{}{}
	}
	if changed {
		f.run.queue.Add(id)
	}
}

// ended takes over that an object has ended, or bears the label no more. Somebody else did that if it was as it should
// be.
func (f *feed) ended(key keys.Key, uid string) {
	before, _, _ := f.run.table.Find(key)
	id, found := f.run.table.Vanish(key, uid)
	if !found {
		return
	}
	if before.Accepted && before.Desired.Claim.Exists() && before.Actual.Applied == before.Desired.Sequence {
		f.run.contests.Add(id, time.Now())
	}
	f.run.queue.Add(id)
}

// compare looks whether an object of a list is older than it is known, although the list is not. Then the target's etcd
// was restored, and its versions were bumped: a watch has expired as any other one does.
func (f *feed) compare(key keys.Key, listed keys.Actual) {
	row, _, _ := f.run.table.Find(key)
	known := row.Actual
	if known.Owner == keys.Absent || known.UID != listed.UID || known.Version == listed.Version {
		return
	}
	isOlder := source.Later(listed.Version, known.Version) == known.Version
	if isOlder && source.Later(f.version, known.Version) == f.version {
		f.rewound = &source.RewoundError{
			Stream: f.stream.Name(), Object: key.Name, Position: known.Version, At: f.version, Server: listed.Version,
		}
	}
}

// Resume implements [source.History]: a reader begins with a list.
func (f *feed) Resume() (version string, known iter.Seq2[source.Ident, bool], ok bool) {
	return "", nil, false
}

// Note implements [source.History].
func (f *feed) Note(ctx context.Context, p source.Progress) error {
	switch p.Kind { //nolint:exhaustive // nothing is remembered of others
	case source.SnapshotStarted, source.Gap:
		f.seen, f.version, f.rewound = make(map[keys.ID]struct{}), p.Version, nil
	case source.Listed:
		if f.rewound != nil {
			return f.rewound
		}
		f.sweep()
		f.listed()
		f.run.lookAgain(waiting.NoResource, all)
	}
	return ctx.Err()
}

// sweep removes what a list lacks.
func (f *feed) sweep() {
	for id, row := range f.run.table.Of(f.res.Number) {
		if row.Actual.Owner == keys.Absent {
			continue
		}
		if _, seen := f.seen[id]; seen || !has(f.res, f.stream.Namespace, row.Key) {
			continue
		}
		if _, found := f.run.table.Vanish(row.Key, row.Actual.UID); found {
			f.run.queue.Add(id)
		}
	}
	f.seen = nil
}

// State implements [source.Observer].
func (f *feed) State(s source.State, err error) {
	waits := s == source.Waiting
	f.run.lookAtAll(f.res, f.run.targets.listing.SetFailing(f.res.Number, f.stream.Namespace, waits)...)
	if !waits {
		err = nil
	}
	f.run.health.Set(f.stream.Name(), err)
}

// Restarted implements [source.Observer].
func (f *feed) Restarted(string) {}
