// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"context"
	"errors"

	"k8s.io/client-go/kubernetes/scheme"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	"github.com/kube-eventbridge/kube-eventbridge/source"
)

// An etcd that was restored undoes what happened in all streams, and not each of them shows it: where all that the log has was changed or
// replaced since, nothing is older than the log, and what is deleted a second time looks like any other object. So the stream that finds out
// tells the others.

// tells reports whether what the stream finds out is true of the others. An aggregated API server has versions of its own, and may begin anew each time it
// starts; a group that Kubernetes does not have itself may be one's.
func (s *stream) tells() bool { return tells(s.Stream) }

func tells(s source.Stream) bool { return scheme.Scheme.IsGroupRegistered(s.Group) }

// firstHistory is that of a stream of which nothing is stored: it may have been one before, which has ended, and has published in all that were. The caller holds mu.
func (p *session) firstHistory(s source.Stream) int {
	if !tells(s) {
		return 0
	}
	return max(p.histories, p.state.Log.Histories)
}

// undo ends the histories of all other streams. What was stored of a stream that is not read now waits until it is. The caller holds committing, and no
// stream's mu.
func (p *session) undo(s *stream, cause *source.RewoundError) {
	s.mu.Lock()
	now := s.saved.History
	s.mu.Unlock()
	p.logged.Histories, p.unlogged = max(p.logged.Histories, now), true
	p.mu.Lock()
	defer p.mu.Unlock()
	p.histories = p.logged.Histories
	open := map[string]bool{}
	for _, other := range p.streams {
		open[other.name] = true
		if other != s {
			other.over(cause)
		}
	}
	for name, saved := range p.state.Streams {
		if !open[name] {
			end(&saved, cause)
			p.state.Streams[name] = saved
			p.unopenedChanged(name, saved)
		}
	}
}

// unopenedChanged has what is known of a stream that is not open saved with the next commit. The caller holds committing.
func (p *session) unopenedChanged(name string, saved checkpoint.Stream) {
	if p.undone == nil {
		p.undone = map[string]checkpoint.Stream{}
	}
	p.undone[name] = saved
}

// end takes note that a history is over, and reports whether it is: not if it began with the restoration that is told of.
func end(saved *checkpoint.Stream, cause *source.RewoundError) bool {
	if saved.Alone {
		saved.Alone = false
		return false
	}
	saved.Undone = cause.Error()
	return true
}

// over ends the history of a stream that has published anything: at its next list another one begins, and that is asked for.
func (s *stream) over(cause *source.RewoundError) {
	s.mu.Lock()
	defer s.mu.Unlock()
	none := checkpoint.Stream{Kind: s.saved.Kind, Namespaced: s.saved.Namespaced, Called: s.saved.Called, Entered: s.saved.Entered}
	if s.saved == none && s.listing == "" || !end(&s.saved, cause) {
		return
	}
	if s.revoked == nil {
		s.revoked = cause
	}
	s.askForHistory()
}

// resumeUndone begins another history where a dead process was told to, and did not come to it. The error is ctx's.
func (s *stream) resumeUndone(ctx context.Context) error {
	s.mu.Lock()
	undone := s.saved.Undone
	s.mu.Unlock()
	if undone == "" {
		return nil
	}
	return s.renew(ctx, errors.New(undone))
}
