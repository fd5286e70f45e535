// SPDX-License-Identifier: Apache-2.0

package oracle

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"go.etcd.io/bbolt"
	mvccpb "go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

var errHeld = errors.New("held")

// session follows etcd until it is away, or the recorder is held.
func (r *Recorder) session(ctx context.Context) error {
	if !r.hold() {
		return errHeld
	}
	defer r.update(func() { r.holding = false })
	client, err := r.cfg.Dial()
	if err != nil {
		return fmt.Errorf("dial etcd: %w", err)
	}
	defer client.Close() //nolint:errcheck // read only
	if err := r.begin(ctx, client); err != nil {
		return err
	}
	return r.watch(ctx, client)
}

// hold makes this session the one that reads, unless reading is stopped.
func (r *Recorder) hold() (ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.holding = !r.held
	return r.holding
}

// begin lists where a history begins.
func (r *Recorder) begin(ctx context.Context, client *clientv3.Client) error {
	r.mu.Lock()
	first, restored := len(r.histories) == 0, r.restored
	r.mu.Unlock()
	switch {
	case first:
		return r.list(ctx, client, 0, r.start)
	case restored != 0:
		err := r.list(ctx, client, restored, r.start)
		if !errors.Is(err, rpctypes.ErrCompacted) {
			return err
		}
		// A restoration that bumps the versions compacts everything before.
		if restored, err = compacted(ctx, client, restored+1); err != nil {
			return err
		}
		return r.list(ctx, client, restored, r.start)
	default:
		return nil
	}
}

// compacted asks etcd for the revision that it was compacted to, by watching from an older one.
func compacted(ctx context.Context, client *clientv3.Client, old uint64) (uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	for res := range client.Watch(ctx, registry, clientv3.WithPrefix(), clientv3.WithRev(int64(old))) { //nolint:gosec // revisions are small
		if res.CompactRevision != 0 {
			return uint64(res.CompactRevision), nil //nolint:gosec // revisions are positive
		}
	}
	return 0, errors.New("ask etcd for its compaction: no answer")
}

const timeout = 5 * time.Second

// list reads everything at a revision, the current one if it is 0, and hands it over.
func (r *Recorder) list(
	ctx context.Context, client *clientv3.Client, revision uint64, use func(revision uint64, now map[string]known),
) error {
	ctx, cancel := context.WithTimeout(ctx, 4*timeout)
	defer cancel()
	now := map[string]known{}
	for _, x := range r.cfg.Resources {
		res, err := client.Get(ctx, x.prefix(), clientv3.WithPrefix(), clientv3.WithRev(int64(revision))) //nolint:gosec // revisions are small
		if err != nil {
			return fmt.Errorf("list %s: %w", x.prefix(), err)
		}
		if revision == 0 {
			revision = uint64(res.Header.Revision) //nolint:gosec // revisions are positive
		}
		for _, kv := range res.Kvs {
			if err := r.collect(now, kv); err != nil {
				return err
			}
		}
	}
	r.update(func() { use(revision, now) })
	return nil
}

func (r *Recorder) collect(now map[string]known, kv *mvccpb.KeyValue) error {
	i, namespace, name, ok := r.place(string(kv.Key))
	if !ok {
		return nil
	}
	o, err := Decode(kv.Value)
	if err != nil {
		return fmt.Errorf("%w: %s: %w", errUndecodable, kv.Key, err)
	}
	o.Version, o.Namespace, o.Name = uint64(kv.ModRevision), namespace, name //nolint:gosec // revisions are positive
	now[string(kv.Key)] = known{i, o}
	return nil
}

// start begins a history with what exists. The caller holds mu.
func (r *Recorder) start(revision uint64, now map[string]known) {
	if n := len(r.histories); n > 0 {
		r.histories[n-1].Last = r.seen
	}
	r.histories = append(r.histories, History{First: revision})
	for _, key := range sortedKeys(r.current) {
		if _, exists := now[key]; !exists {
			r.gone(key, revision)
		}
	}
	for _, key := range sortedKeys(now) {
		r.observe(key, now[key])
	}
	r.seen, r.restored = revision, 0
}

// leap records what changed in a range of revisions that etcd does not have any more. The caller holds mu.
func (r *Recorder) leap(revision uint64, now map[string]known) {
	r.holes = append(r.holes, Hole{History: len(r.histories) - 1, From: r.seen, To: revision})
	for _, key := range sortedKeys(r.current) {
		if _, exists := now[key]; !exists {
			r.gone(key, revision)
		}
	}
	for _, key := range sortedKeys(now) {
		if now[key].Version > r.seen {
			r.observe(key, now[key])
		}
	}
	r.seen = revision
}

func (r *Recorder) observe(key string, k known) {
	k.History = len(r.histories) - 1
	r.observations[k.resource] = append(r.observations[k.resource], k.Observation)
	r.current[key] = k
}

