// SPDX-License-Identifier: Apache-2.0

package source

import (
	"context"
	"errors"
)

// askedError is why a list was asked for.
type askedError struct{ Why }

func (e askedError) Error() string { return e.Message }

// outcome returns why a connection ended that may have been cut off: because a list was asked for, unless the API
// server has said which versions it has no more.
func outcome(err, cut error) error {
	if asked := (askedError{}); !expired(err) && errors.As(cut, &asked) {
		return asked
	}
	return err
}

// asked cuts the watch off when a list is asked for, or the stream is to end, which the list that follows sees. It
// returns when conns ends.
func (r *resumedWatch) asked(conns context.Context, cut context.CancelCauseFunc) {
	select {
	case why, ok := <-r.wire.again:
		if ok {
			cut(askedError{why})
		}
	case <-r.wire.end:
		cut(askedError{Why{Message: ErrEnded.Error()}})
	case <-conns.Done():
	}
	<-conns.Done()
}
