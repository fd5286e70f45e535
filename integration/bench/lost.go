// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"time"

	"github.com/kube-eventbridge/kube-eventbridge/integration/internal/try"
)

// read is what the bridge says when it has read from the log what a checkpoint would have told.
var read = regexp.MustCompile(`"there is no checkpoint[^\n]*"objects":(\d+),"took":"([^"]+)"`)

// lostCheckpoint is one run of g: a bridge whose checkpoint is lost reads the log, and says itself how long that took.
func (b *bench) lostCheckpoint(ctx context.Context, run int) error {
	objects := 5 * b.objects
	b.progress("run %d: a lost checkpoint, %s objects", run, thousands(objects))
	ctx, cancel := deadline(ctx, 2*time.Minute+2*time.Duration(objects)*time.Millisecond)
	defer cancel()
	return try.Run(func(end *try.Scope) {
		r := b.newRig(ctx, end, objects)
		p := try.Get(b.startBridge(r, "pods", "", nil))
		end.Finally(func() error { return p.stop() }) // of the one that runs then
		try.Get(r.await(ctx, objects+bridgeMarkers, p))
		try.Do(p.stop())
		try.Do(os.RemoveAll(filepath.Join(r.dir, "data")))
		p = try.Get(b.startBridge(r, "pods", "", nil))
		took, err := readAgain(ctx, p, objects)
		try.Do(err)
		b.add(run, row{"a lost checkpoint", "what the log has of " + thousands(objects) + " objects is read in", "s"},
			colBridge, took.Seconds())
	})
}

// readAgain waits for what the bridge says of reading the log.
func readAgain(ctx context.Context, p *process, objects int) (took time.Duration, err error) {
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
		return 0, fmt.Errorf("wait for what is read from the log: %w", err)
	}
	return took, nil
}
