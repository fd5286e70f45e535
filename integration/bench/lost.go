// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"time"
)

// read is what the bridge says when it has read from the log what a checkpoint would have told.
var read = regexp.MustCompile(`"there is no checkpoint[^\n]*"objects":(\d+),"took":"([^"]+)"`)

// lostCheckpoint is one run of g: a bridge whose checkpoint is lost reads the log, and says itself how long that took.
func (b *bench) lostCheckpoint(ctx context.Context, run int) (err error) {
	objects := 5 * b.objects
	b.progress("run %d: a lost checkpoint, %s objects", run, thousands(objects))
	ctx, cancel := deadline(ctx, 2*time.Minute+2*time.Duration(objects)*time.Millisecond)
	defer cancel()
	r, err := newRig(ctx, b.dir, objects)
	defer func() { err = errors.Join(err, r.close()) }()
	if err != nil {
		return err
	}
	p, err := b.startBridge(r, "pods", "", nil)
	if err != nil {
		return err
	}
	if _, err := r.await(ctx, objects+bridgeMarkers, p); err != nil {
		return errors.Join(err, p.stop())
	}
	if err := errors.Join(p.stop(), os.RemoveAll(filepath.Join(r.dir, "data"))); err != nil {
		return err
	}
	if p, err = b.startBridge(r, "pods", "", nil); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.stop()) }()
	var took time.Duration
	err = poll(ctx, 50*time.Millisecond, func() (bool, error) {
		said := read.FindSubmatch(p.stderr.Bytes())
		if said == nil {
			return false, p.alive()
		}
		if string(said[1]) != fmt.Sprint(objects) {
			return false, fmt.Errorf("the bridge found %s objects in the log, and not %d", said[1], objects)
		}
		took, err = time.ParseDuration(string(said[2]))
		return true, err
	})
	if err != nil {
		return fmt.Errorf("wait for what is read from the log: %w", err)
	}
	b.add(run, row{"a lost checkpoint", "what the log has of " + thousands(objects) + " objects is read in", "s"}, colBridge, took.Seconds())
	return nil
}
