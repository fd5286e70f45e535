// SPDX-License-Identifier: Apache-2.0

package oracle

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/kube-eventbridge/kube-eventbridge/integration/internal/pause"
)

// Resource is what a [Recorder] follows.
type Resource struct {
	Resource   schema.GroupVersionResource
	Namespaced bool
	// Prefix is where etcd has the objects, with a slash at its end. If empty it is the usual place:
	// /registry/<resource>/ of what Kubernetes has built in, /registry/<group>/<resource>/ of custom resources.
	Prefix string
}

func (r Resource) prefix() string {
	switch {
	case r.Prefix != "":
		return r.Prefix
	case scheme.Scheme.IsGroupRegistered(r.Resource.Group):
		return registry + r.Resource.Resource + "/"
	default:
		return registry + r.Resource.Group + "/" + r.Resource.Resource + "/"
	}
}

// registry is where the API server keeps everything.
const registry = "/registry/"

// RecorderConfig says what to record, and from where. Every field but Cluster is required.
type RecorderConfig struct {
	// Dial returns a client of etcd that the recorder closes. It is called again whenever etcd was away.
	Dial      func() (*clientv3.Client, error)
	Resources []Resource
	// Cluster is the name that events carry.
	Cluster string
}

// Recorder follows objects in etcd from when [Recorder.Run] first reaches it. It has every revision: an etcd that is
// killed and started again is read on from the last one; only what was compacted while the recorder could not read is
// a [Hole]. It keeps names, uids, labels, versions, and a hash of what objects contain. Memory grows by some hundred
// bytes for each change.
//
// A restoration of etcd is not something that it can see. Whoever restores kills the API server, calls Hold,
// restores, and calls Restored.
//
// Run is called once; the other methods may be called concurrently with it.
type Recorder struct {
	cfg RecorderConfig

	mu           sync.Mutex // guards what follows
	histories    []History
	holes        []Hole
	observations [][]Observation
	compactions  []Compaction
	// current is what exists, by etcd's key.
	current map[string]known
	// seen is the revision up to which everything is recorded, in the newest history; 0 before the first.
	seen    uint64
	changed chan struct{} // closed and replaced whenever seen, held or failed changes
	held    bool
	holding bool
	// restored is the revision at which a restored etcd began, until that is recorded.
	restored uint64
	failed   error
}

type known struct {
	resource int
	Observation
}

// NewRecorder returns a recorder that has recorded nothing.
func NewRecorder(cfg RecorderConfig) *Recorder {
	return &Recorder{
		cfg: cfg, observations: make([][]Observation, len(cfg.Resources)), current: map[string]known{},
		changed: make(chan struct{}),
	}
}

// again is the time between two attempts to reach etcd, which is on the same machine.
const again = 100 * time.Millisecond

// Run records until ctx ends, and waits for an etcd that is away. The error is one that makes the record useless: an
// object that cannot be decoded.
func (r *Recorder) Run(ctx context.Context) error {
	for ctx.Err() == nil {
		if err := r.session(ctx); errors.Is(err, errUndecodable) {
			r.update(func() { r.failed = err })
			return err
		}
		if err := pause.For(ctx, again); err != nil {
			return nil
		}
	}
	return nil
}

// update changes what mu guards and wakes those who wait for it.
func (r *Recorder) update(do func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	do()
	close(r.changed)
	r.changed = make(chan struct{})
}

// await waits until a condition holds.
func (r *Recorder) await(ctx context.Context, holds func() bool) error {
	for {
		r.mu.Lock()
		done, err, changed := holds(), r.failed, r.changed
		r.mu.Unlock()
		if done || err != nil {
			return err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("wait for the recorder: %w", context.Cause(ctx))
		}
	}
}

// Sync returns once everything is recorded that etcd had committed when it was called. It waits for an etcd that is
// away, until ctx ends.
func (r *Recorder) Sync(ctx context.Context) error {
	revision, err := r.revision(ctx)
	if err != nil {
		return err
	}
	return r.await(ctx, func() bool { return r.seen >= revision })
}

