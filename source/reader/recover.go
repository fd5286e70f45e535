// SPDX-License-Identifier: Apache-2.0

package reader

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/kube-eventbridge/kube-eventbridge/source"
	"github.com/kube-eventbridge/kube-eventbridge/source/kube"
	"github.com/kube-eventbridge/kube-eventbridge/source/rawjson"
)

// Recovery bounds what is read back of the API server's history where a watch cannot go on: object by object, as each
// was before its present state, until what was published is reached. The list behind the gap waits for it.
//
// A request that fails for a reason that may pass is repeated, after a wait of 100 ms to 30 s, or of up to five minutes
// where the API server asks for that. Where three in a row are refused for lack of permission (401, 403), no more are
// made for this gap. However it ends, what was read is delivered, and the gap's cause says of how many objects
// something is missing, and why.
type Recovery struct {
	// Reads is how many requests for one object are made at most, for each gap, with those that are repeated; zero
	// turns reading back off.
	Reads int
	// Time is how long it may take, with all waiting for room; zero means that only Reads is a bound: then a gap lasts
	// at least as long as the API server is away, or asks to wait, until all of Reads are used up.
	Time time.Duration
}

const (
	// readers is how many objects are read back at a time.
	readers = 4
	// maxHeld is how many bytes of one object's states are held while older ones are looked for, outside of any budget.
	// What is more is read once more.
	maxHeld = 2 << 20
	// maxDenied is how many reads in a row may lack permission.
	maxDenied = 3
)

var (
	errSpent = errors.New("the limit of reads was reached")
	errLate  = errors.New("the time for it was over")
)

// recovery reads back what lies between what was published and a version. What could be read is delivered, each
// object's states oldest first; where reading ends too early that is its end for the object only.
type recovery struct {
	wire *wire
	// from is the position: what comes before it is published, or on its way. To is the version of the list behind the
	// gap.
	from, to uint64
	// reads are those left; compacted is the newest version that was found to be gone.
	reads      atomic.Int64
	compacted  atomic.Uint64
	permission permission

	// delivered counts changes, broken the objects whose reading ended too early; why is the reason for the last of
	// them.
	delivered, broken int
	why               error
}

// readBack delivers what can be read of the time between the position and a version. The error is ctx's, or says why
// the list at that version cannot be read.
func (w *wire) readBack(ctx context.Context, version string, known iter.Seq2[source.Ident, bool]) error {
	from, ok := source.Number(w.at)
	to, numbers := source.Number(version)
	if w.recovery.Reads <= 0 || !ok || !numbers {
		return nil
	}
	r := &recovery{wire: w, from: from, to: to}
	r.reads.Store(int64(w.recovery.Reads - w.gap.reads))
	work, err := w.differences(ctx, version, known)
	if err != nil {
		return err
	}
	if len(work) > 0 {
		if err := w.note(ctx, source.Progress{
			Kind: source.Recovering, Version: version, Why: w.gap.why,
			Seen: time.Now(),
		}); err != nil {
			return err
		}
	}
	bounded := ctx
	if w.recovery.Time > 0 {
		if w.gap.until.IsZero() {
			w.gap.until = time.Now().Add(w.recovery.Time)
		}
		var cancel context.CancelFunc
		bounded, cancel = context.WithDeadlineCause(ctx, w.gap.until, errLate)
		defer cancel()
	}
	err = r.run(ctx, bounded, work)
	w.gap.reads = w.recovery.Reads - max(int(r.reads.Load()), 0)
	w.gap.account = r.account()
	return err
}

// run reads back all objects within bounded, several at a time, and hands over one after the other. The error is ctx's.
func (r *recovery) run(ctx, bounded context.Context, work []difference) error {
	found := make(chan *trail)
	var next atomic.Int64
	var reading, closing sync.WaitGroup
	for range min(readers, len(work)) {
		reading.Go(func() {
			for i := next.Add(1); i <= int64(len(work)) && ctx.Err() == nil; i = next.Add(1) {
				if t := r.trail(work[i-1]); t != nil {
					t.why = t.follow(bounded)
					found <- t
				}
			}
		})
	}
	closing.Go(func() {
		reading.Wait()
		close(found)
	})
	for t := range found {
		r.deliver(ctx, bounded, t)
	}
	closing.Wait()
	return ctx.Err()
}

