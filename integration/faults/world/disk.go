// SPDX-License-Identifier: Apache-2.0

package world

import (
	"os"
	"sync/atomic"
	"syscall"
)

// diskOp is what is done to the checkpoint's disk.
type diskOp int

const (
	opWrite diskOp = iota
	// opMeta is a write of one of bbolt's two first pages, which makes a transaction valid.
	opMeta
	// opSync makes what was written before durable; opSyncMeta does so with a meta page, and ends a commit.
	opSync
	opSyncMeta
	// opOther changes the size or the name of a file, or makes one.
	opOther
)

func (o diskOp) String() string {
	return [...]string{
		"write of a page", "write of the meta page", "sync of the pages", "sync of the meta page",
		"change of a file",
	}[o]
}

// diskRule is asked before an operation is done, and told after. It may wait. What it returns before, if not 0, is the
// operation's result, and the operation is not done.
type diskRule func(op diskOp, done bool) syscall.Errno

// disk is where the checkpoint is. What is written to seen passes a file system of this process, where there is FUSE,
// and ends up in real. This process itself must only use real: it would wait for itself.
type disk struct {
	real, seen string
	// missing is why operations are not seen here, nil where they are.
	missing error
	unmount func() error

	rule    atomic.Pointer[diskRule]
	commits atomic.Int64 // that were completed
	refused atomic.Int64 // operations that a rule has failed
	meta    atomic.Bool  // the last write was one of a meta page
}

func newDisk(real, seen string) (*disk, error) {
	d := &disk{real: real, seen: seen}
	for _, dir := range []string{real, seen} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, err
		}
	}
	if err := d.mount(); err != nil {
		d.missing, d.seen = err, real
	}
	return d, nil
}

func (d *disk) close() error {
	d.set(nil)
	if d.unmount == nil {
		return nil
	}
	return d.unmount()
}

// set replaces the rule; nil: none.
func (d *disk) set(r diskRule) {
	if r == nil {
		d.rule.Store(nil)
		return
	}
	d.rule.Store(&r)
}

// do does an operation as the rule wants it.
func (d *disk) do(op diskOp, f func() syscall.Errno) syscall.Errno {
	switch op {
	case opWrite, opMeta:
		d.meta.Store(op == opMeta)
	case opSync:
		if d.meta.Load() {
			op = opSyncMeta
		}
	case opSyncMeta, opOther:
	}
	rule := d.rule.Load()
	if rule != nil {
		if errno := (*rule)(op, false); errno != 0 {
			d.refused.Add(1)
			return errno
		}
	}
	errno := f()
	if errno != 0 {
		return errno
	}
	if op == opSyncMeta {
		d.commits.Add(1)
	}
	if rule != nil {
		return (*rule)(op, true)
	}
	return 0
}