func (r *Recorder) gone(key string, revision uint64) {
	k, exists := r.current[key]
	if !exists {
		return
	}
	k.History, k.Version, k.Deleted = len(r.histories)-1, revision, true
	r.observations[k.resource] = append(r.observations[k.resource], k.Observation)
	delete(r.current, key)
}

// watch records changes until etcd is silent, which it never is for long: it is asked for its progress all the time.
func (r *Recorder) watch(ctx context.Context, client *clientv3.Client) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	r.mu.Lock()
	next := int64(r.seen) + 1 //nolint:gosec // revisions are small
	r.mu.Unlock()
	answers := client.Watch(ctx, registry, clientv3.WithPrefix(), clientv3.WithRev(next), clientv3.WithPrevKV(),
		clientv3.WithFragment())
	ask := time.NewTicker(again)
	defer ask.Stop()
	heard := time.Now()
	for {
		r.mu.Lock()
		held := r.held
		r.mu.Unlock()
		if held {
			return errHeld
		}
		select {
		case res, open := <-answers:
			if !open {
				return fmt.Errorf("watch etcd: %w", rpctypes.ErrNoLeader)
			}
			if res.CompactRevision != 0 {
				return r.list(ctx, client, 0, r.leap)
			}
			if err := res.Err(); err != nil {
				return fmt.Errorf("watch etcd: %w", err)
			}
			if err := r.record(&res); err != nil {
				return err
			}
			heard = time.Now()
		case <-ask.C:
			if time.Since(heard) > timeout {
				return errors.New("watch etcd: no answer")
			}
			if err := errors.Join(request(ctx, client), r.compaction(ctx, client)); err != nil {
				return err
			}
		}
	}
}

func request(ctx context.Context, client *clientv3.Client) error {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	if err := client.RequestProgress(ctx); err != nil {
		return fmt.Errorf("ask etcd for its progress: %w", err)
	}
	return nil
}

// compaction records what etcd has forgotten since the last time. A read at the last compaction's revision tells
// whether there was another one.
func (r *Recorder) compaction(ctx context.Context, client *clientv3.Client) error {
	r.mu.Lock()
	last, history := uint64(1), len(r.histories)-1
	if n := len(r.compactions); n > 0 && r.compactions[n-1].History == history {
		last = r.compactions[n-1].Revision
	}
	r.mu.Unlock()
	short, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	_, err := client.Get(short, registry, clientv3.WithRev(int64(last))) //nolint:gosec // revisions are small
	if !errors.Is(err, rpctypes.ErrCompacted) {
		return err
	}
	revision, err := compacted(ctx, client, last)
	if err == nil {
		r.update(func() {
			r.compactions = append(r.compactions, Compaction{At: time.Now(), History: history, Revision: revision})
		})
	}
	return err
}

// record takes over an answer of a watch. All events of one revision come in one answer.
func (r *Recorder) record(res *clientv3.WatchResponse) (err error) {
	r.update(func() {
		for _, e := range res.Events {
			if err = r.event(e); err != nil {
				return
			}
		}
		if res.IsProgressNotify() {
			r.seen = max(r.seen, uint64(res.Header.Revision)) //nolint:gosec // revisions are positive
		}
	})
	return err
}

func (r *Recorder) event(e *clientv3.Event) error {
	key, revision := string(e.Kv.Key), uint64(e.Kv.ModRevision) //nolint:gosec // revisions are positive
	if e.Type == clientv3.EventTypeDelete {
		r.previous(e)
		r.gone(key, revision)
	} else {
		now := map[string]known{}
		if err := r.collect(now, e.Kv); err != nil {
			return err
		}
		for _, k := range now {
			r.observe(key, k)
		}
	}
	r.seen = max(r.seen, revision)
	return nil
}

// previous takes what a deletion ended from the deletion itself, if the recorder missed it.
func (r *Recorder) previous(e *clientv3.Event) {
	if _, exists := r.current[string(e.Kv.Key)]; exists || e.PrevKv == nil {
		return
	}
	before := map[string]known{}
	if r.collect(before, e.PrevKv) == nil {
		for key, k := range before {
			r.current[key] = k
		}
	}
}

// SnapshotRevision returns the revision at which a snapshot of etcd was made, as a restored etcd has it before versions
// are bumped.
func SnapshotRevision(path string) (revision uint64, err error) {
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{ReadOnly: true, Timeout: 10 * time.Second})
	if err != nil {
		return 0, fmt.Errorf("open snapshot: %w", err)
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	err = db.View(func(tx *bbolt.Tx) error {
		keys, meta := tx.Bucket([]byte("key")), tx.Bucket([]byte("meta"))
		if keys == nil || meta == nil {
			return fmt.Errorf("%s is no snapshot of etcd", path)
		}
		// Keys are revisions. The newest one may have been compacted away, if it was a deletion.
		last, _ := keys.Cursor().Last()
		for _, key := range [][]byte{last, meta.Get([]byte("finishedCompactRev"))} {
			if len(key) >= 8 {
				revision = max(revision, binary.BigEndian.Uint64(key))
			}
		}
		return nil
	})
	return revision, err
}
