// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"context"
	"strings"

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

// doubt looks whether what is listed, or read back, cannot be of the history that the log has. The caller holds mu.
func (s *stream) doubt(c *source.Change, known checkpoint.Row) {
	if !c.Listed || c.Op == source.Deleted || known.Superseded {
		return
	}
	if s.revived(c, known.Deleted, known.UID, known.ResourceVersion) || s.older(c, known.ResourceVersion) {
		s.revoke(c, known.ResourceVersion, 0)
	}
}

// older reports whether a list shows an older state than the log has, which was there when the list was made: no history goes back.
func (s *stream) older(c *source.Change, logged string) bool {
	return c.Reason != source.ReasonRecovered && after(logged, c.ResourceVersion) && !after(logged, s.listingAt)
}

// revived reports whether an object is there again, and newer, that was deleted: a uid has one life. From a selection it can come and go.
func (s *stream) revived(c *source.Change, deleted bool, uid, version string) bool {
	return deleted && uid == c.UID && !s.Selective() && !strings.HasPrefix(c.IDSuffix, ".s") && after(c.ResourceVersion, version)
}

// dead reports whether a change is another deletion of what is deleted already, as one is that happened in a history which was undone.
func (s *stream) dead(known checkpoint.Row, c *source.Change) bool {
	return c.Op == source.Deleted && known.Deleted && known.UID == c.UID && !s.Selective()
}

// doubted returns why what is read is of another history; nil if it is not.
func (s *stream) doubted() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.revoked == nil {
		return nil
	}
	return s.revoked
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
	listed := d.Listed && d.Op != source.Deleted
	switch {
	case has.History < s.saved.History:
		row.Superseded = true
	case listed && (has.History > s.saved.History || s.impossible(d, has)):
		s.revoke(&d.Change, has.ResourceVersion, has.History)
		return
	case listed && has.Deleted && has.ResourceVersion == d.ResourceVersion:
		row.Superseded = true // another selection put it away
	}
	if known, ok := s.ledger.Get(key); !ok || known.Superseded || checkpoint.Newer(known, row.ResourceVersion, row.Deleted) {
		s.ledger.Put(key, row)
	}
}

// impossible reports whether the log cannot have an object's state has if the same history shows d in a list, or while it is read back. A list
// behind a gap may be older than what had been published. What a selection put away has its version in the id of the deletion.
func (s *stream) impossible(d *delta, has encode.State) bool {
	if strings.Contains(has.ID, "."+has.ResourceVersion+".deleted") {
		has.Deleted = false
	}
	if s.revived(&d.Change, has.Deleted, has.UID, has.ResourceVersion) {
		return true
	}
	return d.Reason != source.ReasonRecovered && after(has.ResourceVersion, d.ResourceVersion) &&
		(s.listing == source.ReasonSnapshot || !after(has.ResourceVersion, s.listingAt))
}

// renew begins a new history: what is listed next is published again under it, behind a gap. Before the first event of that list it is durable, so
// that no crash can begin another one. The error is ctx's.
func (s *stream) renew(ctx context.Context, cause *source.RewoundError) error {
	// What was read before is of the old history, and stands before the new one in the log.
	if err := s.tracker.Await(ctx); err != nil {
		return err
	}
	from := s.beginHistory(cause)
	s.metrics.histories.Inc()
	s.session.log.Warn("another history begins: everything is published again under it", "stream", s.name, "history", s.saved.History,
		"from", from, "cause", cause)
	return nil
}

func (s *stream) beginHistory(cause *source.RewoundError) (from string) {
	// No commit may have the new history, and positions of the old one to go back to.
	s.session.committing.Lock()
	defer s.session.committing.Unlock()
	s.session.cutTrail(s.name)
	s.mu.Lock()
	defer s.mu.Unlock()
	if from = s.tracker.Position(); from != "" {
		s.saved.Gap = checkpoint.Gap{From: from, Cause: cause.Error()}
	}
	s.tracker.Reset("")
	s.ledger.Supersede()
	s.saved.History = max(s.saved.History, s.revokedBy) + 1
	s.saved.Fingerprint, s.saved.Repair, s.saved.Announced, s.saved.Unannounced = "", "", "", checkpoint.Snapshot{}
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
