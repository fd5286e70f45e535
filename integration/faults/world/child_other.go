// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package world

import "syscall"

func childAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
