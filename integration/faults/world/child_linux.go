// SPDX-License-Identifier: Apache-2.0

package world

import "syscall"

// childAttr makes the bridge end with this process, also if this one is killed.
func childAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