func (r *Recorder) revision(ctx context.Context) (uint64, error) {
	for {
		client, err := r.cfg.Dial()
		if err != nil {
			return 0, fmt.Errorf("read revision: %w", err)
		}
		short, cancel := context.WithTimeout(ctx, 2*time.Second)
		res, err := client.Get(short, registry, clientv3.WithPrefix(), clientv3.WithCountOnly())
		cancel()
		_ = client.Close() // nothing was written
		if err == nil {
			return uint64(res.Header.Revision), nil //nolint:gosec // revisions are positive
		}
		if pause.For(ctx, again) != nil {
			return 0, fmt.Errorf("read revision: %w", err)
		}
	}
}

// Hold records everything that etcd has committed and stops reading, until Restored is called. The API server must be
// dead, and etcd alive: what is committed between Hold and the restoration is in no history.
func (r *Recorder) Hold(ctx context.Context) error {
	if err := r.Sync(ctx); err != nil {
		return err
	}
	r.update(func() { r.held = true })
	return r.await(ctx, func() bool { return !r.holding })
}

// Restored begins a new history: etcd runs again from a snapshot that was made at revision, see [SnapshotRevision].
// Whether the versions were bumped the recorder finds out. It is called after Hold, and may be called when the API
// server has been writing again for a while.
func (r *Recorder) Restored(revision uint64) {
	r.update(func() { r.held, r.restored = false, revision })
}

// Truth returns what the recorder knows of streams. Call [Recorder.Sync] after the log was read and before, so that
// nothing is in the log and not in the truth. An error names a stream whose resource is not recorded, or whose
// selector is none.
func (r *Recorder) Truth(streams ...Stream) (*Truth, error) { return r.TruthOf(nil, streams...) }

// TruthOf is [Recorder.Truth] of a pipeline whose selection changes. Each stream is then an area, whose own selector
// says nothing: the objects of a resource, in all namespaces or one, which every stream of the schedule has all of or
// none.
func (r *Recorder) TruthOf(schedule Schedule, streams ...Stream) (*Truth, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.histories) == 0 {
		return nil, errors.New("nothing was recorded yet")
	}
	t := &Truth{
		Histories: slices.Clone(r.histories), Holes: slices.Clone(r.holes), Compactions: slices.Clone(r.compactions),
		Streams: map[Stream]map[string][]State{}, Schedule: schedule,
	}
	t.Histories[len(t.Histories)-1].Last = r.seen
	for _, s := range streams {
		i := slices.IndexFunc(r.cfg.Resources, func(x Resource) bool { return x.Resource == s.Resource })
		if i < 0 || s.Cluster != r.cfg.Cluster {
			return nil, fmt.Errorf("%s of cluster %s is not recorded", s, s.Cluster)
		}
		of := schedule
		if len(of) == 0 {
			of = alone(s)
		}
		states, err := statesIn(s, of, r.observations[i])
		if err != nil {
			return nil, err
		}
		t.Streams[s] = states
	}
	return t, nil
}

// Place returns up to where everything is recorded.
func (r *Recorder) Place() Place {
	r.mu.Lock()
	defer r.mu.Unlock()
	return Place{max(len(r.histories)-1, 0), r.seen}
}

// Changes counts what was recorded of all resources, restored objects included.
func (r *Recorder) Changes() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := 0
	for _, o := range r.observations {
		n += len(o)
	}
	return n
}

// place finds the resource of an etcd key, and the object's name.
func (r *Recorder) place(key string) (resource int, namespace, name string, ok bool) {
	for i, x := range r.cfg.Resources {
		rest, is := strings.CutPrefix(key, x.prefix())
		if !is {
			continue
		}
		if !x.Namespaced {
			return i, "", rest, rest != ""
		}
		namespace, name, is = strings.Cut(rest, "/")
		return i, namespace, name, is && name != ""
	}
	return 0, "", "", false
}
