// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package kafkabroker

import "syscall"

// childAttr keeps a terminal's ^C from a child. Only Linux can also end it with its parent.
func childAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}
