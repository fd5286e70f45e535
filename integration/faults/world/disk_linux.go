// SPDX-License-Identifier: Apache-2.0

package world

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// mount makes seen a view of real.
func (d *disk) mount() error {
	if _, err := os.Stat("/dev/fuse"); err != nil {
		return fmt.Errorf("no FUSE here: %w", err)
	}
	loopback, err := fs.NewLoopbackRoot(d.real)
	if err != nil {
		return fmt.Errorf("mount the checkpoint's disk: %w", err)
	}
	server, err := fs.Mount(d.seen, &diskNode{LoopbackNode: loopback.(*fs.LoopbackNode), disk: d}, &fs.Options{
		MountOptions: fuse.MountOptions{DirectMountStrict: true, FsName: "kube-eventbridge-faults", Name: "world"},
	})
	if err != nil {
		return fmt.Errorf("mount the checkpoint's disk (this needs root): %w", err)
	}
	d.unmount = func() error {
		// The kernel may take a moment to let go of what a killed process had mapped.
		err := poll(context.Background(), patience, "the disk to be free", func() bool { return server.Unmount() == nil })
		if err != nil {
			return syscall.Unmount(d.seen, syscall.MNT_DETACH) // a process that looks at all disks may be in it
		}
		server.Wait()
		return nil
	}
	return nil
}

// detach takes away what a process that was killed has left mounted at path.
func detach(path string) error {
	err := syscall.Unmount(path, syscall.MNT_DETACH)
	if err == nil || errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.ENOENT) {
		return nil // nothing is mounted there
	}
	if errors.Is(err, syscall.EPERM) && !mounted(path) {
		return nil
	}
	return fmt.Errorf("unmount what a killed process has left: %w", err)
}

// mounted reports whether something is mounted at path whose process is gone: then nothing answers.
func mounted(path string) bool {
	_, err := os.Stat(path)
	return errors.Is(err, syscall.ENOTCONN)
}

// diskNode is a directory or a file.
type diskNode struct {
	*fs.LoopbackNode
	disk *disk
}

var (
	_ fs.NodeWrapChilder = (*diskNode)(nil)
	_ fs.NodeOpener      = (*diskNode)(nil)
	_ fs.NodeCreater     = (*diskNode)(nil)
	_ fs.NodeSetattrer   = (*diskNode)(nil)
)

// WrapChild implements [fs.NodeWrapChilder].
func (n *diskNode) WrapChild(_ context.Context, ops fs.InodeEmbedder) fs.InodeEmbedder {
	return &diskNode{LoopbackNode: ops.(*fs.LoopbackNode), disk: n.disk}
}

func (n *diskNode) real() string {
	return filepath.Join(n.disk.real, n.Path(n.Root()))
}

// Open implements [fs.NodeOpener].
func (n *diskNode) Open(_ context.Context, flags uint32) (fs.FileHandle, uint32, syscall.Errno) {
	fd, err := syscall.Open(n.real(), int(flags)&^syscall.O_APPEND|syscall.O_CLOEXEC, 0)
	if err != nil {
		return nil, 0, fs.ToErrno(err)
	}
	return &diskFile{fd: fd, disk: n.disk}, 0, 0
}

// Create implements [fs.NodeCreater].
func (n *diskNode) Create(
	ctx context.Context, name string, flags, mode uint32, out *fuse.EntryOut,
) (child *fs.Inode, h fs.FileHandle, _ uint32, errno syscall.Errno) {
	errno = n.disk.do(opOther, func() syscall.Errno {
		fd, err := syscall.Open(filepath.Join(n.real(), name), int(flags)&^syscall.O_APPEND|syscall.O_CREAT|syscall.O_CLOEXEC,
			mode)
		if err != nil {
			return fs.ToErrno(err)
		}
		var failed syscall.Errno
		if child, failed = n.Lookup(ctx, name, out); failed != 0 {
			_ = syscall.Close(fd)
			return failed
		}
		h = &diskFile{fd: fd, disk: n.disk}
		return 0
	})
	return child, h, 0, errno
}

// Setattr implements [fs.NodeSetattrer].
func (n *diskNode) Setattr(ctx context.Context, _ fs.FileHandle, in *fuse.SetAttrIn, out *fuse.AttrOut) syscall.Errno {
	return n.disk.do(opOther, func() syscall.Errno { return n.LoopbackNode.Setattr(ctx, nil, in, out) })
}

// diskFile is an open file. Unlike go-fuse's own it never lets the kernel read and write past this process.
type diskFile struct {
	fd   int
	disk *disk
}

var (
	_ fs.FileReader    = (*diskFile)(nil)
	_ fs.FileWriter    = (*diskFile)(nil)
	_ fs.FileFsyncer   = (*diskFile)(nil)
	_ fs.FileGetattrer = (*diskFile)(nil)
	_ fs.FileReleaser  = (*diskFile)(nil)
)

// Read implements [fs.FileReader].
func (f *diskFile) Read(_ context.Context, dest []byte, off int64) (fuse.ReadResult, syscall.Errno) {
	n, err := unix.Pread(f.fd, dest, off)
	if err != nil {
		return nil, fs.ToErrno(err)
	}
	return fuse.ReadResultData(dest[:n]), 0
}

// Write implements [fs.FileWriter].
func (f *diskFile) Write(_ context.Context, data []byte, off int64) (n uint32, errno syscall.Errno) {
	op := opWrite
	if off < 2*int64(os.Getpagesize()) {
		op = opMeta
	}
	errno = f.disk.do(op, func() syscall.Errno {
		written, err := unix.Pwrite(f.fd, data, off)
		n = uint32(max(written, 0))
		return fs.ToErrno(err)
	})
	return n, errno
}

// Fsync implements [fs.FileFsyncer]. The machine does not crash here, so what was written is not made to last.
func (f *diskFile) Fsync(context.Context, uint32) syscall.Errno {
	return f.disk.do(opSync, func() syscall.Errno { return 0 })
}

// Getattr implements [fs.FileGetattrer].
func (f *diskFile) Getattr(_ context.Context, out *fuse.AttrOut) syscall.Errno {
	var st syscall.Stat_t
	if err := syscall.Fstat(f.fd, &st); err != nil {
		return fs.ToErrno(err)
	}
	out.FromStat(&st)
	return 0
}

// Release implements [fs.FileReleaser].
func (f *diskFile) Release(context.Context) syscall.Errno { return fs.ToErrno(syscall.Close(f.fd)) }
