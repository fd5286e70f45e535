// SPDX-License-Identifier: Apache-2.0

package kafka

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
)

// shore is what a coalescer's requests come to.
type shore struct {
	mu sync.Mutex
	// loads are the requests so far, each with its parcels in order.
	loads []string
	// answer is what becomes of a request, after a while.
	answer func(load []*parcel) ([]delivery, error)
}

func (s *shore) send(leader int32, load []*parcel) ([]delivery, error) {
	text := fmt.Sprint(leader, ":")
	for _, p := range load {
		text += " " + p.place.String()
	}
	s.mu.Lock()
	s.loads = append(s.loads, text)
	sent := len(s.loads)
	s.mu.Unlock()
	<-time.After(time.Duration(sent) * time.Microsecond) // no two are answered at the same time
	return s.answer(load)
}

// after answers each request after d, with offsets that are the numbers of partitions.
func after(d time.Duration) func([]*parcel) ([]delivery, error) {
	return func(load []*parcel) (all []delivery, _ error) {
		<-time.After(d)
		for _, p := range load {
			all = append(all, delivery{offset: int64(p.place.partition)})
		}
		return all, nil
	}
}

func parcelOf(partition int32, size int) *parcel {
	return &parcel{place: place{"t", partition}, data: make([]byte, size), done: make(chan delivery, 1)}
}

// parcelsOf returns small ones.
func parcelsOf(partitions ...int32) (all []*parcel) {
	for _, n := range partitions {
		all = append(all, parcelOf(n, 10))
	}
	return all
}

func (s *shore) check(t *testing.T, want ...string) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	assert.Equal(t, want, s.loads, "requests")
}

func takeAll(t *testing.T, h *coalescer, leader int32, all []*parcel) {
	t.Helper()
	for _, p := range all {
		require.True(t, h.take(leader, p), "the coalescer is closed")
		synctest.Wait() // so that what is sent at once is sent in this order
	}
}

func TestCoalescer_sends_at_once_and_then_what_has_come_meanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &shore{answer: after(10 * time.Millisecond)}
		h := newCoalescer(s.send)
		all := parcelsOf(0, 1, 2, 3, 3, 4)
		takeAll(t, h, 7, all)
		takeAll(t, h, 8, parcelsOf(9))
		s.check(t, "7: t/0", "7: t/1", "8: t/9")
		for _, p := range all {
			d := <-p.done
			assert.True(t, d.err == nil && d.offset == int64(p.place.partition), "%s: %+v", p.place, d)
		}
		h.close()
		s.check(t, "7: t/0", "7: t/1", "8: t/9", "7: t/2 t/3 t/4", "7: t/3") // one batch of a partition at a time
		assert.False(t, h.take(7, parcelOf(0, 10)), "a closed coalescer takes something")
	})
}

func TestCoalescer_bounds_requests_of_several_batches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &shore{answer: after(10 * time.Millisecond)}
		h := newCoalescer(s.send)
		takeAll(t, h, 1, append(parcelsOf(0, 1), parcelOf(2, maxRequest-10), parcelOf(3, 11), parcelOf(4, 10),
			parcelOf(5, maxRequest+1)))
		h.close()
		s.check(t, "1: t/0", "1: t/1", "1: t/2 t/4", "1: t/3", "1: t/5")
	})
}

func TestCoalescer_does_not_send_what_was_withdrawn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &shore{answer: after(10 * time.Millisecond)}
		h := newCoalescer(s.send)
		all := parcelsOf(0, 1, 2, 3)
		takeAll(t, h, 1, all)
		h.withdraw(1, all[2])
		h.withdraw(1, all[0]) // it is under way, and nothing happens
		h.close()
		s.check(t, "1: t/0", "1: t/1", "1: t/3")
	})
}

func TestCoalescer_waits_for_company_while_much_is_handed_over(t *testing.T) {
	for name, c := range map[string]struct {
		first       int // bytes of the first request
		wait        time.Duration
		soon, later []string
	}{
		"after little": {
			busy - 1, pace / 2,
			[]string{"1: t/0", "1: t/1", "1: t/2"},
			[]string{"1: t/0", "1: t/1", "1: t/2", "1: t/3"},
		},
		"after much": {busy, pace / 2, []string{"1: t/0"}, []string{"1: t/0", "1: t/1 t/2", "1: t/3"}},
		"after much, long since": {
			busy, pace,
			[]string{"1: t/0", "1: t/1", "1: t/2"},
			[]string{"1: t/0", "1: t/1", "1: t/2", "1: t/3"},
		},
	} {
		must.RunInBubble(t, name, func(t *testing.T) {
			s := &shore{answer: after(pace / 100)}
			h := newCoalescer(s.send)
			takeAll(t, h, 1, []*parcel{parcelOf(0, c.first)})
			<-time.After(c.wait)
			takeAll(t, h, 1, parcelsOf(1, 2))
			s.check(t, c.soon...)
			<-time.After(pace/2 + pace/10)
			takeAll(t, h, 1, parcelsOf(3)) // what was sent last was little
			s.check(t, c.later...)
			h.close()
		})
	}
}

