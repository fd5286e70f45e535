// SPDX-License-Identifier: Apache-2.0

package stream

import (
	"context"
	"fmt"
	"hash/fnv"
	"strings"
	"time"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	"github.com/kube-eventbridge/kube-eventbridge/encode"
	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge/ledger"
	"github.com/kube-eventbridge/kube-eventbridge/internal/pause"
	"github.com/kube-eventbridge/kube-eventbridge/internal/sequence"
	"github.com/kube-eventbridge/kube-eventbridge/source"
	"github.com/kube-eventbridge/kube-eventbridge/source/kube"
)

const (
	// Up to so many objects an audit looks at one by one the second and third time.
	auditSuspects = 1000
	auditLooks    = 3
	// auditNames is how many of the objects that differ are named.
	auditNames = 3
	// auditRetry is how long after an audit that was not possible the next one is tried.
	auditRetry = time.Hour
)

// auditor compares what exists with what the log has of a stream.
type auditor struct{ *Stream }

// audits compares what exists with what the log has, once in each interval, until ctx ends. If they differ, the stream
// is made to list again. An interval of 0 is never.
func (s *auditor) audits(ctx context.Context, every time.Duration) {
	if every <= 0 {
		return
	}
	log := s.Env.Log.With("stream", s.Name)
	retry := min(every, auditRetry)
	wait := s.UntilAudit(time.Now(), every)
	for ; pause.For(ctx, wait) == nil; wait = min(wait, s.UntilAudit(time.Now(), every)) {
		differing, done, err := s.Audit(ctx)
		wait = retry
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			log.Warn("audit: the API server does not tell what exists", "err", err)
			continue
		case !done:
			continue
		}
		wait = every
		s.Figures.Metrics.Audits.Inc()
		if len(differing) == 0 {
			continue
		}
		s.Figures.Metrics.Differences.Add(float64(len(differing)))
		s.Epochs.Distrust()
		log.Error("audit: the log is not what exists; the stream is listed again", "objects", len(differing), "such as",
			first(differing))
		s.Epochs.AskForList(source.Why{Cause: source.CauseAudit, Message: fmt.Sprintf(
			"an audit found objects that differ: %d, such as %s", len(differing), first(differing))})
	}
}

// AskForList asks for a list, unless one is owed or asked for: that sees all that this one would.
func (s *epochs) AskForList(why source.Why) {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	if s.Saved.Owes.List != sequence.Nothing {
		return
	}
	select {
	case s.Again <- why:
	default:
	}
}

// UntilAudit returns how long it is from now until the stream's next audit. The audits of a stream are at the same
// times, whatever process asks: a process that is restarted more often than the interval audits too. Those of different
// streams are at different times, so that their lists do not reach the API server together.
func (s *auditor) UntilAudit(now time.Time, every time.Duration) time.Duration {
	h := fnv.New64a()
	_, _ = h.Write([]byte(s.Env.Pipeline + "\x00" + s.Name + "\x00audit"))
	shift := int64(h.Sum64() % uint64(every))
	return every - time.Duration((now.UnixNano()-shift)%int64(every))
}

// Distrust says that the log lacks something that is older than the position.
func (s *epochs) Distrust() {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	s.Distrusted = true
}

func first(keys []string) string { return strings.Join(keys[:min(len(keys), auditNames)], ", ") }

// Audit returns the objects of which the log has another state than exists. An object whose changes are on their way is
// none: at a position everything up to it is settled, so what is not newer must be the same. It is not done where there
// was nothing to compare with.
func (s *auditor) Audit(ctx context.Context) (differing []string, done bool, err error) {
	position := s.Safe()
	if position == "" || !s.Status.Watching() || s.Epochs.Replaying() {
		return nil, false, nil
	}
	differing, err = s.suspects(ctx, position)
	for look := 1; err == nil && len(differing) > 0 && look < auditLooks; look++ {
		if len(differing) <= auditSuspects {
			differing, err = s.lookAgain(ctx, differing)
		} else if position = s.Safe(); position != "" {
			differing, err = s.suspects(ctx, position)
		} else {
			return nil, false, nil // a list has begun, and sees everything
		}
	}
	return differing, err == nil, err
}

// suspects compares all objects, as they were at position, with the ledger as it is while they are read.
func (s *auditor) suspects(ctx context.Context, position string) (differing []string, err error) {
	seen := map[string]struct{}{}
	err = kube.Audit(ctx, s.Env.Client, s.At(), position, func(id source.Ident, raw []byte) error {
		key := id.Key()
		seen[key] = struct{}{}
		if !s.Agrees(key, &id, encode.Written(raw), position) {
			differing = append(differing, key)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	for key := range s.Ledger.All() {
		if _, ok := seen[key]; !ok && !s.Agrees(key, nil, 0, position) {
			differing = append(differing, key)
		}
	}
	return differing, nil
}

// lookAgain returns those of the objects that differ now, too.
func (s *auditor) lookAgain(ctx context.Context, keys []string) (differing []string, err error) {
	for _, key := range keys {
		position := s.Safe()
		if position == "" {
			return nil, nil // a list has begun, and sees everything
		}
		at := ledger.Ident(key, &checkpoint.Row{})
		id, raw, found, err := kube.ReadAt(ctx, s.Env.Client, s.At(), at.Namespace, at.Name, position)
		if err != nil {
			return nil, err
		}
		exists := &id
		if !found {
			exists = nil
		}
		if !s.Agrees(key, exists, encode.Written(raw), position) {
			differing = append(differing, key)
		}
	}
	return differing, nil
}

// Agrees reports whether what is known of an object can be true if it was so at position, and written then; exists is
// nil if there was no such object.
func (s *auditor) Agrees(key string, exists *source.Ident, written int64, position string) bool {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	row, ok := s.known(key)
	switch {
	case s.Refusals.refused.Has(key) && ledger.Numeric(position) != 0 || ok && ledger.After(row.ResourceVersion, position):
		return true
	case exists == nil:
		return !ok || row.Deleted
	default:
		return ok && !row.Deleted && same(&row, *exists, written)
	}
}
