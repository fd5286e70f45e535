// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/kube-eventbridge/kube-eventbridge/source"
)

// unreadyAfter is how long a watch or a broker may be away before /readyz says so.
const unreadyAfter = 30 * time.Second

// newsAfter is how soon another reason for the same failure is logged.
const newsAfter = 3 * time.Second

// status is how a stream is doing; it implements source.Observer. It logs changes, not repetitions.
type status struct {
	stream *stream

	mu    sync.Mutex
	state source.State
	// since is when that began.
	since time.Time
	// err is why the stream waits, failing since when; told is what was logged of it at last, and logged when.
	err             error
	failing, logged time.Time
	told            string
	// clearer, if not nil, is told instead of what the API server answers.
	clearer error
	// asked is when a failure had the catalog look at last, and doubt how long it is from then to the next time; 0 where there was none.
	asked time.Time
	doubt time.Duration
	// complete: it has watched, so its first list is in the log.
	complete bool
}

// State implements source.Observer.
func (t *status) State(s source.State, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if apierrors.IsNotFound(err) {
		t.missed(time.Now())
	}
	if err != nil && t.clearer != nil {
		err = t.clearer
	}
	if err != nil && t.err == nil {
		t.failing = time.Now()
	}
	t.tell(s, err)
	switch {
	case err != nil:
		t.err = err
		t.stream.past.failed(err, t.failing)
	case s == source.Watching:
		t.err = nil
		t.stream.past.recovered()
	}
	if s == source.Watching {
		t.complete, t.doubt = true, 0
	}
	if s != t.state {
		t.since = time.Now()
	}
	t.state = s
}

// missed has the catalog look, ever more seldom: the resource, or its version, may be gone. The caller holds mu.
func (t *status) missed(now time.Time) {
	if t.doubt > 0 && now.Sub(t.asked) < t.doubt {
		return
	}
	t.asked, t.doubt = now, max(firstDoubt, longer(t.doubt))
	t.stream.session.cfg.Catalog.Refresh()
}

// instead has failures told as why, until it is called with nil.
func (t *status) instead(why error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.clearer = why
}

// retires has the stream be ready although it never watches.
func (t *status) retires() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.complete = true
}

// tell logs what is new; the caller holds mu.
func (t *status) tell(s source.State, err error) {
	log := t.stream.session.log.With("stream", t.stream.name)
	switch {
	case err != nil && t.err == nil:
		log.Warn("stream waits", "err", err)
	case err != nil && t.stream.spec.Wildcard != nil && err.Error() == t.told:
		return // that of many, for ever, would be a log of nothing else
	case err != nil && (time.Since(t.logged) > unreadyAfter || time.Since(t.logged) > newsAfter && err.Error() != t.told):
		log.Warn("stream still waits", "since", t.failing.Format(time.TimeOnly), "err", err)
	case err == nil && t.err != nil && s == source.Watching:
		log.Info("stream watches again", "after", time.Since(t.failing).Round(time.Millisecond).String())
		return
	case err == nil && t.err == nil && s != t.state && s == source.Watching:
		log.Info("stream watches")
		return
	case err == nil && t.err == nil && s != t.state:
		log.Info("stream lists")
		return
	default:
		return
	}
	t.logged, t.told = time.Now(), err.Error()
}

// Restarted implements source.Observer.
func (t *status) Restarted(reason string) {
	m := &t.stream.metrics
	m.all.restarts.WithLabelValues(m.pipeline, reason, m.stream).Inc()
}

// now returns what the stream does, and what keeps it from that.
func (t *status) now() (s source.State, problem string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.err != nil {
		problem = t.err.Error()
	}
	return t.state, problem
}

func (t *status) watching() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.state == source.Watching
}

// degraded returns why the stream is not read, if it is one that a wildcard names and the reason is its own: it may not be read, or is
// not to be had. Empty if that is not so.
func (t *status) degraded() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.stream.spec.Wildcard == nil || !ownFailure(t.err, t.stream.tells()) {
		return ""
	}
	return t.err.Error()
}

// ownFailure reports whether err says nothing of other streams. Kubernetes is whether the API server has the resource's group by itself, and not from another.
func ownFailure(err error, kubernetes bool) bool {
	return apierrors.IsForbidden(err) || apierrors.IsNotFound(err) || apierrors.IsMethodNotSupported(err) ||
		!kubernetes && apierrors.IsServiceUnavailable(err)
}

// ready returns why the stream is not ready: it has not begun to watch, its first list is not in the log yet, or its
// watch has failed for longer than unreadyAfter. Empty if it is ready.
func (t *status) ready() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.err != nil && (!t.complete || time.Since(t.failing) > unreadyAfter) {
		return t.err.Error()
	}
	if t.complete {
		return ""
	}
	return t.state.String()
}
