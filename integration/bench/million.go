// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io/fs"
	"path/filepath"
	"time"

	"github.com/kube-eventbridge/kube-eventbridge/integration/internal/try"
)

// million is one run of l: a bridge of very many objects lists them, rests, follows events, starts again with its
// checkpoint, and lists again after a watch that has expired.
func (b *bench) million(ctx context.Context, run int) error {
	for _, resource := range []string{pods, configMaps} {
		if err := b.millionOf(ctx, run, resource); err != nil {
			return fmt.Errorf("%s: %w", resource, err)
		}
	}
	return nil
}

func (b *bench) millionOf(ctx context.Context, run int, resource string) error {
	n := b.objectsMost
	b.progress("run %d: %s %s, %s events", run, thousands(n), resource, thousands(b.events))
	ctx, cancel := deadline(ctx, 10*time.Minute+time.Duration(3*n+b.events)*3*time.Millisecond)
	defer cancel()
	return try.Run(func(end *try.Scope) {
		r := b.newRigOf(ctx, end, resource, n)
		s, started := b.bridgeOf(resource), time.Now()
		p := try.Get(s.start(ctx, r))
		end.Finally(func() error { return p.stop() }) // of the one that runs then
		phase := thousands(n) + " " + resource
		b.measureList(ctx, run, s, r, p, n, phase+" listed and published", started)
		first := try.Get(p.cpu())
		if resource == pods {
			try.Do(b.remember(ctx, r))
		}
		b.measureRest(ctx, run, p, phase)
		b.measureWatch(ctx, run, s, r, p, phase+", "+b.watchPhase(), n, b.events)
		b.add(run, row{phase, "checkpoint", "MiB"}, colBridge, float64(try.Get(sizeOf(filepath.Join(r.dir, "data"))))/(1<<20))

		try.Do(p.stop())
		b.measureStart(ctx, run, s, r, &p, phase, n+b.events+s.markers)
		b.measureAgain(ctx, run, r, p, phase, first)
	})
}

// measureRest adds the memory of a process that has been at rest for some time.
func (b *bench) measureRest(ctx context.Context, run int, p *process, phase string) {
	rest := time.Now().Add(time.Duration(b.idleSeconds) * time.Second)
	try.Do(poll(ctx, time.Second, func() (bool, error) { return time.Now().After(rest), p.alive() }))
	b.add(run, row{phase, "RSS at rest", "MiB"}, colBridge, float64(try.Get(p.memory("VmRSS:")))/(1<<20))
}

// measureStart starts the bridge again, and adds when an event that has come meanwhile is in the log, which has stored
// messages before.
func (b *bench) measureStart(ctx context.Context, run int, s *subject, r *rig, p **process, phase string, stored int) {
	try.Do(r.emit(ctx, 1))
	began := time.Now()
	*p = try.Get(s.start(ctx, r))
	last := try.Get(r.await(ctx, stored+1, *p))
	b.add(run, row{phase, "a start until its first event is in the log", "s"}, colBridge, last.Sub(began).Seconds())
	try.Do(settle(ctx, *p))
}

// measureAgain has a hundredth of the objects change while the watch expires, and adds what the list takes then, also
// as a part of what the first one took.
func (b *bench) measureAgain(ctx context.Context, run int, r *rig, p *process, phase string, first time.Duration) {
	before, _, err := r.stored(ctx)
	try.Do(err)
	used, began := try.Get(p.cpu()), time.Now()
	changes := b.objectsMost / 100
	try.Do(r.expire(ctx, changes))
	try.Do(poll(ctx, 100*time.Millisecond, func() (bool, error) {
		now, _, err := r.stored(ctx)
		return now > before+changes, err // with the gap
	}))
	try.Do(settle(ctx, p))
	_, last, err := r.stored(ctx)
	try.Do(err)
	took := try.Get(p.cpu()) - used
	b.add(run, row{phase, "listed again after a watch that has expired", "s"}, colBridge, last.Sub(began).Seconds())
	b.add(run, row{phase, "CPU of that, as a part of the first list's", ""}, colBridge, took.Seconds()/first.Seconds())
	b.add(run, row{phase, "peak RSS after a start and that", "MiB"}, colBridge, float64(try.Get(p.peak()))/(1<<20))
}

// sizeOf returns the size of all files below a directory.
func sizeOf(dir string) (size int64, err error) {
	err = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return fmt.Errorf("size of the checkpoint: %w", err)
		}
		size += info.Size()
		return nil
	})
	return size, err
}
