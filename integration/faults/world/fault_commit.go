// SPDX-License-Identifier: Apache-2.0

package world

import (
	"context"
	"encoding/binary"
	"fmt"
	"os"
	"sync"
	"syscall"
	"time"
)

// commitFaults end the bridge inside a commit: before and after each step that makes it last.
func commitFaults() []Fault {
	var all []Fault
	for _, p := range []struct {
		op   diskOp
		done bool
	}{
		{opWrite, false},
		{opWrite, true},
		{opSync, false},
		{opSync, true},
		{opMeta, false},
		{opMeta, true},
		{opSyncMeta, false},
		{opSyncMeta, true},
	} {
		when := "before"
		if p.done {
			when = "after"
		}
		all = append(all, Fault{
			Name: "killed " + when + " the " + p.op.String() + " of a commit", Parts: Process | Disk, Weight: 3,
			Cost: 5 * time.Second, FUSE: true, Checkpoint: CheckpointFile,
			run: func(ctx context.Context, i *injection) error { return i.killInCommit(ctx, p.op, p.done) },
		})
	}
	return all
}

// killInCommit lets a commit come to a step, where the process is killed before anything else can follow: it is still
// waiting for the disk's answer when the signal is there. A step that is not to be done then fails.
func (i *injection) killInCommit(ctx context.Context, op diskOp, done bool) error {
	s := newStep(op, done, i.random.IntN(3))
	defer s.pass()
	i.disk.set(s.rule)
	if err := i.await(ctx, "the "+op.String()+" of a commit", s.isReached); err != nil {
		return err
	}
	b, before := i.Bridge(), i.transaction()
	if err := b.signal(syscall.SIGKILL); err != nil {
		return err
	}
	i.disk.set(nil)
	s.pass()
	if _, err := i.AwaitExit(ctx); err != nil {
		return err
	}
	after := i.transaction()
	// At this moment the file had the meta page already, or has got nothing since.
	if after != before {
		return fmt.Errorf("a dead process has completed transaction %d", after)
	}
	i.note(ctx, "killed inside a commit; the last transaction of the checkpoint is %d", after)
	return i.StartBridge()
}

// transaction returns the number of the last transaction whose meta page is in the checkpoint, 0 where there is none.
func (w *World) transaction() (last uint64) {
	f, err := os.Open(w.checkpointFile())
	if err != nil {
		return 0
	}
	defer func() { _ = f.Close() }() // read only
	for page := range 2 {
		// After the page's header of 16 bytes comes the number at 48; see bbolt's meta.
		number := make([]byte, 8)
		if _, err := f.ReadAt(number, int64(page*os.Getpagesize()+16+48)); err == nil {
			last = max(last, binary.NativeEndian.Uint64(number))
		}
	}
	return last
}

// step holds one operation of the disk up.
type step struct {
	op   diskOp
	done bool

	mu      sync.Mutex
	skip    int // that many are let through before
	reached bool
	passed  chan struct{}
	once    sync.Once
}

func newStep(op diskOp, done bool, skip int) *step {
	return &step{op: op, done: done, skip: skip, passed: make(chan struct{})}
}

// rule is a diskRule.
func (s *step) rule(op diskOp, done bool) syscall.Errno {
	if op != s.op || done != s.done || !s.mine() {
		return 0
	}
	<-s.passed
	return syscall.EIO
}

func (s *step) mine() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.skip > 0 || s.reached {
		s.skip--
		return false
	}
	s.reached = true
	return true
}

func (s *step) isReached() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.reached
}

// pass lets the operation end.
func (s *step) pass() { s.once.Do(func() { close(s.passed) }) }