// deliver hands over what was found of an object, oldest first.
func (r *recovery) deliver(ctx, bounded context.Context, t *trail) {
	defer t.release()
	for _, p := range slices.Backward(t.steps) {
		if p.body == nil {
			if err := t.again(bounded, p); err != nil {
				t.why = err
				continue
			}
		}
		size := source.ChangeSize(len(p.body.Bytes()))
		ticket, err := r.wire.feed.Admit(ctx, "", size)
		if err != nil {
			return
		}
		r.wire.feed.Deliver(source.Change{
			Op: p.op, Ident: p.Ident, Body: p.body, Reason: source.ReasonRecovered, Seen: time.Now(), Ticket: ticket, Size: size,
			Listed: true,
		})
		p.body = nil
		r.delivered++
	}
	if t.why != nil {
		r.broken, r.why = r.broken+1, t.why
	}
}

// account says for a person what was read back.
func (r *recovery) account() string {
	missing := ""
	if r.broken > 0 {
		missing = fmt.Sprintf(", those of %s not completely (%s)", plural(r.broken, "object"), kube.StatusMessage(r.why))
	}
	were := "were"
	if r.delivered == 1 {
		were = "was"
	}
	return fmt.Sprintf("%s %s read back%s, what was created and deleted in between is not known",
		plural(r.delivered, "change"), were, missing)
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// read reads an object as it was at a version; nil if the stream did not have it. What fails for a reason that may pass
// is repeated, within the bounds.
func (r *recovery) read(ctx context.Context, id source.Ident, at uint64) (*past, error) {
	if at <= r.compacted.Load() {
		return nil, gone()
	}
	var retry kube.Backoff
	for {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if err := r.permission.lacking(); err != nil {
			return nil, err
		}
		if r.reads.Add(-1) < 0 {
			return nil, errSpent
		}
		p, err := r.readOnce(ctx, id, at)
		r.permission.note(err)
		if kube.Expired(err) {
			r.forget(at)
		}
		if err == nil || kube.Unanswerable(err) || r.permission.lacking() != nil {
			return p, err
		}
		if retry.Wait(ctx, err) != nil {
			return nil, context.Cause(ctx)
		}
	}
}

func (r *recovery) readOnce(ctx context.Context, key source.Ident, at uint64) (p *past, err error) {
	s, q := r.wire.stream, kube.PageQuery{Exact: strconv.FormatUint(at, 10)}
	_, err = r.wire.client.ReadExact(ctx, s, key, q, func(id source.Ident, raw []byte) {
		version, _ := source.Number(id.ResourceVersion)
		p = &past{Ident: id, op: source.Updated, version: version, body: source.NewListBody(raw, s.Resource)}
	})
	if err == nil && p != nil && p.version == 0 {
		err = rawjson.Unreadable("the resourceVersion %q of %q is no number", p.ResourceVersion, p.Name)
	}
	if err != nil {
		p.release()
		p = nil
	}
	return p, err
}

// forget notes that a version is gone, so that nothing before it is asked for any more.
func (r *recovery) forget(version uint64) {
	for {
		known := r.compacted.Load()
		if known >= version || r.compacted.CompareAndSwap(known, version) {
			return
		}
	}
}

// permission is whether reading back is of use still. That it may not be done can pass, while credentials are
// exchanged.
type permission struct {
	mu sync.Mutex
	// refusals are those since something was answered; for good is the last one of too many.
	refusals int
	forGood  error
}

// note takes note of how a read ended.
func (p *permission) note(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case apierrors.IsForbidden(err), apierrors.IsUnauthorized(err):
		if p.refusals++; p.refusals >= maxDenied {
			p.forGood = err
		}
	case err == nil, kube.Unanswerable(err):
		p.refusals = 0
	}
}

// lacking returns why nothing more is to be read.
func (p *permission) lacking() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.forGood
}
