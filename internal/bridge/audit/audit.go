// SPDX-License-Identifier: Apache-2.0

// Package audit compares what the log has of a stream with what the API server has. An object whose changes are on
// their way is no difference: at a position everything up to it is settled, so what is not newer must be the same.
package audit

import (
	"context"
	"fmt"
	"hash/fnv"
	"log/slog"
	"strings"
	"time"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	"github.com/kube-eventbridge/kube-eventbridge/encode"
	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge/health"
	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge/ledger"
	"github.com/kube-eventbridge/kube-eventbridge/internal/pause"
	"github.com/kube-eventbridge/kube-eventbridge/source"
	"github.com/kube-eventbridge/kube-eventbridge/source/kube"
)

const (
	// Up to so many objects an audit looks at one by one the second and third time.
	suspects = 1000
	looks    = 3
	// names is how many of the objects that differ are named.
	names = 3
	// retry is how long after an audit that was not possible the next one is tried.
	retry = time.Hour
)

// Stream is what an audit needs of the stream that it looks at.
type Stream interface {
	// Safe returns a position that the log is complete up to; empty if there is none.
	Safe() string
	// Known returns the newest that was handed over of an object, published or not, and whether the log lacks it,
	// because the broker has refused it.
	Known(key string) (row checkpoint.Row, exists, refused bool)
}

// Auditor audits one stream.
type Auditor struct {
	Stream  Stream
	Client  *kube.Client
	At      source.Stream
	Ledger  *ledger.Ledger
	Log     *slog.Logger
	Metrics *health.Stream
	// Watching reports whether the stream watches.
	Watching func() bool
	// Relist has the stream listed again, because the log is not what exists.
	Relist func(why source.Why)
}

// Run audits once in each interval, until ctx ends. An interval of 0 is never. Name sets the stream's times apart from
// those of others.
func (a *Auditor) Run(ctx context.Context, name string, every time.Duration) {
	if every <= 0 {
		return
	}
	wait := Until(time.Now(), name, every)
	for ; pause.For(ctx, wait) == nil; wait = min(wait, Until(time.Now(), name, every)) {
		differing, done, err := a.Audit(ctx)
		wait = min(every, retry)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			a.Log.Warn("audit: the API server does not tell what exists", "err", err)
			continue
		case !done:
			continue
		}
		wait = every
		a.Metrics.Audits.Inc()
		if len(differing) == 0 {
			continue
		}
		a.Metrics.Differences.Add(float64(len(differing)))
		first := strings.Join(differing[:min(len(differing), names)], ", ")
		a.Log.Error("audit: the log is not what exists; the stream is listed again", "objects", len(differing), "such as",
			first)
		a.Relist(source.Why{Cause: source.CauseAudit, Message: fmt.Sprintf(
			"an audit found objects that differ: %d, such as %s", len(differing), first)})
	}
}

// Until returns how long it is from now until the next audit of the stream with that name. The audits of a stream are
// at the same times, whatever process asks: a process that is restarted more often than the interval audits too. Those
// of different streams are at different times, so that their lists do not reach the API server together.
func Until(now time.Time, name string, every time.Duration) time.Duration {
	h := fnv.New64a()
	_, _ = h.Write([]byte(name + "\x00audit"))
	shift := int64(h.Sum64() % uint64(every))
	return every - time.Duration((now.UnixNano()-shift)%int64(every))
}

// Audit returns the objects of which the log has another state than exists. It is not done where there was nothing to
// compare with.
func (a *Auditor) Audit(ctx context.Context) (differing []string, done bool, err error) {
	position := a.Stream.Safe()
	if position == "" || !a.Watching() {
		return nil, false, nil
	}
	differing, err = a.suspects(ctx, position)
	for look := 1; err == nil && len(differing) > 0 && look < looks; look++ {
		if len(differing) <= suspects {
			differing, err = a.lookAgain(ctx, differing)
		} else if position = a.Stream.Safe(); position != "" {
			differing, err = a.suspects(ctx, position)
		} else {
			return nil, false, nil // a list has begun, and sees everything
		}
	}
	return differing, err == nil, err
}

// suspects compares all objects, as they were at position, with the ledger as it is while they are read.
func (a *Auditor) suspects(ctx context.Context, position string) (differing []string, err error) {
	seen := map[string]struct{}{}
	err = kube.Audit(ctx, a.Client, a.At, position, func(id source.Ident, raw []byte) error {
		key := id.Key()
		seen[key] = struct{}{}
		if !a.Agrees(key, &id, encode.Written(raw), position) {
			differing = append(differing, key)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	for key := range a.Ledger.All() {
		if _, ok := seen[key]; !ok && !a.Agrees(key, nil, 0, position) {
			differing = append(differing, key)
		}
	}
	return differing, nil
}

// lookAgain returns those of the objects that differ now, too.
func (a *Auditor) lookAgain(ctx context.Context, keys []string) (differing []string, err error) {
	for _, key := range keys {
		position := a.Stream.Safe()
		if position == "" {
			return nil, nil // a list has begun, and sees everything
		}
		at := ledger.Ident(key, &checkpoint.Row{})
		id, raw, found, err := kube.ReadAt(ctx, a.Client, a.At, at.Namespace, at.Name, position)
		if err != nil {
			return nil, err
		}
		exists := &id
		if !found {
			exists = nil
		}
		if !a.Agrees(key, exists, encode.Written(raw), position) {
			differing = append(differing, key)
		}
	}
	return differing, nil
}

// Agrees reports whether what is known of an object can be true if it was so at position, and written then; exists is
// nil if there was no such object.
func (a *Auditor) Agrees(key string, exists *source.Ident, written int64, position string) bool {
	row, ok, refused := a.Stream.Known(key)
	switch {
	case refused && ledger.Numeric(position) != 0 || ok && ledger.After(row.ResourceVersion, position):
		return true
	case exists == nil:
		return !ok || row.Deleted
	default:
		return ok && !row.Deleted && ledger.SameVersion(&row, *exists, written)
	}
}
