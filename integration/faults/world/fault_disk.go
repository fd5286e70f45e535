// SPDX-License-Identifier: Apache-2.0

package world

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/kube-eventbridge/kube-eventbridge/integration/internal/pause"
	"github.com/kube-eventbridge/kube-eventbridge/integration/internal/try"
)

// diskFaults break the checkpoint, or the disk that it is on.
func diskFaults() []Fault {
	return []Fault{
		{
			Name: "checkpoint's disk full", Parts: Process | Disk, Cost: 8 * time.Second, FUSE: true, Checkpoint: CheckpointFile,
			run: failDisk(syscall.ENOSPC),
		},
		{
			Name: "checkpoint's disk read-only", Parts: Process | Disk, Cost: 8 * time.Second, FUSE: true,
			Checkpoint: CheckpointFile, run: failDisk(syscall.EROFS),
		},
		{
			Name: "checkpoint's disk slow", Parts: Disk, Cost: 12 * time.Second, FUSE: true, Checkpoint: CheckpointFile,
			run: slowDisk,
		},
		{
			Name: "checkpoint corrupt", Parts: Process | API | Disk, Weight: 5, Cost: 12 * time.Second,
			Checkpoint: CheckpointFile, run: corrupt,
		},
	}
}

// failDisk fails every change with errno for a while, and now and then kills the bridge meanwhile; it is started when
// the disk is well again.
func failDisk(errno syscall.Errno) func(context.Context, *injection) error {
	return func(ctx context.Context, i *injection) error {
		before := i.disk.refused.Load()
		i.disk.set(func(op diskOp, done bool) syscall.Errno {
			// A full disk can still make durable what is on it.
			if done || errno == syscall.ENOSPC && (op == opSync || op == opSyncMeta) {
				return 0
			}
			return errno
		})
		try.Do(i.await(ctx, "a commit to fail", func() bool { return i.disk.refused.Load() > before }))
		try.Do(pause.For(ctx, i.between(500*time.Millisecond, 4*time.Second)))
		kill := i.random.IntN(2) == 0
		i.note(ctx, "%d operations failed: %v; killed meanwhile: %v", i.disk.refused.Load()-before, errno, kill)
		if kill {
			try.Do(i.KillBridge())
		}
		i.disk.set(nil)
		if kill {
			return i.StartBridge()
		}
		commits := i.disk.commits.Load()
		return i.await(ctx, "a commit to succeed again", func() bool { return i.disk.commits.Load() > commits })
	}
}

func slowDisk(ctx context.Context, i *injection) error {
	slow := i.between(50*time.Millisecond, time.Second)
	slowed := make(chan struct{}, 1)
	healed, heal := context.WithCancel(ctx)
	defer heal()
	i.disk.set(func(_ diskOp, done bool) syscall.Errno {
		if !done {
			select {
			case slowed <- struct{}{}:
			default:
			}
			_ = pause.For(healed, slow) // whichever ends first
		}
		return 0
	})
	try.Do(i.await(ctx, "a commit", func() bool { return len(slowed) > 0 }))
	try.Do(pause.For(ctx, i.between(2*time.Second, 6*time.Second)))
	i.note(ctx, "every write and sync took %s longer", slow)
	return nil
}

// exitFailed is the code with which a bridge ends that must not use what it found.
const exitFailed = 1

// corrupt damages the checkpoint while the bridge is away. The bridge must refuse it, leave it as it is and say what to
// do, and a second pipeline goes on. Then the good file is put back.
func corrupt(ctx context.Context, i *injection) error {
	try.Do(i.KillBridge())
	path := i.checkpointFile()
	good := try.Get(os.ReadFile(path))
	how, bad := damage(i.random, good)
	try.Do(os.WriteFile(path, bad, 0o600))
	try.Do(i.StartBridge())
	i.Bridge().mayEnd.Store(true)
	refused := i.checkRefusal(ctx, path, bad)
	i.note(ctx, "%s; the bridge was started on it: %v", how, refused)
	try.Do(errors.Join(i.KillBridge(), os.WriteFile(path, good, 0o600), i.StartBridge()))
	return refused
}

func (i *injection) checkRefusal(ctx context.Context, path string, bad []byte) error {
	err := i.awaitEnd(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("%w: it is used: %w; %s", ErrUsed, err, i.Bridge().lastWords())
	}
	if ctx.Err() != nil {
		return err
	}
	errs := []error{err}
	if now, err := os.ReadFile(path); err != nil || !bytes.Equal(now, bad) {
		errs = append(errs, fmt.Errorf("the damaged checkpoint was changed: %d bytes, were %d, %w", len(now), len(bad), err))
	}
	for _, part := range []string{filepath.Join(i.disk.seen, checkpointName), "move the file away"} {
		if out, err := i.Bridge().Stderr(); err != nil || !strings.Contains(out, part) {
			errs = append(errs, fmt.Errorf("stderr does not say %q: %w\n%s", part, err, out))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("%w: %w", ErrUsed, err)
	}
	return nil
}

// awaitEnd waits until the first pipeline has ended: alone, if there is a second one, which has to publish then.
func (i *injection) awaitEnd(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	if i.second != nil {
		if err := i.await(ctx, "the pipeline to end", func() bool {
			first, _, _ := i.Bridge().metricsOfBoth(ctx)
			ended, _ := first.Sum("pipeline_ended")
			return ended > 0
		}); err != nil {
			return err
		}
		return i.awaitSecond(ctx)
	}
	code, err := i.AwaitExit(ctx)
	if err == nil && code != exitFailed {
		err = fmt.Errorf("the bridge ended with code %d on a damaged checkpoint", code)
	}
	return err
}

// damage returns a copy of a checkpoint that cannot be read.
func damage(random *rand.Rand, good []byte) (how string, bad []byte) {
	bad = bytes.Clone(good)
	page := os.Getpagesize()
	switch random.IntN(4) {
	case 0:
		for at := range 2 {
			bad[at*page+16+random.IntN(64)] ^= 1 << random.IntN(8)
		}
		return "a bit of both meta pages flipped", bad
	case 1:
		return "cut to two pages and a half", bad[:min(len(bad)-1, 2*page+page/2)]
	case 2:
		for at := 2 * page; at+page <= len(bad); at += page {
			bad[at] ^= 1 << random.IntN(8) // a page says its own number first
		}
		return "a bit of every page but the meta pages flipped", bad
	default:
		clear(bad[:2*page])
		return "the meta pages overwritten with zeros", bad
	}
}
