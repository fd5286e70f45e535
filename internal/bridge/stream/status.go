// SPDX-License-Identifier: Apache-2.0

package stream

import (
	"log/slog"
	"math"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge/health"
	"github.com/kube-eventbridge/kube-eventbridge/source"
)

const (
	// FirstDoubt is between the first two looks at what is not known.
	FirstDoubt = 500 * time.Millisecond
	// LongestDoubt is between two looks after many: a doubt that stays is not to keep the API server busy.
	LongestDoubt = 2 * time.Minute
)

// Longer returns the time between the next two looks.
func Longer(doubt time.Duration) time.Duration { return min(doubt*3/2, LongestDoubt) }

// newsAfter is how soon another reason for the same failure is logged.
const newsAfter = 3 * time.Second

// Status is how a stream is doing; it implements source.Observer. It logs changes, not repetitions.
type Status struct {
	Stream *Stream
	// waits is why the stream is not read.
	waits health.Condition

	mu    sync.Mutex
	Doing source.State
	// since is when that began.
	since time.Time
	// clearer, if not nil, is told instead of what the API server answers.
	clearer error
	// Asked is when a failure had the catalog look at last, and doubt how long it is from then to the next time; 0
	// where there was none.
	Asked time.Time
	Doubt time.Duration
	// complete: it has watched, so its first list is in the log.
	complete bool
}

// State implements source.Observer.
func (t *Status) State(s source.State, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if apierrors.IsNotFound(err) {
		t.Missed(time.Now())
	}
	if err != nil && t.clearer != nil {
		err = t.clearer
	}
	t.observe(s, err)
	if s == source.Watching {
		t.complete, t.Doubt = true, 0
	}
	if s != t.Doing {
		t.since = time.Now()
	}
	t.Doing = s
}

// observe takes note of what the stream does, and why it waits, and logs what is news. The caller holds mu.
func (t *Status) observe(s source.State, err error) {
	log := t.Stream.Env.Log.With("stream", t.Stream.Name)
	switch since, before := t.waits.Problem(); {
	case err != nil:
		t.failed(log, err)
	case before != nil && s == source.Watching:
		t.waits.Observe(nil, health.Intervals{})
		log.Info("stream watches again", "after", time.Since(since).Round(time.Millisecond).String())
	case before != nil || s == t.Doing:
	case s == source.Watching:
		log.Info("stream watches")
	default:
		log.Info("stream lists")
	}
	if err == nil && s == source.Watching {
		t.Stream.Figures.Incidents.Recovered()
	}
}

// failed takes note of why the stream waits. The same of many, again and again, would be a log of nothing else.
func (t *Status) failed(log *slog.Logger, err error) {
	every := health.Intervals{Same: health.UnreadyAfter, Other: newsAfter}
	if t.Stream.Spec.Wildcard != nil {
		every.Same = math.MaxInt64
	}
	n, since := t.waits.Observe(err, every)
	switch n {
	case health.Begins:
		log.Warn("stream waits", "err", err)
	case health.Lasts:
		log.Warn("stream still waits", "since", since.Format(time.TimeOnly), "err", err)
	case health.Nothing, health.Ends:
	}
	t.Stream.Figures.Incidents.Failed(since, err)
}

// Missed has the catalog look, ever more seldom: the resource, or its version, may be gone. The caller holds mu.
func (t *Status) Missed(now time.Time) {
	if t.Doubt > 0 && now.Sub(t.Asked) < t.Doubt {
		return
	}
	t.Asked, t.Doubt = now, max(FirstDoubt, Longer(t.Doubt))
	t.Stream.Env.Refresh()
}

// Instead has failures told as why, until it is called with nil.
func (t *Status) Instead(why error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.clearer = why
}

// Retires has the stream be ready although it never watches.
func (t *Status) Retires() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.complete = true
}

// Restarted implements source.Observer.
func (t *Status) Restarted(reason string) { t.Stream.Figures.Metrics.Restarted(reason) }

// Now returns what the stream does, and what keeps it from that.
func (t *Status) Now() (s source.State, problem string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, err := t.waits.Problem(); err != nil {
		problem = err.Error()
	}
	return t.Doing, problem
}

// Watching reports whether the stream watches.
func (t *Status) Watching() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.Doing == source.Watching
}

// Degraded returns why the stream is not read, if it is one that a wildcard names and the reason is its own: it may not
// be read, or is not to be had. Empty if that is not so.
func (t *Status) Degraded() string {
	_, err := t.waits.Problem()
	if t.Stream.Spec.Wildcard == nil || !ownFailure(err, t.Stream.Epochs.tells()) {
		return ""
	}
	return err.Error()
}

// ownFailure reports whether err says nothing of other streams. Kubernetes is whether the API server has the resource's
// group by itself, and not from another.
func ownFailure(err error, kubernetes bool) bool {
	return apierrors.IsForbidden(err) || apierrors.IsNotFound(err) || apierrors.IsMethodNotSupported(err) ||
		!kubernetes && apierrors.IsServiceUnavailable(err)
}

// Ready returns why the stream is not ready: it has not begun to watch, its first list is not in the log yet, or its
// watch has failed for longer than health.UnreadyAfter. Empty if it is ready.
func (t *Status) Ready() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if since, err := t.waits.Problem(); err != nil && (!t.complete || time.Since(since) > health.UnreadyAfter) {
		return err.Error()
	}
	if t.complete {
		return ""
	}
	return t.Doing.String()
}
