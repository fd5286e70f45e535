// SPDX-License-Identifier: Apache-2.0

// Package memory keeps what the process takes of a machine small: the garbage collector goes by the limit of the
// container, and pages of the program that it does not need are given back.
package memory

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"os"
	"runtime/debug"
	"time"

	"github.com/KimMachineGun/automemlimit/memlimit"

	"github.com/kube-eventbridge/kube-eventbridge/internal/pause"
)

const (
	// memoryShare is how much of the container's limit Go may take. The kernel counts more than Go knows of: buffers of
	// connections, page tables, pages of the program and of files. The Downward API would set GOMEMLIMIT to the whole
	// limit.
	memoryShare = 0.9
	// memoryAgain is between two looks at the container's limit, which can change while it runs.
	memoryAgain = time.Minute
)

// Limit has the garbage collector work harder before the kernel ends the process, where its control group has a
// limit.
type Limit struct {
	// of returns the control group's limit in bytes, or an error that says why there is none.
	of memlimit.Provider
	// set is that of [debug.SetMemoryLimit]; now is what was set last.
	set func(int64) int64
	now int64
	log *slog.Logger
	// unread is why the limit could not be read the last time; empty if it could.
	unread string
}

// NewLimit returns nil where the environment says what the limit is.
func NewLimit(log *slog.Logger) *Limit {
	if os.Getenv("GOMEMLIMIT") != "" {
		return nil
	}
	return &Limit{of: memlimit.FromCgroup, set: debug.SetMemoryLimit, now: math.MaxInt64, log: log}
}

// Follow sets Go's limit again when the container's has changed, until ctx ends.
func (m *Limit) Follow(ctx context.Context) {
	if m == nil {
		return
	}
	for pause.For(ctx, memoryAgain) == nil {
		m.Apply()
	}
}

// Apply sets Go's limit by that of the container. Where that cannot be read, all stays as it is, and a warning says
// why, once for each reason.
func (m *Limit) Apply() {
	if m == nil {
		return
	}
	share := int64(math.MaxInt64)
	limit, err := m.of()
	switch {
	case errors.Is(err, memlimit.ErrNoLimit), errors.Is(err, memlimit.ErrNoCgroup),
		errors.Is(err, memlimit.ErrCgroupsNotSupported):
	case err != nil:
		m.complain(err)
		return
	case limit < math.MaxInt64:
		share = int64(float64(limit) * memoryShare)
	}
	m.unread = ""
	if share == m.now {
		return
	}
	m.set(share)
	m.now = share
	m.log.Info("memory limit set", "goMemLimit", share, "limit", limit)
}

// complain says why the container's limit cannot be read: who runs the process needs it once.
func (m *Limit) complain(err error) {
	say := m.log.Warn
	if m.unread == err.Error() {
		say = m.log.Debug
	}
	m.unread = err.Error()
	say("memory limit not read", "err", err)
}
