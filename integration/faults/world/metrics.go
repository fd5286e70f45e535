// SPDX-License-Identifier: Apache-2.0

package world

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Metrics are values by series, as /metrics names them: name{label="value",…}.
type Metrics map[string]float64

// prefix is what the bridge's own metrics begin with.
const prefix = "kube_eventbridge_"

// Sum adds up the series of one of the bridge's own metrics, named without the prefix; series is how many there are.
func (m Metrics) Sum(name string) (sum float64, series int) {
	for key, value := range m {
		if rest, ok := strings.CutPrefix(key, prefix+name); ok && (rest == "" || rest[0] == '{') {
			sum += value
			series++
		}
	}
	return sum, series
}

// Metrics reads /metrics.
func (b *Bridge) Metrics(ctx context.Context) (Metrics, error) {
	_, body, err := b.get(ctx, "/metrics")
	if err != nil {
		return nil, err
	}
	m := Metrics{}
	for line := range strings.Lines(body) {
		line = strings.TrimSpace(line)
		at := strings.LastIndexByte(line, ' ')
		if at < 0 || line[0] == '#' {
			continue
		}
		if value, err := strconv.ParseFloat(line[at+1:], 64); err == nil {
			m[line[:at]] = value
		}
	}
	return m, nil
}

// MetricsText returns what the bridge serves as /metrics.
func (b *Bridge) MetricsText(ctx context.Context) (string, error) {
	_, body, err := b.get(ctx, "/metrics")
	return body, err
}

// Ready reads /readyz; said is its text. A process that does not answer is not ready.
func (b *Bridge) Ready(ctx context.Context) (ready bool, said string) {
	code, body, err := b.get(ctx, "/readyz")
	if err != nil {
		return false, err.Error()
	}
	return code == http.StatusOK, body
}

func (b *Bridge) get(ctx context.Context, path string) (code int, body string, err error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+b.server+path, nil)
	if err != nil {
		return 0, "", err
	}
	req.Close = true
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, "", fmt.Errorf("ask the bridge: %w", err)
	}
	defer res.Body.Close() //nolint:errcheck // read only
	data, err := io.ReadAll(res.Body)
	return res.StatusCode, string(data), err
}

// quiet is for how long nothing may happen before the bridge counts as settled.
const quiet = time.Second

// WaitSettled waits until the bridge is ready, all its watches are open, nothing it has read is unpublished, and the log has not grown for a
// second. That it has read everything cannot be seen from outside: also, if given, is asked last, and what it says instead is in the error.
// It is an error if that does not come within the time, see [ErrUnsettled], or the bridge ends, see [ErrEnded].
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
		return "nobody leads"
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
	m, err := b.Metrics(ctx)
	if err != nil {
		return err.Error()
	}
	if open, all := m.Sum("stream_watching"); all == 0 || int(open) != all {
		return fmt.Sprintf("%v of %d streams are watched", open, all)
	}
	for _, name := range []string{"oldest_unsettled_seconds", "buffered_events", "queue_depth"} {
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
