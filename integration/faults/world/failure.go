// SPDX-License-Identifier: Apache-2.0

package world

import "errors"

// What the bridge must not do. Errors that wrap one of them say something of the bridge; all others are those of the world around it.
var (
	// ErrUnsettled: it did not come to rest, or to its end, in the time that it has.
	ErrUnsettled = errors.New("the bridge does not settle")
	// ErrEnded: it ended although nobody wanted that, or otherwise than it was asked to.
	ErrEnded = errors.New("the bridge ended")
	// ErrUsed: it did not refuse a damaged checkpoint, or not as it has to.
	ErrUsed = errors.New("a damaged checkpoint is not refused")
)
