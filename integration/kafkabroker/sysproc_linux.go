// SPDX-License-Identifier: Apache-2.0

package kafkabroker

import "syscall"

// childAttr makes a child end with this process, also if this one is killed, and keeps a terminal's ^C from it, which is
// for its owner to act on.
func childAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
