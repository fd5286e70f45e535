// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package memory

// unmapCode does nothing here.
func unmapCode() {}
