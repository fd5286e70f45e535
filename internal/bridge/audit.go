// SPDX-License-Identifier: Apache-2.0

package bridge

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
type auditor struct{ *stream }

// audits compares what exists with what the log has, once in each interval, until ctx ends. If they differ, the stream
// is made to list again. An interval of 0 is never.
func (s *auditor) audits(ctx context.Context, every time.Duration) {
	if every <= 0 {
		return
	}
	log := s.env.Log.With("stream", s.name)
	retry := min(every, auditRetry)
	wait := s.untilAudit(time.Now(), every)
	for ; pause.For(ctx, wait) == nil; wait = min(wait, s.untilAudit(time.Now(), every)) {
		differing, done, err := s.audit(ctx)
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
		s.account.Metrics.Audits.Inc()
		if len(differing) == 0 {
			continue
		}
		s.account.Metrics.Differences.Add(float64(len(differing)))
		s.epochs.distrust()
		log.Error("audit: the log is not what exists; the stream is listed again", "objects", len(differing), "such as",
			first(differing))
		s.epochs.askForList(source.Why{Cause: source.CauseAudit, Message: fmt.Sprintf(
			"an audit found objects that differ: %d, such as %s", len(differing), first(differing))})
	}
}

// askForList asks for a list, unless one is owed or asked for: that sees all that this one would.
func (s *epochs) askForList(why source.Why) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.saved.Owes.List != sequence.Nothing {
		return
	}
	select {
	case s.again <- why:
	default:
	}
}

// untilAudit returns how long it is from now until the stream's next audit. The audits of a stream are at the same
// times, whatever process asks: a process that is restarted more often than the interval audits too. Those of different
// streams are at different times, so that their lists do not reach the API server together.
func (s *auditor) untilAudit(now time.Time, every time.Duration) time.Duration {
	h := fnv.New64a()
	_, _ = h.Write([]byte(s.env.Pipeline + "\x00" + s.name + "\x00audit"))
	shift := int64(h.Sum64() % uint64(every))
	return every - time.Duration((now.UnixNano()-shift)%int64(every))
}

// distrust says that the log lacks something that is older than the position.
func (s *epochs) distrust() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.distrusted = true
}

func first(keys []string) string { return strings.Join(keys[:min(len(keys), auditNames)], ", ") }

// audit returns the objects of which the log has another state than exists. An object whose changes are on their way is
// none: at a position everything up to it is settled, so what is not newer must be the same. It is not done where there
// was nothing to compare with.
func (s *auditor) audit(ctx context.Context) (differing []string, done bool, err error) {
	position := s.safe()
	if position == "" || !s.status.watching() || s.epochs.replaying() {
		return nil, false, nil
	}
	differing, err = s.suspects(ctx, position)
	for look := 1; err == nil && len(differing) > 0 && look < auditLooks; look++ {
		if len(differing) <= auditSuspects {
			differing, err = s.lookAgain(ctx, differing)
		} else if position = s.safe(); position != "" {
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
	err = kube.Audit(ctx, s.env.Client, s.At(), position, func(id source.Ident, raw []byte) error {
		key := id.Key()
		seen[key] = struct{}{}
		if !s.agrees(key, &id, encode.Written(raw), position) {
			differing = append(differing, key)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	for key := range s.ledger.All() {
		if _, ok := seen[key]; !ok && !s.agrees(key, nil, 0, position) {
			differing = append(differing, key)
		}
	}
	return differing, nil
}

// lookAgain returns those of the objects that differ now, too.
func (s *auditor) lookAgain(ctx context.Context, keys []string) (differing []string, err error) {
	for _, key := range keys {
		position := s.safe()
		if position == "" {
			return nil, nil // a list has begun, and sees everything
		}
		at := ledger.Ident(key, &checkpoint.Row{})
		id, raw, found, err := kube.ReadAt(ctx, s.env.Client, s.At(), at.Namespace, at.Name, position)
		if err != nil {
			return nil, err
		}
		exists := &id
		if !found {
			exists = nil
		}
		if !s.agrees(key, exists, encode.Written(raw), position) {
			differing = append(differing, key)
		}
	}
	return differing, nil
}

// agrees reports whether what is known of an object can be true if it was so at position, and written then; exists is
// nil if there was no such object.
func (s *auditor) agrees(key string, exists *source.Ident, written int64, position string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	row, ok := s.known(key)
	switch {
	case s.refusals.refused.Has(key) && ledger.Numeric(position) != 0 || ok && ledger.After(row.ResourceVersion, position):
		return true
	case exists == nil:
		return !ok || row.Deleted
	default:
		return ok && !row.Deleted && same(&row, *exists, written)
	}
}
