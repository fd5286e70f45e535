// SPDX-License-Identifier: Apache-2.0

package source

import (
	"context"
	"fmt"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// standsBy has a company record what comes behind version 10.
func (c *company) standsBy(limit int64) (leave func()) {
	c.holds = NewHolds(c.client, c.watches, limit)
	c.holds.Keep(map[Stream]From{configMaps: {Version: "10"}})
	ctx, end := context.WithCancel(c.ctx)
	done := make(chan struct{})
	c.running.Go(func() {
		defer close(done)
		assert.NoError(c.t, c.holds.Run(ctx))
		assert.EqualValues(c.t, 0, c.holds.Bytes(), "bytes are left")
	})
	return func() {
		end()
		<-done
	}
}

// recorded waits until a version was recorded.
func (c *company) recorded(version int) {
	c.t.Helper()
	c.wait(fmt.Sprintf("recorded up to %d", version), func() bool {
		c.holds.mu.Lock()
		defer c.holds.mu.Unlock()
		k := c.holds.holds[configMaps]
		return k != nil && k.last >= uint64(version)
	})
}

func TestHolds_show_what_the_API_server_has_forgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage()
		c := newCompany(t, s)
		c.standsBy(1 << 20)
		for range 500 {
			s.write("default", 100)
		}
		c.recorded(510)
		s.change(func() { s.compacted = 509 })
		c.holds.HandOver()
		m := c.join("", "60")
		c.saw(m, 450)
		s.write("default", 1)
		c.saw(m, 451)
		c.check(m, 60, "")
		n := m.counted("expired")
		assert.Equal(t, 0, n, "a watch has expired %d times", n)
		c.wait("nothing is recorded any more", func() bool { return c.holds.Bytes() == 0 })
		c.watch(map[string]int{"": 1})
	})
}

func TestHolds_forget_what_the_position_has_passed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage()
		c := newCompany(t, s)
		end := c.standsBy(1 << 20)
		for range 100 {
			s.write("default", 100)
		}
		c.recorded(110)
		all := c.holds.Bytes()
		c.holds.Keep(map[Stream]From{configMaps: {Version: "60"}})
		assert.Equal(t, all/2, c.holds.Bytes(), "bytes of %d are left of half the events", all)
		c.holds.Keep(map[Stream]From{configMaps: {Version: "110"}})
		assert.EqualValues(t, 0, c.holds.Bytes(), "bytes are left of nothing")
		assert.Nil(t, c.holds.take(configMaps, "59", 0), "what is forgotten is offered")
		c.holds.Keep(nil)
		c.watch(map[string]int{})
		end()
	})
}

func TestHolds_are_bounded_and_go_on_when_there_is_room(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limit = 256 << 10
		s := newStage()
		c := newCompany(t, s)
		c.standsBy(limit)
		for range 100 {
			s.write("default", 16<<10)
		}
		for range 100 {
			<-time.After(100 * time.Millisecond)
			if n := c.holds.Bytes(); n > limit {
				t.Fatalf("%d bytes are recorded, of at most %d", n, limit)
			}
		}
		if n := c.holds.Bytes(); n < limit/2 {
			t.Errorf("only %d bytes are recorded", n)
		}
		c.holds.SetLimit(limit / 4)
		before := c.holds.Bytes()
		c.holds.Keep(map[Stream]From{configMaps: {Version: "15"}})
		<-time.After(time.Minute)
		assert.Less(t, c.holds.Bytes(), before, "bytes are recorded, and %d before there was less room", before)
		c.holds.SetLimit(limit * 2)
		<-time.After(time.Minute)
		if n := c.holds.Bytes(); n <= limit || n > limit*2 {
			t.Errorf("%d bytes are recorded, of %d", n, limit*2)
		}
		s.change(func() { s.compacted = 109 })
		c.holds.HandOver()
		m := c.join("", "15") // what was not recorded yet comes by the watch that records
		c.saw(m, 95)
		c.check(m, 15, "")
		if n := m.counted("expired"); n != 0 {
			t.Errorf("a watch has expired %d times", n)
		}
	})
}

func TestHolds_end_where_the_API_server_can_show_no_more_until_the_position_has_passed_them(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage()
		c := newCompany(t, s)
		c.standsBy(1 << 20)
		for range 10 {
			s.write("default", 100)
		}
		c.recorded(20)
		s.write("default", 100)
		s.change(func() { s.cuts++; s.compacted = 21 })
		c.holds.Keep(map[Stream]From{configMaps: {Version: "16"}})
		<-time.After(10 * time.Minute)
		c.holds.mu.Lock()
		last := c.holds.holds[configMaps].last
		c.holds.mu.Unlock()
		assert.EqualValues(t, 20, last, "it is recorded up to where the connection was lost")
		c.holds.Keep(map[Stream]From{configMaps: {Version: "21"}})
		<-time.After(time.Minute)
		s.write("default", 100)
		c.recorded(22)
		c.holds.HandOver()
		m := c.join("", "21")
		c.saw(m, 1)
		c.check(m, 21, "")
	})
}

