// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"sync"
	"time"

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
	// err is why the stream waits, failing since when; told is what was logged of it at last, and logged when.
	err             error
	failing, logged time.Time
	told            string
	// complete: it has watched, so its first list is in the log.
	complete bool
}

// State implements source.Observer.
func (t *status) State(s source.State, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err != nil && t.err == nil {
		t.failing = time.Now()
	}
	t.tell(s, err)
	if err != nil || s == source.Watching {
		t.err = err
	}
	if s == source.Watching {
		t.complete = true
	}
	t.state = s
}

// tell logs what is new; the caller holds mu.
func (t *status) tell(s source.State, err error) {
	log := t.stream.session.log.With("stream", t.stream.name)
	switch {
	case err != nil && t.err == nil:
		log.Warn("stream waits", "err", err)
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
	m.all.restarts.WithLabelValues(m.pipeline, m.stream, reason).Inc()
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
