// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package node

import "errors"

// isolates says that only Linux does.
func isolates() error { return errors.New("it takes Linux") }
