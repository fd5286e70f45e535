// SPDX-License-Identifier: Apache-2.0

package sharing

import (
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/kube-eventbridge/kube-eventbridge/source"
	"github.com/kube-eventbridge/kube-eventbridge/source/rawjson"
)

const (
	// recentEvents and recentBytes bound what is kept of what followers have been handed, so that one that comes from a
	// watch of its own finds its place.
	recentEvents, recentBytes = 128, 128 << 10
)

// event is a frame that is shared.
type event struct {
	kind rawjson.Type
	// identity is that of an object; of a bookmark it has the version only.
	identity source.Identity
	version  uint64
	// body has a reference for each queue that the event is in.
	body *source.Body
}

func (e *event) size() int64 { return int64(source.ChangeSize(len(e.body.Bytes()))) }

// newEvent copies a frame, or takes a reference to one that is shared already. The error may be the API server's own,
// which it has sent in a frame.
func newEvent(f *Frame, namespaced bool) (e event, err error) {
	if f.shared != nil {
		e = *f.shared
		e.body.Retain()
		return e, nil
	}
	e.kind = f.Type
	switch f.Type {
	case rawjson.Error:
		return e, &apierrors.StatusError{ErrStatus: *rawjson.ParseStatus(f.Object)}
	case rawjson.Bookmark:
		e.identity.ResourceVersion, err = rawjson.Version(f.Object)
	default:
		e.identity, err = source.ParseIdentity(f.Object, namespaced)
	}
	if err != nil {
		return e, err
	}
	var ok bool
	if e.version, ok = source.Number(e.identity.ResourceVersion); !ok {
		return e, errUnordered
	}
	if f.Type != rawjson.Bookmark {
		e.body = source.NewBody(f.Object)
	}
	return e, nil
}

// keep adds an event to what is kept; the caller holds mu.
func (s *sharedWatch) keep(e event) {
	e.body.Retain()
	s.recent = append(s.recent, e)
	s.kept += e.size()
	s.watches.held.Add(e.size())
	switch {
	case s.watches.held.Load() > s.watches.hold.Load():
		s.trim(0, 0)
	case len(s.recent) > recentEvents || s.kept > recentBytes:
		s.trim(recentEvents/2, recentBytes/2) // by half, so that it is seldom
	}
}

// trim forgets what is too old, or too much; the caller holds mu.
func (s *sharedWatch) trim(events int, bytes int64) {
	drop := 0
	for ; drop < len(s.recent) && (len(s.recent)-drop > events || s.kept > bytes); drop++ {
		e := &s.recent[drop]
		s.start = max(s.start, e.version)
		s.kept -= e.size()
		s.watches.held.Add(-e.size())
		e.body.Release()
	}
	n := copy(s.recent, s.recent[drop:])
	clear(s.recent[n:])
	s.recent = s.recent[:n]
}
