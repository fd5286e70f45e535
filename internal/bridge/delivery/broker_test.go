// SPDX-License-Identifier: Apache-2.0

package delivery

import (
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/kube-eventbridge/kube-eventbridge/sink"
)

func TestBroker_fails_when_it_refuses_several_objects_and_accepts_nothing(t *testing.T) {
	for _, c := range []struct {
		name, events string // the objects that are refused; + is something that is accepted
		pending      int64
		want         bool
	}{
		{"nothing", "", 0, false},
		{"one object", "aaa", 1, false},
		{"several objects", "aba", 2, true},
		{"something is accepted between them", "a+b", 2, false},
		{"something is accepted after them", "ab+", 2, false},
		{"several after something was accepted", "ab+ba", 2, true},
		{"nothing is refused any more", "ab", 0, false},
	} {
		refused := &atomic.Int64{}
		refused.Store(c.pending)
		b := Broker{Retrier: sink.Retry(nil, sink.Policy{}), config: &Config{Refused: refused}}
		began := time.Now()
		for _, e := range c.events {
			if e == '+' {
				b.accepted()
			} else {
				b.refused(string(e), errors.New("no permission for "+string(e)))
			}
		}
		since, err := b.Failing()
		assert.Equal(t, c.want, err != nil, "%s: %v", c.name, err)
		if c.want {
			assert.False(t, since.Before(began), c.name)
			assert.EqualError(t, err, "no permission for a", c.name)
		}
	}
}
