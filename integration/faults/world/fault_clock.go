// SPDX-License-Identifier: Apache-2.0

package world

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/kube-eventbridge/kube-eventbridge/integration/internal/pause"
	"github.com/kube-eventbridge/kube-eventbridge/integration/internal/rig"
)

// clockFaults run a bridge whose wall clock can be moved.
func clockFaults() []Fault {
	return []Fault{{Name: "clock jumps", Parts: Process, Clock: true, Weight: 4, Cost: 20 * time.Second, run: jump}}
}

// jump replaces the bridge by one that is the same but for the standard library's clock, lets that jump by hours, and
// brings the ordinary one back.
func jump(ctx context.Context, i *injection) (err error) {
	files := filepath.Join(i.dir, "clock")
	for _, r := range i.replicas {
		if err := os.WriteFile(r.clockOf(files), []byte("0"), 0o600); err != nil {
			return err
		}
	}
	ordinary := i.swap(i.cfg.ClockBinary, files)
	defer func() {
		i.swap(ordinary, "")
		err = errors.Join(err, i.restartBridge())
	}()
	if err := i.restartBridge(); err != nil {
		return err
	}
	if err := i.awaitReady(ctx); err != nil {
		return err
	}
	var seconds []string
	for range 2 + i.random.IntN(3) {
		by, err := i.jumpEach(ctx, files)
		if err != nil {
			return err
		}
		seconds = append(seconds, by...)
	}
	if err := i.awaitPublished(ctx); err != nil {
		return err
	}
	i.note(ctx, "the clock was off by, in turn, %s seconds", strings.Join(seconds, ", "))
	return nil
}

// jumpEach sets the clock of each replica, and waits until that is so.
func (i *injection) jumpEach(ctx context.Context, files string) (seconds []string, err error) {
	for _, r := range i.replicas {
		by := strconv.FormatInt(i.random.Int64N(96*3600)-48*3600, 10)
		if err := replaceFile(r.clockOf(files), by); err != nil {
			return nil, err
		}
		seconds = append(seconds, by)
	}
	if err := pause.For(ctx, i.between(500*time.Millisecond, 2*time.Second)); err != nil {
		return nil, err
	}
	for n, b := range i.processes() {
		if err := i.checkClock(ctx, b, seconds[n]); err != nil {
			return nil, err
		}
	}
	return seconds, nil
}

// clockOf is the file with the clock of a replica.
func (r *replica) clockOf(files string) string { return fmt.Sprintf("%s-%d", files, r.number) }

// checkClock waits until the time that a bridge says it is differs from ours by what its clock was set to, give or take
// a minute. A bridge that never answers is not one with a wrong clock: the error is [ErrUnsettled] then.
func (i *injection) checkClock(ctx context.Context, b *Bridge, by string) error {
	seconds, err := strconv.ParseInt(by, 10, 64)
	if err != nil {
		return err
	}
	var unanswered error
	err = poll(ctx, patience, "the bridge's clock to jump by "+by+" s", func() bool {
		var now time.Time
		now, unanswered = b.now(ctx)
		off := time.Until(now) - time.Duration(seconds)*time.Second
		return unanswered == nil && off.Abs() < time.Minute
	})
	if unanswered != nil && err != nil && ctx.Err() == nil {
		return fmt.Errorf("%w: %w: %w; %s", ErrUnsettled, err, unanswered, b.lastWords())
	}
	return err
}

// now is what the bridge takes for the time.
func (b *Bridge) now(ctx context.Context) (time.Time, error) {
	_, _, header, err := rig.Get(ctx, b.server, "/livez")
	if err != nil {
		return time.Time{}, fmt.Errorf("ask for the time: %w", err)
	}
	return http.ParseTime(header.Get("Date"))
}

// publishing is for how long nothing may be published although something changes all the time: faults of other parts
// may need most of it.
const publishing = 2 * time.Minute

// awaitPublished lets the bridge run for some seconds of changes, and then until the log grows: a jump must not stop
// it.
func (i *injection) awaitPublished(ctx context.Context) error {
	if err := pause.For(ctx, i.between(2*time.Second, 3*time.Second)); err != nil {
		return err
	}
	old, _ := i.broker.end() // the broker may be away
	err := poll(ctx, publishing, "the log to grow after the clock has jumped", func() bool {
		end, err := i.broker.end()
		return err == nil && end != old
	})
	if err != nil && ctx.Err() == nil {
		return fmt.Errorf("%w: %w; %s", ErrUnsettled, err, i.Bridge().lastWords())
	}
	return err
}

// replaceFile writes a file that a reader sees whole.
func replaceFile(path, text string) error {
	if err := os.WriteFile(path+".new", []byte(text), 0o600); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

// swap says what the next start of the bridge runs, and where it finds its clock, and returns what it ran so far.
func (w *World) swap(binary, clock string) (before string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	before, w.binary, w.clock = w.binary, binary, clock
	return before
}
