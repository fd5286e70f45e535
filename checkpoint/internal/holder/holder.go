// SPDX-License-Identifier: Apache-2.0

// Package holder names the process that uses a checkpoint which several processes can reach.
package holder

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	// Every is how often a process writes to the checkpoint that it uses, at least.
	Every = 5 * time.Second
	// Silence is how long a checkpoint has no new message until it counts as unused.
	Silence = 3 * Every
	// Look is the time between two looks for a new message.
	Look = 250 * time.Millisecond
	// Farewell is how long a process that ends tries to say so.
	Farewell = 2 * time.Second
)

// Holder is a process. The zero Holder is one of which nothing is known.
type Holder struct {
	// Host is the name of the process's machine or container, and Boot tells one start of the machine from another.
	// Space is that of the number: two containers on one machine have different ones. The last two are empty where the
	// system does not say.
	Host, Boot, Space string
	PID               int
}

// Self returns this process.
func Self() Holder {
	host, _ := os.Hostname() // empty if the system does not tell
	boot, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	space, _ := os.Readlink("/proc/self/ns/pid")
	return Holder{host, strings.TrimSpace(string(boot)), space, os.Getpid()}
}

// Text returns what [Parse] reads.
func (h Holder) Text() string { return fmt.Sprintf("%d/%s/%s/%s", h.PID, h.Boot, h.Space, h.Host) }

// Parse returns the holder of a text; the zero Holder if the text is of none.
func Parse(text string) Holder {
	parts := strings.SplitN(text, "/", 4) // the host is last, as its name may have a slash
	pid, err := strconv.Atoi(parts[0])
	if err != nil || len(parts) != 4 {
		return Holder{}
	}
	return Holder{Host: parts[3], Boot: parts[1], Space: parts[2], PID: pid}
}

// Gone reports whether the process is known to have ended. This process counts as one that has: it opens a checkpoint
// again only if it has given it up. Nothing is known of a process in another container, also if that was the one
// before on this machine.
func (h Holder) Gone() bool {
	self := Self()
	if h == (Holder{}) || h.Host != self.Host || h.Boot != self.Boot || h.Space != self.Space {
		return false
	}
	return h.PID == self.PID || ended(h.PID)
}

func ended(pid int) bool {
	p, err := os.FindProcess(pid)
	if err != nil {
		return true // as Windows says it
	}
	defer p.Release() //nolint:errcheck // it holds nothing
	return errors.Is(p.Signal(syscall.Signal(0)), os.ErrProcessDone)
}

// String names the process for people.
func (h Holder) String() string {
	if h == (Holder{}) {
		return "an unknown process"
	}
	return fmt.Sprintf("process %d on host %s", h.PID, h.Host)
}
