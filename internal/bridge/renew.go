// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"context"

	"k8s.io/apimachinery/pkg/util/resourceversion"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	"github.com/kube-eventbridge/kube-eventbridge/encode"
	"github.com/kube-eventbridge/kube-eventbridge/source"
)

// A cluster whose etcd is restored, or one that is built anew under an old one's name, begins a history in which versions say
// nothing of those that the log has. It is noticed by a server that is older than a position, by what a watch's position
// should show and does not, and by a list that shows an object in an older state than the log has.

// after reports whether version a comes after b. Versions that are not numbers come after nothing.
func after(a, b string) bool {
	order, err := resourceversion.CompareResourceVersion(a, b)
	return err == nil && order > 0
}

// doubt looks whether a list shows an older state than the log has, which was there when the list was made: no history goes back. The
// caller holds mu.
func (s *stream) doubt(c *source.Change, known checkpoint.Row) {
	if !c.Listed || c.Op == source.Deleted || c.Reason == source.ReasonRecovered || known.Superseded {
		return
	}
	if after(known.ResourceVersion, c.ResourceVersion) && !after(known.ResourceVersion, s.listingAt) {
		s.revoke(c, known.ResourceVersion, 0)
	}
}

// revoke ends what is published of the running list; the caller holds mu.
func (s *stream) revoke(c *source.Change, logged string, history int) {
	if s.revoked == nil {
		s.revoked = &source.RewoundError{Stream: s.name, Position: logged, Server: c.ResourceVersion, Object: c.Key()}
	}
	s.revokedBy = max(s.revokedBy, history)
}

// found takes note of what the log was seen to have last of the object that d is about.
func (s *stream) found(key string, d *delta, has encode.State, sequence uint64) {
	row := checkpoint.Row{UID: has.UID, ResourceVersion: has.ResourceVersion, Deleted: has.Deleted, Sequence: sequence}
	s.mu.Lock()
	defer s.mu.Unlock()
	listed := d.Listed && d.Op != source.Deleted && d.Reason != source.ReasonRecovered
	switch {
	case has.History < s.saved.History:
		row.Superseded = true
	case listed && has.History > s.saved.History, listed && s.impossible(d.ResourceVersion, has.ResourceVersion):
		s.revoke(&d.Change, has.ResourceVersion, has.History)
		return
	case listed && has.Deleted && has.ResourceVersion == d.ResourceVersion:
		row.Superseded = true // another selection put it away
	}
	if known, ok := s.ledger.Get(key); !ok || known.Superseded || checkpoint.Newer(known, row.ResourceVersion, row.Deleted) {
		s.ledger.Put(key, row)
	}
}

// impossible reports whether the log cannot have an object at version logged if a list of the same history shows it at listed. A list
// behind a gap may be older than what had been published.
func (s *stream) impossible(listed, logged string) bool {
	return after(logged, listed) && (s.listing == source.ReasonSnapshot || !after(logged, s.listingAt))
}

// renew begins a new history: what is listed next is published again under it, behind a gap. It returns when that is
// durable, so that no event of it can be published twice. The error is ctx's.
func (s *stream) renew(ctx context.Context, cause *source.RewoundError) error {
	// What was read before is of the old history, and stands before the new one in the log.
	if err := s.tracker.Await(ctx); err != nil {
		return err
	}
	from := s.beginHistory(cause)
	s.metrics.histories.Inc()
	s.session.log.Warn("another history begins: everything is published again under it", "stream", s.name, "history", s.saved.History,
		"from", from, "cause", cause)
	s.session.forgetTrail(s.name)
	return s.session.save(ctx)
}

func (s *stream) beginHistory(cause *source.RewoundError) (from string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if from = s.tracker.Position(); from != "" {
		s.saved.Gap = checkpoint.Gap{From: from, Cause: cause.Error()}
	}
	s.tracker.Reset("")
	s.ledger.Supersede()
	s.saved.History = max(s.saved.History, s.revokedBy) + 1
	s.saved.Fingerprint, s.saved.Repair, s.saved.Unannounced = "", "", checkpoint.Snapshot{}
	s.revoked, s.revokedBy, s.suffix = nil, 0, ""
	s.encodeAs(s.saved.History)
	return from
}

// encodeAs makes the events those of a history.
func (s *stream) encodeAs(history int) {
	c := s.spec.Encoding
	c.History = history
	s.encoder = encode.New(s.Stream, c)
}
