// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"context"
	"errors"
	"strings"

	"k8s.io/apimachinery/pkg/util/resourceversion"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	"github.com/kube-eventbridge/kube-eventbridge/encode"
	"github.com/kube-eventbridge/kube-eventbridge/source"
)

// A cluster whose etcd is restored, or one that is built anew under an old one's name, begins a history in which versions say
// nothing of those that the log has. It is noticed by a server that is older than a position, by what a watch's position
// should show and does not, by a list that shows an object in an older state than the log has, and by an object that was deleted and is there again.

// after reports whether version a comes after b. Versions that are not numbers come after nothing.
func after(a, b string) bool {
	order, err := resourceversion.CompareResourceVersion(a, b)
	return err == nil && order > 0
}

// doubt looks whether what was read cannot be of the history that the log has. The caller holds mu.
func (s *stream) doubt(c *source.Change, known checkpoint.Row) {
	if s.revived(c, known) || s.older(c, known) {
		s.revoke(c, known.ResourceVersion, 0)
	}
}

// older reports whether a list shows an older state than the log has, which was there when the list was made: no history goes back.
func (s *stream) older(c *source.Change, logged checkpoint.Row) bool {
	return c.Listed && c.Op != source.Deleted && c.Reason != source.ReasonRecovered && !logged.Superseded &&
		after(logged.ResourceVersion, c.ResourceVersion) && !after(logged.ResourceVersion, s.listingAt)
}

// revived reports whether an object is there again, and newer, that was deleted: a uid has one life. From a selection it can come and go. A watch that
// repairs the log begins before deletions that were only concluded, and what it shows has ids of its own.
func (s *stream) revived(c *source.Change, logged checkpoint.Row) bool {
	if c.Op == source.Deleted || !logged.Deleted || logged.Superseded || logged.UID != c.UID || s.Selective() {
		return false
	}
	same := c.IDSuffix == "" || c.Listed && !strings.HasPrefix(c.IDSuffix, ".s")
	return same && after(c.ResourceVersion, logged.ResourceVersion)
}

// disowned reports whether a change is left to the history that is about to begin, whose list shows what came of it. All else that a watch has
// shown is of the present one, or can be told as if it were. The caller holds mu.
func (s *stream) disowned(c *source.Change, known checkpoint.Row) bool {
	return s.revoked != nil && (c.Listed || s.revived(c, known))
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

// revoke ends the history that is published; where a watch has shown that it is over, a list is asked for, which is another one's. The change c has an
// open ticket. The caller holds mu.
func (s *stream) revoke(c *source.Change, logged string, history int) {
	if s.revoked == nil {
		s.revoked = &source.RewoundError{Stream: s.name, Position: logged, Server: c.ResourceVersion, Object: c.Key()}
	}
	s.revokedBy = max(s.revokedBy, history)
	if !c.Listed {
		s.askForHistory()
	}
}

// askForHistory asks for the list with which another history begins, and stops the position. The caller holds mu, and has set revoked.
func (s *stream) askForHistory() {
	if s.held != "" {
		return
	}
	s.held = s.tracker.Position()
	select {
	case s.again <- s.revoked.Error():
	default: // a list is asked for already
	}
}

// found takes note of what the log was seen to have last of the object that d is about.
func (s *stream) found(key string, d *delta, has encode.State, sequence uint64) {
	row := checkpoint.Row{UID: has.UID, ResourceVersion: has.ResourceVersion, Deleted: has.Deleted, Sequence: sequence}
	s.mu.Lock()
	defer s.mu.Unlock()
	row.Again = before(&s.saved, has.ID)
	listed := d.Listed && d.Op != source.Deleted && !d.again
	switch {
	case has.History < s.saved.History:
		row.Superseded = true
	case listed && (has.History > s.saved.History || s.impossible(d, has)):
		s.revoke(&d.Change, has.ResourceVersion, has.History)
		return
	case s.revived(&d.Change, buried(has)):
		s.revoke(&d.Change, has.ResourceVersion, has.History)
	case listed && has.Deleted && has.ResourceVersion == d.ResourceVersion:
		row.Superseded = true // another selection put it away
	}
	if known, ok := s.ledger.Get(key); !ok || known.Superseded || checkpoint.Newer(known, row.ResourceVersion, row.Deleted) {
		s.ledger.Put(key, row)
	}
}

// impossible reports whether the log cannot have an object's state has if the same history shows d in a list, or while it is read back. A list
// behind a gap may be older than what had been published.
func (s *stream) impossible(d *delta, has encode.State) bool {
	if s.revived(&d.Change, buried(has)) {
		return true
	}
	return d.Reason != source.ReasonRecovered && after(has.ResourceVersion, d.ResourceVersion) &&
		(s.listing == source.ReasonSnapshot || !after(has.ResourceVersion, s.listingAt))
}

// buried is what the log has last of an object. It is not deleted where only a selection put it away, whose deletions have the version in their ids, or that of the selection.
func buried(has encode.State) checkpoint.Row {
	left := strings.Contains(has.ID, "."+has.ResourceVersion+".deleted") || strings.Contains(has.ID, ".deleted.s")
	return checkpoint.Row{UID: has.UID, ResourceVersion: has.ResourceVersion, Deleted: has.Deleted && !left}
}

// renew begins a new history: what is listed next is published again under it, behind a gap. Before the first event of that list it is durable, so
// that no crash can begin another one. The error is ctx's.
func (s *stream) renew(ctx context.Context, cause error) error {
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

// beginHistory begins a new history, and unless s was told that its own is over, tells the others.
func (s *stream) beginHistory(cause error) (from string) {
	// No commit may have the new history, and positions of the old one to go back to, or of this stream only what ends those of the others.
	s.session.committing.Lock()
	defer s.session.committing.Unlock()
	s.session.cutTrail(s.name)
	from, told := s.reset(cause)
	var rewound *source.RewoundError
	if errors.As(cause, &rewound) && !told && s.tells() {
		s.session.undo(s, rewound)
	}
	return from
}

// reset makes all that is known of the log that of a history which has ended at from. Told says that another stream has found out.
func (s *stream) reset(cause error) (from string, told bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	told = s.saved.Undone != ""
	s.saved.Alone = !told && !s.tells()
	if from = s.position(); from != "" {
		s.saved.Gap = checkpoint.Gap{From: from, Cause: cause.Error()}
	}
	s.tracker.Reset("")
	s.ledger.Supersede()
	s.saved.History = max(s.saved.History, s.revokedBy) + 1
	s.saved.Fingerprint, s.saved.Repair, s.saved.Announced, s.saved.Unannounced = "", "", "", checkpoint.Snapshot{}
	s.saved.Owed, s.saved.Undone, s.saved.Replay = checkpoint.Owed{}, "", checkpoint.Replay{}
	s.revoked, s.revokedBy, s.held, s.distrusted, s.suffix = nil, 0, "", false, ""
	select {
	case <-s.again: // what was asked for is done
	default:
	}
	s.encodeAs(s.saved.History)
	return from, told
}

// encodeAs makes the events those of a history.
func (s *stream) encodeAs(history int) { s.encoder = s.spec.encoder(s.Stream, history) }
