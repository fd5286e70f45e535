// SPDX-License-Identifier: Apache-2.0

package sink_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
	"github.com/kube-eventbridge/kube-eventbridge/sink"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var errAway = errors.New("the broker is away")

// script is a broker that answers as told: answer is asked for each call, with its number from 0.
type script struct {
	mu     sync.Mutex
	calls  []call
	answer func(n int, m *sink.Message) (sink.Receipt, error)
	delay  time.Duration
}

type call struct {
	at     time.Time
	id     string
	verify bool
}

func (s *script) Publish(_ context.Context, m *sink.Message, done sink.Done) {
	s.mu.Lock()
	n := len(s.calls)
	s.calls = append(s.calls, call{time.Now(), m.ID, m.Verify})
	rc, err := s.answer(n, m)
	s.mu.Unlock()
	if s.delay == 0 {
		done(rc, err)
		return
	}
	time.AfterFunc(s.delay, func() { done(rc, err) })
}

func (s *script) made() []call {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.calls)
}

func fails(times int, err error) func(int, *sink.Message) (sink.Receipt, error) {
	return func(n int, _ *sink.Message) (sink.Receipt, error) {
		if n < times {
			return sink.Receipt{}, err
		}
		return sink.Receipt{Sequence: uint64(n)}, nil
	}
}

// running runs r until the returned function is called.
func running(t *testing.T, r *sink.Retrier) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	synctest.Wait()
	return func() {
		cancel()
		assert.NoError(t, <-ended, "Run")
	}
}

type outcome struct {
	rc  sink.Receipt
	err error
}

func TestRetry_settles_what_the_broker_answered_for_good(t *testing.T) {
	conflict := &sink.ConflictError{Last: &sink.Stored{ID: "x"}}
	tests := map[string]struct {
		err     error
		retried bool
	}{
		"accepted":          {nil, false},
		"never taken":       {sink.Permanent(errors.New("too large")), false},
		"conflict":          {conflict, false},
		"wrapped conflict":  {fmt.Errorf("publish: %w", conflict), false},
		"away":              {errAway, true},
		"deadline of a try": {context.DeadlineExceeded, true},
	}
	for name, tt := range tests {
		must.RunInBubble(t, name, func(t *testing.T) {
			s := &script{answer: fails(1, tt.err)}
			r := sink.Retry(s, sink.Policy{})
			defer running(t, r)()
			got := make(chan outcome, 2)
			r.Publish(t.Context(), &sink.Message{ID: "a"}, func(rc sink.Receipt, err error) { got <- outcome{rc, err} })
			<-time.After(time.Minute)
			n := len(got)
			require.Equal(t, 1, n, "done was called %d times", n)
			want := 1
			if tt.retried {
				want = 2
			}
			assert.Len(t, s.made(), want, "published %d times", len(s.made()))
			if o := <-got; !tt.retried && !errors.Is(o.err, tt.err) || tt.retried && o.err != nil {
				t.Errorf("settled with %v", o.err)
			}
		})
	}
}

func TestRetry_waits_longer_each_time_and_afresh_after_a_success(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{answer: fails(12, errAway)}
		var causes []error
		r := sink.Retry(s, sink.Policy{OnRetry: func(_ *sink.Message, err error) { causes = append(causes, err) }})
		defer running(t, r)()
		publish := func() {
			got := make(chan outcome, 1)
			r.Publish(t.Context(), &sink.Message{ID: "a"}, func(rc sink.Receipt, err error) { got <- outcome{rc, err} })
			<-got
		}
		publish()
		require.Len(t, causes, 12, "OnRetry was told")
		assert.ErrorIs(t, causes[0], errAway, "OnRetry was told")
		want := 50 * time.Millisecond
		calls := s.made()
		for i := 1; i < len(calls); i++ {
			d := calls[i].at.Sub(calls[i-1].at)
			assert.True(t, d >= want/2-1 && d <= want, "wait %d took %v, want %v to %v", i, d, want/2, want)
			want = min(2*want, 5*time.Second)
		}
		last := len(calls)
		s.mu.Lock()
		s.answer = fails(last+1, errAway)
		s.mu.Unlock()
		publish()
		calls = s.made()
		assert.LessOrEqual(t, calls[last+1].at.Sub(calls[last].at), 50*time.Millisecond,
			"after a success the wait took")
	})
}

// What fails while others wait shares their wait, and does not lengthen the next one.
func TestRetry_waits_as_often_as_the_broker_fails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const silence = time.Minute // until the broker's failure shows
		s := &script{answer: fails(4, errAway), delay: silence}
		r := sink.Retry(s, sink.Policy{Initial: time.Second})
		defer running(t, r)()
		got := make(chan outcome, 2)
		for _, id := range []string{"a", "b"} {
			r.Publish(t.Context(), &sink.Message{ID: id}, func(rc sink.Receipt, err error) { got <- outcome{rc, err} })
			<-time.After(100 * time.Millisecond)
		}
		<-got
		<-got
		calls := s.made()
		if d := calls[4].at.Sub(calls[2].at) - silence; len(calls) != 6 || d < time.Second-1 || d > 2*time.Second {
			t.Errorf("the second wait took %v, %d calls", d, len(calls))
		}
	})
}

func TestRetry_verifies_what_may_have_arrived(t *testing.T) {
	for _, shared := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s := &script{answer: fails(1, errAway)}
			r := sink.Retry(s, sink.Policy{})
			defer running(t, r)()
			got := make(chan outcome, 1)
			r.Publish(t.Context(), &sink.Message{ID: "a", Shared: shared},
				func(rc sink.Receipt, err error) { got <- outcome{rc, err} })
			<-got
			if calls := s.made(); calls[0].verify || calls[1].verify == shared {
				t.Errorf("shared %v: verified %v, then %v", shared, calls[0].verify, calls[1].verify)
			}
		})
	}
}

