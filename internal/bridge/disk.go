// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"log/slog"
	"sync"
	"time"
)

// disk is how the checkpoint is doing.
type disk struct {
	mu sync.Mutex
	// err is why it is not saved, failing since when. Told is when that was logged last.
	err           error
	failing, told time.Time
}

// observe takes note of how a commit went, and logs what is new, or was long ago.
func (d *disk) observe(log *slog.Logger, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := time.Now()
	switch {
	case err != nil && d.err == nil:
		d.failing, d.told = now, now
		log.Warn("checkpoint is not saved; a restart would repeat work", "err", err)
	case err != nil && now.Sub(d.told) >= logEvery:
		d.told = now
		log.Warn("checkpoint is still not saved", "since", d.failing.Format(time.TimeOnly), "err", err)
	case err == nil && d.err != nil:
		log.Info("checkpoint is saved again", "after", now.Sub(d.failing).Round(time.Millisecond).String())
	}
	d.err = err
}

// problem returns why the checkpoint is not saved, if that has lasted for as long as patience.
func (d *disk) problem(patience time.Duration) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.err == nil || time.Since(d.failing) < patience {
		return nil
	}
	return d.err
}
