// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package child

import "syscall"

// attributes of a child that outlives this process if this process is killed.
func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
