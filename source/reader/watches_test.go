// SPDX-License-Identifier: Apache-2.0

package reader

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/kube-eventbridge/kube-eventbridge/source"
	"github.com/kube-eventbridge/kube-eventbridge/source/kube/kubetest"
)

// These tests run in bubbles of testing/synctest, which their frame makes.

func TestWatches_are_patient_from_when_others_go_on(t *testing.T) {
	inCompany(t, func(t *testing.T, s *stage, c *company) {
		a, b := c.pair(1)
		c.stall(a, b)
		a.free()
		<-time.After(time.Millisecond)
		b.free()
		c.saw(1001, a, b)
		assert.Equal(t, 0, a.counted("detached")+b.counted("detached"), "detached, and the others were 1 ms ahead")
	})
}

func TestWatches_that_end_in_good_order_are_not_taken_for_dead(t *testing.T) {
	inCompany(t, func(t *testing.T, s *stage, c *company) {
		s.timeouts = true
		a, b := c.join("", "10"), c.join("", "10")
		for range 6 * 30 { // hours
			<-time.After(2 * time.Minute)
			s.write("default", 1)
		}
		c.saw(len(s.writes), a, b)
		n := a.counted("silent") + b.counted("silent")
		assert.True(t, n <= 0 && a.counted("ended") >= 10, "%d were silent, %d ended", n, a.counted("ended"))
		c.check(10, "", a, b)
	})
}

// One is slow, and reads what its own watch has brought long ago; meanwhile etcd is restored, and another reads the new
// history.
func TestWatches_are_joined_in_the_same_history_only(t *testing.T) {
	inCompany(t, func(t *testing.T, s *stage, c *company) {
		for range 300 {
			s.write("default", 1)
		}
		slow := &member{gate: make(chan struct{}, 1)}
		slow.resume = "10"
		slow.onCall = func(call string, _ <-chan struct{}) {
			if strings.HasPrefix(call, "admit") {
				<-time.After(10 * time.Millisecond)
			}
		}
		ended := make(chan error, 1)
		c.running.Go(func() {
			r := Reader{
				Client: c.client, Watches: c.watches, Stream: kubetest.ConfigMaps, Feed: slow, History: slow,
				Observer: slow,
			}
			ended <- r.Run(c.ctx)
		})
		c.saw(35, slow)
		s.change(func() { s.writes, s.cuts = s.writes[:30:30], s.cuts+1 }) // as it was at 40
		c.join("", "40")
		c.join("", "40")
		for range 500 {
			s.write("restored", 1)
			<-time.After(5 * time.Millisecond)
		}
		var rewound *source.RewoundError
		select {
		case err := <-ended:
			assert.True(t, errors.As(err, &rewound), "it ended with %v", err)
		case <-time.After(time.Minute):
			t.Errorf("it has not noticed: %v", slow.reasons)
		}
	})
}
