// SPDX-License-Identifier: Apache-2.0

package source

import "context"

// askedError is why a list was asked for.
type askedError struct{ cause string }

func (e askedError) Error() string { return e.cause }

// asked cuts the watch off when a list is asked for. It returns when conns ends.
func (r *resumedWatch) asked(conns context.Context, cut context.CancelCauseFunc) {
	select {
	case cause, ok := <-r.wire.again:
		if ok {
			cut(askedError{cause})
		}
	case <-conns.Done():
	}
	<-conns.Done()
}