func TestCoalescer_keeps_requests_apart_also_where_two_wait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var sent []time.Duration
		began := time.Now()
		h := newCoalescer(func(_ int32, load []*parcel) ([]delivery, error) {
			sent = append(sent, time.Since(began))
			return make([]delivery, len(load)), nil
		})
		takeAll(t, h, 1, []*parcel{parcelOf(0, busy)})
		takeAll(t, h, 1, []*parcel{parcelOf(1, maxRequest), parcelOf(2, maxRequest)})
		h.close()
		assert.Equal(t, []time.Duration{0, pace, 2 * pace}, sent, "requests began after")
	})
}

func TestCoalescer_waits_longer_after_more_and_ends_when_enough_waits(t *testing.T) {
	for name, c := range map[string]struct {
		first, then int // bytes of the first request, and of what is handed over half a pace later
		want        time.Duration
	}{
		"after little":                {busy - 1, 1, pace / 2},
		"after much":                  {3 * busy, 1, 3 * pace},
		"after very much":             {40 * busy, 1, paces * pace},
		"after very much, with more":  {40 * busy, enough, pace},
		"after much, with not enough": {3 * busy, enough - 1, 3 * pace},
	} {
		must.RunInBubble(t, name, func(t *testing.T) {
			var sent []time.Duration
			began := time.Now()
			h := newCoalescer(func(_ int32, load []*parcel) ([]delivery, error) {
				sent = append(sent, time.Since(began))
				return make([]delivery, len(load)), nil
			})
			takeAll(t, h, 1, []*parcel{parcelOf(0, c.first)})
			<-time.After(pace / 2)
			takeAll(t, h, 1, []*parcel{parcelOf(1, c.then)})
			h.close()
			assert.Equal(t, []time.Duration{0, c.want}, sent, "requests began after")
		})
	}
}

// A partition whose replicas are slow holds up the others of its request once.
func TestCoalescer_keeps_slow_partitions_apart_until_they_are_not(t *testing.T) {
	for name, c := range map[string]struct {
		took time.Duration
		err  error
	}{"a late answer": {took: slow + 1}, "no answer": {err: errors.New("cut")}} {
		must.RunInBubble(t, name, func(t *testing.T) {
			var mu sync.Mutex
			mend := false
			s := &shore{}
			s.answer = func(load []*parcel) ([]delivery, error) {
				mu.Lock()
				bad := !mend && slices.ContainsFunc(load, func(p *parcel) bool { return p.place.partition == 2 })
				mu.Unlock()
				if !bad {
					return after(10 * time.Millisecond)(load)
				}
				<-time.After(c.took)
				answer, _ := after(0)(load)
				return answer, c.err
			}
			h := newCoalescer(s.send)
			round := func() {
				all := parcelsOf(0, 1, 2, 3)
				takeAll(t, h, 1, all)
				for _, p := range all {
					d := <-p.done
					assert.True(t, d.err == nil || errors.Is(d.err, c.err), "%s: %v", p.place, d.err)
				}
				synctest.Wait()
			}
			round()
			s.check(t, "1: t/0", "1: t/1", "1: t/2 t/3")
			s.loads = nil
			round() // 3 was in bad company only
			s.check(t, "1: t/0", "1: t/1", "1: t/2", "1: t/3")
			s.loads = nil
			mu.Lock()
			mend = true
			mu.Unlock()
			round()
			s.check(t, "1: t/0", "1: t/1", "1: t/2", "1: t/3")
			s.loads = nil
			round()
			s.check(t, "1: t/0", "1: t/1", "1: t/2 t/3")
			h.close()
		})
	}
}

func TestCoalescer_tells_all_of_a_request_that_failed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cut := errors.New("cut")
		s := &shore{answer: func([]*parcel) ([]delivery, error) {
			<-time.After(time.Millisecond)
			return nil, cut
		}}
		h := newCoalescer(s.send)
		all := parcelsOf(0, 1, 2, 3)
		takeAll(t, h, 1, all)
		h.close()
		for _, p := range all {
			d := <-p.done
			assert.ErrorIs(t, d.err, cut, "%s: %+v", p.place, d)
		}
	})
}
