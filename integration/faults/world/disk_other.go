// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package world

import "errors"

// detach has nothing to do.
func detach(string) error { return nil }

func (*disk) mount() error { return errors.New("no FUSE here: this is not Linux") }
