// SPDX-License-Identifier: Apache-2.0

package world

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// stopping is how long a bridge may take to stop.
const stopping = time.Minute

// Texts stops the bridge, which must run, and returns all that it has written besides the log, by name: the metrics
// that it serves, its checkpoint, and what each run of it has printed.
func (w *World) Texts(ctx context.Context) (map[string][]byte, error) {
	texts := map[string][]byte{}
	for n, b := range w.processes() {
		metrics, err := b.lastMetrics(ctx)
		if err != nil {
			return nil, err
		}
		texts[fmt.Sprintf("metrics of replica %d", n+1)] = []byte(metrics)
	}
	bounded, cancel := context.WithTimeout(ctx, stopping)
	defer cancel()
	if err := w.StopBridge(bounded); err != nil {
		return nil, err
	}
	files, err := w.CheckpointFiles()
	if err != nil {
		return nil, err
	}
	second, err := w.secondCheckpoints(ctx, texts)
	if err != nil {
		return nil, err
	}
	files = append(files, second...)
	for _, name := range append(files, w.StderrFiles()...) {
		if texts[filepath.Base(name)], err = os.ReadFile(name); err != nil {
			return nil, fmt.Errorf("read what the bridge wrote: %w", err)
		}
	}
	if w.cfg.Checkpoint != CheckpointFile {
		if texts["checkpoint"], err = w.broker.checkpointText(ctx); err != nil {
			return nil, fmt.Errorf("read the checkpoint: %w", err)
		}
	}
	return texts, nil
}

// lastMetrics reads /metrics of a bridge that has to run and to answer.
func (b *Bridge) lastMetrics(ctx context.Context) (text string, err error) {
	late := poll(ctx, patience, "the bridge to serve its metrics", func() bool {
		text, err = b.MetricsText(ctx)
		return err == nil || !b.Running()
	})
	switch {
	case err == nil:
		return text, nil
	case ctx.Err() != nil:
		return "", context.Cause(ctx)
	case late != nil:
		return "", fmt.Errorf("%w: %w: %w; %s", ErrUnsettled, late, err, b.lastWords())
	default:
		return "", fmt.Errorf("%w: %w; %s", ErrEnded, err, b.lastWords())
	}
}
