// SPDX-License-Identifier: Apache-2.0

package watching

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

// Config says whose status it is.
type Config struct {
	Log *slog.Logger
	// Refresh has what is served looked up again.
	Refresh   func()
	Metrics   *health.Stream
	Incidents *health.StreamIncidents
	// Wildcard: the stream is one of many that a wildcard names. Kubernetes: the API server has the resource's group by
	// itself, and not from another.
	Wildcard, Kubernetes bool
}

// Status is how a stream is doing; it implements source.Observer. It logs changes, not repetitions.
type Status struct {
	cfg Config
	// waits is why the stream is not read.
	waits health.Condition

	mu    sync.Mutex
	doing source.State
	// since is when that began.
	since time.Time
	// clearer, if not nil, is told instead of what the API server answers.
	clearer error
	// asked is when a failure had the catalog look at last, and doubt how long it is from then to the next time; 0
	// where there was none.
	asked time.Time
	doubt time.Duration
	// complete: it has watched, so its first list is in the log.
	complete bool
}

// New returns the status of a stream that begins now.
func New(cfg Config) *Status { return &Status{cfg: cfg, since: time.Now()} }

// State implements source.Observer.
func (t *Status) State(s source.State, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if apierrors.IsNotFound(err) {
		t.missed(time.Now())
	}
	if err != nil && t.clearer != nil {
		err = t.clearer
	}
	t.observe(s, err)
	if s == source.Watching {
		t.complete, t.doubt = true, 0
	}
	if s != t.doing {
		t.since = time.Now()
	}
	t.doing = s
}

// observe takes note of what the stream does, and why it waits, and logs what is news. The caller holds mu.
func (t *Status) observe(s source.State, err error) {
	log := t.cfg.Log
	switch since, before := t.waits.Problem(); {
	case err != nil:
		t.failed(log, err)
	case before != nil && s == source.Watching:
		t.waits.Observe(nil, health.Intervals{})
		log.Info("stream watches again", "after", time.Since(since).Round(time.Millisecond).String())
	case before != nil || s == t.doing:
	case s == source.Watching:
		log.Info("stream watches")
	default:
		log.Info("stream lists")
	}
	if err == nil && s == source.Watching {
		t.cfg.Incidents.Recovered()
	}
}

// failed takes note of why the stream waits. The same of many, again and again, would be a log of nothing else.
func (t *Status) failed(log *slog.Logger, err error) {
	every := health.Intervals{Same: health.UnreadyAfter, Other: newsAfter}
	if t.cfg.Wildcard {
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
	t.cfg.Incidents.Failed(since, err)
}

// missed has the catalog look, ever more seldom: the resource, or its version, may be gone. The caller holds mu.
func (t *Status) missed(now time.Time) {
	if t.doubt > 0 && now.Sub(t.asked) < t.doubt {
		return
	}
	t.asked, t.doubt = now, max(FirstDoubt, Longer(t.doubt))
	t.cfg.Refresh()
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
func (t *Status) Restarted(reason string) { t.cfg.Metrics.Restarted(reason) }

// Now returns what the stream does, and what keeps it from that.
func (t *Status) Now() (s source.State, problem string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, err := t.waits.Problem(); err != nil {
		problem = err.Error()
	}
	return t.doing, problem
}

// Watching reports whether the stream watches.
func (t *Status) Watching() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.doing == source.Watching
}

// Degraded returns why the stream is not read, if it is one that a wildcard names and the reason is its own: it may not
// be read, or is not to be had. Empty if that is not so.
func (t *Status) Degraded() string {
	_, err := t.waits.Problem()
	if !t.cfg.Wildcard || !ownFailure(err, t.cfg.Kubernetes) {
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
	return t.doing.String()
}

// Report is how a stream is doing at one time.
type Report struct {
	Doing source.State
	Since time.Time
	// Live: it watches, its first list is in the log, and nothing is wrong. Else Err, if not nil, is wrong since Failing.
	Live    bool
	Failing time.Time
	Err     error
}

// Report returns how the stream is doing.
func (t *Status) Report() Report {
	t.mu.Lock()
	defer t.mu.Unlock()
	r := Report{Doing: t.doing, Since: t.since}
	r.Failing, r.Err = t.waits.Problem()
	r.Live = t.complete && t.doing == source.Watching && r.Err == nil
	return r
}
