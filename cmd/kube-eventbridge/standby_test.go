// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"testing"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
)

// onePeek is a peeker that fails where it is told to, and says when it is closed.
type onePeek struct {
	err    error
	closed *int
}

func (p onePeek) Peek(context.Context) (map[string]checkpoint.Stream, error) {
	return map[string]checkpoint.Stream{"pods.v1": {}}, p.err
}

func (p onePeek) Close() error {
	*p.closed++
	return nil
}

func TestRenewedPeeker_is_another_one_after_a_failure_and_stays_otherwise(t *testing.T) {
	refused := errors.New("the password is another one")
	opened, closed := 0, 0
	p := &renewedPeeker{open: func() (checkpoint.Peeker, error) {
		switch opened++; opened {
		case 1:
			return onePeek{refused, &closed}, nil
		case 2:
			return nil, errors.New("the file is being written")
		default:
			return onePeek{nil, &closed}, nil
		}
	}}
	for i, wantErr := range []bool{true, true, false, false} {
		if streams, err := p.Peek(t.Context()); (err != nil) != wantErr || !wantErr && len(streams) != 1 {
			t.Errorf("look %d: %v, %v", i, streams, err)
		}
	}
	if err := p.Close(); err != nil || opened != 3 || closed != 2 {
		t.Errorf("%d were opened and %d closed, %v", opened, closed, err)
	}
}
