// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package world

import "errors"

func (*disk) mount() error { return errors.New("no FUSE here: this is not Linux") }
