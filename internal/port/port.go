// SPDX-License-Identifier: Apache-2.0

// Package port gives out TCP ports, each to one server only.
package port

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
)

// Ports are given out of this range. It lies below the one that systems take the ports of outgoing connections from,
// so a client that keeps dialling while a server is down does not take the server's port.
const (
	first = 20000
	count = 12000
)

// keep is how many ports this process holds. The oldest are released then, so a run of hours does not use up the range.
const keep = 2000

// registry is what this process holds.
var registry = struct {
	sync.Mutex
	file  *os.File // byte n stands for port n; a lock on it holds the port
	given []int    // oldest first
}{}

// Free returns a port of 127.0.0.1 that nothing listens on. No other call returns the port again while this process
// runs, neither in it nor in another process of the same user and temporary directory, before this process has been
// given 2,000 further ones. So a server that stops finds its port free when it starts again.
func Free() (int, error) {
	registry.Lock()
	defer registry.Unlock()
	if registry.file == nil {
		name := filepath.Join(os.TempDir(), fmt.Sprintf("kube-eventbridge-ports-%d.lock", os.Getuid()))
		file, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o600)
		if err != nil {
			return 0, fmt.Errorf("find a free port: %w", err)
		}
		registry.file = file
	}
	for range 1000 {
		port := first + rand.IntN(count)
		if take(port) {
			return port, nil
		}
	}
	return 0, errors.New("find a free port: 1,000 of those between 20000 and 32000 are taken")
}

// take holds a port, unless it is held or something listens on it.
func take(port int) bool {
	for _, given := range registry.given {
		if given == port {
			return false
		}
	}
	if lock(port, syscall.F_WRLCK) != nil {
		return false
	}
	l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err == nil {
		err = l.Close()
	}
	if err != nil {
		_ = lock(port, syscall.F_UNLCK) // the process's end does it otherwise
		return false
	}
	registry.given = append(registry.given, port)
	if len(registry.given) > keep {
		_ = lock(registry.given[0], syscall.F_UNLCK)
		registry.given = registry.given[1:]
	}
	return true
}

// lock sets or ends the lock on a port's byte. Such locks are the process's: they end with it, however it ends.
func lock(port int, kind int16) error {
	return syscall.FcntlFlock(registry.file.Fd(), syscall.F_SETLK, &syscall.Flock_t{
		Type: kind, Whence: io.SeekStart, Start: int64(port), Len: 1,
	})
}
