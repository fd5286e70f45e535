// SPDX-License-Identifier: Apache-2.0

package world

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/kube-eventbridge/kube-eventbridge/integration/internal/rig"
)

// Metrics reads /metrics, without those of the second pipeline.
func (b *Bridge) Metrics(ctx context.Context) (rig.Metrics, error) {
	first, _, err := b.metricsOfBoth(ctx)
	return first, err
}

// metricsOfBoth reads /metrics, apart for the two pipelines.
func (b *Bridge) metricsOfBoth(ctx context.Context) (first, second rig.Metrics, err error) {
	text, err := b.MetricsText(ctx)
	first, second = rig.ReadMetrics(text), rig.Metrics{}
	for series, value := range first {
		if strings.Contains(series, `pipeline="`+SecondPipeline+`"`) {
			second[series] = value
			delete(first, series)
		}
	}
	return first, second, err
}

// MetricsText returns what the bridge serves as /metrics.
func (b *Bridge) MetricsText(ctx context.Context) (string, error) {
	_, text, _, err := rig.Get(ctx, b.server, "/metrics")
	return text, err
}

// Ready reads /readyz; said is its text. A process that does not answer is not ready.
func (b *Bridge) Ready(ctx context.Context) (ready bool, said string) {
	code, body, _, err := rig.Get(ctx, b.server, "/readyz")
	if err != nil {
		return false, err.Error()
	}
	return code == http.StatusOK, body
}

// quiet is for how long nothing may happen before the bridge counts as settled.
const quiet = time.Second

// WaitSettled waits until the bridge is ready, all its watches are open, nothing it has read is unpublished, and the
// log has not grown for a second. That it has read everything cannot be seen from outside: also, if given, is asked
// last, and what it says instead is in the error. It is an error if that does not come within the time, see
// [ErrUnsettled], or the bridge ends, see [ErrEnded].
func (w *World) WaitSettled(ctx context.Context, within time.Duration, also ...func() (ok bool, instead string)) error {
	if len(w.processes()) == 0 {
		return errors.New("no bridge was started that could settle")
	}
	whole := ctx
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	var last uint64
	since := time.Now()
	for {
		for _, b := range w.processes() {
			if !b.Running() {
				return fmt.Errorf("%w with %v instead of settling; %s", ErrEnded, b.State(), b.lastWords())
			}
		}
		end, _ := w.broker.end()
		instead := w.unsettled(ctx)
		if instead != "" || end != last {
			last, since = end, time.Now()
		}
		ok := instead == "" && time.Since(since) >= quiet
		for _, more := range also {
			if ok {
				ok, instead = more()
			}
		}
		if ok {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			if whole.Err() != nil {
				return fmt.Errorf("wait for the bridge to settle: %w", context.Cause(whole))
			}
			return fmt.Errorf("%w within %s: %s; %s", ErrUnsettled, within, instead, w.Bridge().lastWords())
		}
	}
}

// Unsettled returns an [ErrUnsettled] that says what did not come, and what the bridge said last.
func (w *World) Unsettled(what string) error {
	return fmt.Errorf("%w: %s; %s", ErrUnsettled, what, w.Bridge().lastWords())
}

// unsettled says what the bridge still waits for, nothing if it has settled.
func (w *World) unsettled(ctx context.Context) string {
	if !w.follow(ctx) {
		return "no process leads"
	}
	b := w.Bridge()
	for _, other := range w.processes() {
		if ready, said := other.Ready(ctx); other != b && !ready {
			return "one that stands by is not ready: " + strings.TrimSpace(said)
		}
	}
	if ready, said := b.Ready(ctx); !ready {
		return "it is not ready: " + strings.TrimSpace(said)
	}
	first, second, err := b.metricsOfBoth(ctx)
	if err != nil {
		return err.Error()
	}
	waits := waitsFor(first)
	if waits == "" && w.second != nil {
		if waits = waitsFor(second); waits != "" {
			waits = "of the second pipeline: " + waits
		}
	}
	return waits
}

// waitsFor says what a pipeline with these metrics still waits for.
func waitsFor(m rig.Metrics) string {
	if open, all := m.Sum("stream_watching"); all == 0 || int(open) != all {
		return fmt.Sprintf("%v of %d streams are watched", open, all)
	}
	for _, name := range []string{"oldest_unsettled_seconds", "buffered_events", "queue_depth", "refused_objects"} {
		if n, _ := m.Sum(name); n > 0 {
			return fmt.Sprintf("%s is %v", name, n)
		}
	}
	return ""
}

// lastWords is the end of what the process has printed.
func (b *Bridge) lastWords() string {
	if b == nil {
		return "it was never started"
	}
	out, _ := b.Stderr()
	return "it said last: " + out[max(0, len(out)-2000):]
}
