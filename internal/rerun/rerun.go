// SPDX-License-Identifier: Apache-2.0

// Package rerun runs what may have to end, and begins it again.
package rerun

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/kube-eventbridge/kube-eventbridge/internal/pause"
)

// What has ended is begun again after about a minute, and then less and less often.
const (
	first = time.Minute
	most  = 15 * time.Minute
)

// Runner runs until ctx ends, and returns nil then. It returns an error if it has to end before.
type Runner interface {
	Name() string
	Run(ctx context.Context) error
}

// All runs all until ctx ends. One that has to end ends alone, and is begun again without end: what ended it can be
// cured while others go on. All returns an error if all have ended at the same time, unless others go on beside them.
// What is what they are, as an attribute of log lines.
func All(ctx context.Context, log *slog.Logger, what string, all []Runner, beside bool) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var group errgroup.Group
	ended := endings{errs: make([]error, len(all))}
	for i, r := range all {
		group.Go(func() error {
			keep(ctx, log.With(slog.String(what, r.Name())), r, func(err error) {
				if ended.set(i, err); ended.all() != nil && !beside {
					stop()
				}
			})
			return nil
		})
	}
	_ = group.Wait() // keep returns no error
	if beside {
		return nil
	}
	return ended.all()
}

// keep runs a runner until ctx ends. Note is told why it does not run, and nil when it begins again.
func keep(ctx context.Context, log *slog.Logger, r Runner, note func(error)) {
	for n := 1; ; n++ {
		began := time.Now()
		err := r.Run(ctx)
		if err == nil {
			return
		}
		if time.Since(began) > most {
			n = 1 // it ran well for a while
		}
		delay := pause.Backoff(n, first, most)
		log.Error("it has ended", slog.String("again in", delay.String()), slog.Any("err", err))
		note(err)
		if pause.For(ctx, delay) != nil {
			return
		}
		log.Info("it begins again")
		note(nil)
	}
}

// endings are why runners do not run. Its methods may be called concurrently.
type endings struct {
	mu   sync.Mutex
	errs []error
}

// set sets why one does not run; nil if it runs.
func (e *endings) set(i int, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.errs[i] = err
}

// all returns why all have ended; nil if one runs.
func (e *endings) all() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if slices.Contains(e.errs, nil) {
		return nil
	}
	return errors.Join(e.errs...)
}