// One wait for all: what the broker is spared does not depend on how many messages there are.
func TestRetry_backs_off_for_the_sink_and_not_for_the_message(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{delay: time.Millisecond, answer: fails(3, errAway)}
		r := sink.Retry(s, sink.Policy{Initial: time.Second})
		defer running(t, r)()
		got := make(chan outcome, 9)
		done := func(rc sink.Receipt, err error) { got <- outcome{rc, err} }
		for _, id := range []string{"a", "b", "c"} {
			r.Publish(t.Context(), &sink.Message{ID: id}, done)
		}
		<-time.After(2 * time.Millisecond)
		start := time.Now()
		r.Publish(t.Context(), &sink.Message{ID: "d"}, done)
		assert.GreaterOrEqual(t, time.Since(start), 400*time.Millisecond, "a new message waited")
		for range 4 {
			<-got
		}
		var ids []string
		for _, c := range s.made() {
			ids = append(ids, c.id)
		}
		slices.Sort(ids)
		assert.Equal(t, []string{"a", "a", "b", "b", "c", "c", "d"}, ids, "published")
	})
}

// The broker takes one message, and not another.
func TestRetry_says_which_message_fails_longest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		full := true
		to := &script{answer: func(_ int, m *sink.Message) (sink.Receipt, error) {
			if full && m.ID != "taken" {
				return sink.Receipt{}, errors.New(m.ID)
			}
			return sink.Receipt{Sequence: 1}, nil
		}}
		r := sink.Retry(to, sink.Policy{Max: time.Second})
		stop := running(t, r)
		_, cause := r.Failing()
		assert.NoError(t, cause)
		began := time.Now()
		var open sync.WaitGroup
		publish := func(id string) {
			open.Add(1)
			r.Publish(t.Context(), &sink.Message{ID: id}, func(sink.Receipt, error) { open.Done() })
		}
		publish("first")
		<-time.After(10 * time.Second)
		publish("second")
		publish("taken")
		<-time.After(10 * time.Second)
		since, cause := r.Failing()
		assert.Equal(t, began, since)
		assert.EqualError(t, cause, "first")
		to.mu.Lock()
		full = false
		to.mu.Unlock()
		open.Wait()
		since, cause = r.Failing()
		assert.True(t, cause == nil && since.IsZero(), "%v since %v", cause, since)
		to.mu.Lock()
		full = true
		to.mu.Unlock()
		publish("third")
		<-time.After(time.Second)
		_, cause = r.Failing()
		assert.EqualError(t, cause, "third")
		stop()
		open.Wait()
		_, cause = r.Failing()
		assert.NoError(t, cause)
	})
}

func TestRetry_ends_with_the_context(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{answer: fails(1<<30, errAway)}
		r := sink.Retry(s, sink.Policy{})
		got := make(chan outcome, 9)
		done := func(rc sink.Receipt, err error) { got <- outcome{rc, err} }
		early := must.Within(t, time.Millisecond)
		r.Publish(early, &sink.Message{ID: "early"}, done)
		o := <-got
		assert.True(t, errors.Is(o.err, context.DeadlineExceeded) && len(s.made()) == 0, "before Run: %v", o.err)
		stop := running(t, r)
		r.Publish(t.Context(), &sink.Message{ID: "a"}, done)
		impatient := must.Within(t, time.Millisecond)
		r.Publish(impatient, &sink.Message{ID: "b"}, done)
		o = <-got
		assert.ErrorIs(t, o.err, context.DeadlineExceeded, "a caller without patience was told")
		go r.Publish(context.WithoutCancel(t.Context()), &sink.Message{ID: "c"}, done)
		synctest.Wait()
		stop()
		r.Publish(t.Context(), &sink.Message{ID: "d"}, done)
		for range 3 {
			o := <-got
			assert.ErrorIs(t, o.err, context.Canceled, "at the end")
		}
		synctest.Wait()
		assert.Equal(t, 0, len(got), "done was called %d times too often", len(got))
	})
}

// Whatever fails how often: each message is settled once, with what the broker said last.
func TestRetry_settles_every_message_once(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		failures := rapid.SliceOfN(rapid.IntRange(0, 4), 1, 30).Draw(rt, "failures")
		delay := rapid.SampledFrom([]time.Duration{0, time.Millisecond}).Draw(rt, "delay")
		synctest.Test(t, func(t *testing.T) {
			left := map[string]int{}
			s := &script{delay: delay, answer: func(n int, m *sink.Message) (sink.Receipt, error) {
				if left[m.ID]--; left[m.ID] >= 0 {
					return sink.Receipt{}, errAway
				}
				return sink.Receipt{Sequence: uint64(n + 1)}, nil
			}}
			r := sink.Retry(s, sink.Policy{})
			settled := make(chan string, 2*len(failures))
			for i, n := range failures {
				left[fmt.Sprint(i)] = n
			}
			stop := running(t, r)
			for i := range failures {
				id := fmt.Sprint(i)
				r.Publish(t.Context(), &sink.Message{ID: id}, func(_ sink.Receipt, err error) {
					assert.NoError(t, err, id)
					settled <- id
				})
			}
			seen := map[string]bool{}
			for range failures {
				seen[<-settled] = true
			}
			stop()
			require.Len(t, seen, len(failures), "settled %d, too often", len(seen))
			assert.Equal(t, 0, len(settled), "settled %d, too often", len(seen))
		})
	})
}