// etcd was restored from a backup of before 18, and has got further since: what follows there is not put behind what was recorded.
func TestHolds_end_where_the_history_is_another_one(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage()
		c := newCompany(t, s)
		c.standsBy(1 << 20)
		for range 10 {
			s.write("default", 100)
		}
		c.recorded(20)
		s.change(func() {
			s.cuts++
			for i := 7; i < len(s.writes); i++ {
				s.writes[i].name = "other" + strconv.Itoa(i)
			}
		})
		s.write("default", 100)
		<-time.After(10 * time.Minute)
		c.holds.mu.Lock()
		defer c.holds.mu.Unlock()
		assert.EqualValues(t, 20, c.holds.holds[configMaps].last,
			"it is recorded up, want 20, where the history ended")
	})
}

func TestHolds_drop_what_nobody_takes_over(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage()
		c := newCompany(t, s)
		c.standsBy(1 << 20)
		s.write("default", 100)
		c.recorded(11)
		c.holds.HandOver()
		<-time.After(2 * unusedAfter)
		assert.EqualValues(t, 0, c.holds.Bytes(), "bytes are left")
		c.watch(map[string]int{})
	})
}

// Whatever happens between, a reader that takes over sees all that follows its position, in order.
func TestHolds_and_what_follows_are_the_whole(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		steps := rapid.SliceOfN(rapid.IntRange(0, 9), 1, 60).Draw(rt, "steps")
		limit := rapid.SampledFrom([]int64{8 << 10, 1 << 20}).Draw(rt, "limit")
		// Where there was room for all, the API server may have forgotten it when the reader comes, which is then at the end.
		forgotten := limit > 1<<19 && rapid.Bool().Draw(rt, "forgotten")
		synctest.Test(t, func(t *testing.T) {
			s := newStage()
			s.timeouts = true
			c := newCompany(t, s)
			c.standsBy(limit)
			position, m, from := 10, (*member)(nil), 0
			for _, step := range steps {
				s.mu.Lock()
				now := s.now()
				s.mu.Unlock()
				switch {
				case step < 4:
					s.write("default", 1000*step)
				case step == 4:
					s.bookmark()
				case step == 5 && m == nil:
					position += (now - position) / 2
					c.holds.Keep(map[Stream]From{configMaps: {Version: strconv.Itoa(position)}})
				case step == 6:
					s.change(func() { s.cuts++ })
				case step == 7:
					<-time.After(time.Second)
				case step == 8:
					<-time.After(6 * time.Minute)
				case m == nil && !forgotten:
					c.holds.HandOver()
					m, from = c.join("", strconv.Itoa(position)), position
				}
			}
			if m == nil {
				<-time.After(time.Minute) // a connection that was cut is there again
				s.change(func() {
					if forgotten {
						s.compacted = s.now()
					}
				})
				c.holds.HandOver()
				m, from = c.join("", strconv.Itoa(position)), position
			}
			s.write("default", 1)
			<-time.After(30 * time.Minute)
			c.check(m, from, "")
			n := m.counted("expired")
			assert.Equal(t, 0, n, "a watch has expired %d times", n)
		})
		if t.Failed() {
			rt.FailNow()
		}
	})
}

// etcd was restored to 13 and is at 15; the leader has begun the new history and committed 15 of it. What was recorded of 16 to 20 is of the history that is undone.
func TestHolds_of_an_undone_history_are_not_read_behind_a_position_of_the_new_one(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage()
		c := newCompany(t, s)
		c.standsBy(1 << 20)
		for range 10 {
			s.write("default", 100)
		}
		c.recorded(20)
		s.change(func() {
			s.cuts++
			s.writes = s.writes[:3] // 11, 12, 13
			for _, rev := range []int{14, 15} {
				s.writes = append(s.writes, staged{rev: rev, namespace: "default", name: "new" + strconv.Itoa(rev), size: 100})
			}
		})
		<-time.After(time.Minute)                                  // the recording has seen that the history is another one, and ended
		c.holds.Keep(map[Stream]From{configMaps: {Version: "15"}}) // the leader's position, in its new history
		c.holds.HandOver()
		m := c.join("", "15")
		s.change(func() {
			s.writes = append(s.writes, staged{rev: 16, namespace: "default", name: "new16", size: 100})
		})
		<-time.After(10 * time.Second)
		c.check(m, 15, "")
	})
}

// The leader has found out that etcd was restored, and the recording has not: it is of the history before, whatever its versions.
func TestHolds_are_of_one_history(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage()
		c := newCompany(t, s)
		c.standsBy(1 << 20)
		for range 10 {
			s.write("default", 100)
		}
		c.recorded(20)
		assert.Nil(t, c.holds.take(configMaps, "15", 1),
			"what was recorded is offered to a reader of the next history")
		c.holds.Keep(map[Stream]From{configMaps: {Version: "15", History: 1}})
		<-time.After(time.Minute)
		assert.Nil(t, c.holds.take(configMaps, "15", 0),
			"what is recorded now is offered to a reader of the history before")
		held := c.holds.take(configMaps, "15", 1)
		require.NotNil(t, held, "nothing was recorded of the next history")
		held.close()
	})
}
