// SPDX-License-Identifier: Apache-2.0

package kafka

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	"github.com/kube-eventbridge/kube-eventbridge/checkpoint/internal/session"
	"github.com/kube-eventbridge/kube-eventbridge/checkpoint/storetest"
	"github.com/kube-eventbridge/kube-eventbridge/internal/kafka/batch"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
	"github.com/kube-eventbridge/kube-eventbridge/internal/pause"
)

// What was not answered is sent again as it was, so that the broker can tell.
func TestCommit_repeats_the_same_bytes_under_the_same_sequence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, b := range []*checkpoint.Batch{manyRows(3, 1), manyRows(100, 1)} {
			f := newFake(3)
			f.settings[settingSize] = "1000"
			s := mustOpen(t.Context(), t, f)
			var sent []*fakeBatch
			f.fault = func(_ int, b *fakeBatch) fault {
				sent = append(sent, b)
				switch len(sent) % 3 {
				case 1:
					return fault{lose: true, err: kafkago.LeaderNotAvailable}
				case 2:
					return fault{err: kafkago.RequestTimedOut} // it arrives
				default:
					return fault{}
				}
			}
			before := len(f.logs[home(f)])
			require.NoError(t, s.Commit(t.Context(), b))
			storetest.MustHold(t.Context(), t, s, storetest.After(storetest.Empty(), b))
			if got, want := len(f.logs[home(f)])-before, len(sent)/3; got != want || len(sent)%3 != 0 {
				t.Errorf("%d batches arrived with %d requests, want %d", got, len(sent), want)
			}
			for i := 0; i+2 < len(sent); i += 3 {
				require.True(t, sameBatch(sent[i], sent[i+1]), "requests %d to %d differ", i, i+2)
				assert.True(t, sameBatch(sent[i], sent[i+2]), "requests %d to %d differ", i, i+2)
			}
		}
	})
}

func sameBatch(a, b *fakeBatch) bool {
	if a.Producer != b.Producer || a.Sequence != b.Sequence || len(a.Records) != len(b.Records) {
		return false
	}
	for i := range a.Records {
		if string(a.Records[i].Key) != string(b.Records[i].Key) || string(a.Records[i].Value) != string(b.Records[i].Value) {
			return false
		}
	}
	return true
}

func TestCommit_that_is_there_already_is_made(t *testing.T) {
	f, s := openNew(t, 3)
	f.fault = once(fault{err: kafkago.DuplicateSequenceNumber})
	commits(t, s, 1)
	commits(t, s, 2)
}

// Brokers do not tell their time, and have stored nothing of what they refuse for it.
func TestCommit_is_stamped_earlier_where_the_broker_refuses_its_time(t *testing.T) {
	f, s := openNew(t, 3)
	var sequences []int32
	f.fault = func(_ int, b *fakeBatch) fault {
		if sequences = append(sequences, b.Sequence); len(sequences) < 3 {
			return fault{lose: true, err: kafkago.InvalidTimestamp}
		}
		return fault{}
	}
	commits(t, s, 1)
	require.True(t, len(sequences) >= 3 && sequences[0] == sequences[1] && sequences[1] == sequences[2],
		"it was sent under the sequences %v", sequences)
	for n, sent := range f.unread {
		const atMaxTimestamp = 4 + 35
		stamp := time.UnixMilli(int64(binary.BigEndian.Uint64(sent[atMaxTimestamp:]))) //nolint:gosec // it is signed on the wire
		back := time.Since(stamp).Round(time.Hour)
		assert.Equal(t, time.Duration(n)*time.Hour, back, "attempt %d was stamped %v back", n+1, back)
	}
}

func TestCommit_waits_for_a_broker_that_is_away_and_then_says_so(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, s := openNew(t, 3)
		require.NoError(t, s.Commit(t.Context(), position(1)))

		f.away = errAway
		began := time.Now()
		err := s.Commit(t.Context(), position(2))
		if took := time.Since(began); !errors.Is(err, errAway) || checkpoint.IsPermanent(err) || took < session.Patience ||
			took > session.Patience+pause.LongestWait {
			t.Errorf("it ended after %v with %v", took, err)
		}
		short := must.Within(t, time.Second)
		began = time.Now()
		err = s.Commit(short, position(2))
		if took := time.Since(began); !errors.Is(err, errAway) || !errors.Is(err, context.DeadlineExceeded) ||
			took != time.Second {
			t.Errorf("it ended after %v with %v", took, err)
		}

		go func() {
			<-time.After(session.Patience / 2)
			f.mu.Lock()
			defer f.mu.Unlock()
			f.away = nil
		}()
		commits(t, s, 2)
	})
}

func TestOpen_waits_for_a_broker_that_is_away_and_then_says_so(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(3)
		f.away = errAway
		if _, err := openFake(t.Context(), f, Config{}, audit); !errors.Is(err, errAway) || checkpoint.IsPermanent(err) {
			t.Errorf("error %v, want that the broker is away", err)
		}
		go func() {
			<-time.After(session.Patience / 2)
			f.mu.Lock()
			defer f.mu.Unlock()
			f.away = nil
		}()
		storetest.MustHold(t.Context(), t, mustOpen(t.Context(), t, f), storetest.Empty())
	})
}

// A commit that failed is under way until another one has brought it to its end; what both named is then as the later
// one says.
func TestCommit_after_one_that_failed_comes_after_it(t *testing.T) {
	f, s := openNew(t, 3)
	stop, cancel := context.WithCancel(t.Context())
	f.fault = func(int, *fakeBatch) fault {
		cancel()
		return fault{lose: true, err: errAway}
	}
	require.ErrorIs(t, s.Commit(stop, position(1)), context.Canceled, "commit")
	f.fault = nil
	commits(t, s, 2)
	assert.EqualValues(t, 2, s.head.number, "commits")
}

// The topic's limit can be lower than is known, or become so.
func TestCommit_makes_smaller_batches_where_the_broker_takes_less(t *testing.T) {
	for _, forbidden := range []bool{false, true} {
		f := newFake(3)
		f.forbidden = map[string]bool{"DescribeConfigs": forbidden}
		s := mustOpen(t.Context(), t, f)
		f.settings[settingSize] = "20000"
		b := manyRows(5000, 1)
		require.NoError(t, s.Commit(t.Context(), b))
		storetest.MustHold(t.Context(), t, s, storetest.After(storetest.Empty(), b))
		assert.Empty(t, rubbishIn(f, storetest.After(storetest.Empty(), b)))
		requests := f.requests
		require.NoError(t, s.Commit(t.Context(), position(1)))
		assert.Equal(t, requests+1, f.requests, "it was tried %d times", f.requests-requests)
	}
}

func TestCommit_of_a_record_that_fits_no_batch_says_what_to_do(t *testing.T) {
	f := newFake(3)
	f.settings[settingSize] = "2000"
	s := mustOpen(t.Context(), t, f)
	b := position(1)
	b.Streams["pods.v1"] = checkpoint.Stream{Fingerprint: strings.Repeat("x", 2000)}
	for range 2 {
		err := s.Commit(t.Context(), b)
		assert.True(t, err != nil && strings.Contains(err.Error(), "raise max.message.bytes"), "commit: %v", err)
	}
	commits(t, s, 2)
	f.settings[settingSize] = "50"
	assert.Error(t, s.Commit(t.Context(), position(3)), "50 bytes were enough")
}

func TestCommit_compresses(t *testing.T) {
	plain := 0
	for _, c := range compressions { // none is the first
		f := newFake(3)
		s := must.Get(openFake(t.Context(), f, Config{Compression: c}, audit))(t)
		b := manyRows(20_000, 1)
		require.NoError(t, s.Commit(t.Context(), b))
		storetest.MustHold(t.Context(), t, s, storetest.After(storetest.Empty(), b))
		if c == batch.None {
			plain = f.bytes
		} else if f.bytes > plain/2 {
			t.Errorf("%s makes %d bytes of %d", c, f.bytes, plain)
		}
	}
}

func TestCommit_writes_what_changed(t *testing.T) {
	f, s := openNew(t, 3)
	b := manyRows(5000, 1)
	b.Streams = map[string]checkpoint.Stream{}
	for n := range 5000 {
		b.Streams[fmt.Sprint("pods.v1/namespace-", n)] = checkpoint.Stream{Position: "1"}
	}
	require.NoError(t, s.Commit(t.Context(), b))
	f.bytes, f.requests, f.fetches = 0, 0, 0
	require.NoError(t, s.Commit(t.Context(), &checkpoint.Batch{
		Identity: audit, Streams: map[string]checkpoint.Stream{"pods.v1/namespace-7": {Position: "2"}},
	}))
	assert.Less(t, f.bytes, 500)
	assert.Equal(t, 1, f.requests)
	assert.Zero(t, f.fetches)
}

// Whatever a commit's size, a store keeps little memory between commits.
func TestStore_keeps_little_memory(t *testing.T) {
	_, s := openNew(t, 3)
	require.NoError(t, s.Commit(t.Context(), manyRows(60_000, 1)))
	assert.LessOrEqual(t, cap(s.value), keptAfter, "it keeps %d and %d bytes", cap(s.value), cap(s.chunk))
	assert.LessOrEqual(t, cap(s.chunk), keptAfter, "it keeps %d and %d bytes", cap(s.value), cap(s.chunk))
	require.Nil(t, s.litter, "it keeps what it does not need")
	assert.Nil(t, s.opened, "it keeps what it does not need")
}

// A connection that is given up may still read what it was to send.
func TestCommit_does_not_touch_what_a_connection_may_still_read(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(3)
		f.settings[settingSize] = "2000"
		s := mustOpen(t.Context(), t, f)
		f.fault = func(n int, _ *fakeBatch) (out fault) {
			if n%2 == 0 {
				out = fault{lose: true, err: errAway}
			}
			return out
		}
		var then []string
		for n := range 20 {
			require.NoError(t, s.Commit(t.Context(), manyRows(1+n*5, n)))
			for _, sized := range f.unread[len(then):] {
				then = append(then, string(sized))
			}
		}
		for i, sized := range f.unread {
			require.Equal(t, then[i], string(sized), "lost request %d of %d has changed since", i, len(then))
		}
	})
}

// A partition that ends before what it had acknowledged is not waited for without an end.
func TestLoad_of_a_log_that_went_back_ends(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, s := openNew(t, 3)
		require.NoError(t, s.Commit(t.Context(), position(1)))
		p := home(f)
		f.logs[p] = f.logs[p][:1]
		if _, err := s.Load(t.Context()); err == nil || !strings.Contains(err.Error(), "it ends at offset 2, and has had 4") {
			t.Errorf("load: error %v, want where it ends", err)
		}
	})
}

// A store may be used by several goroutines.
func TestStore_is_for_many_goroutines(t *testing.T) {
	_, s := openNew(t, 3)
	done := make(chan error, 8)
	for i := range cap(done) {
		go func() {
			var err error
			for n := range 20 {
				if i%2 == 0 {
					err = errors.Join(err, s.Commit(t.Context(), position(n)))
				} else {
					_, e := s.Load(t.Context())
					err = errors.Join(err, e)
				}
			}
			done <- err
		}()
	}
	for range cap(done) {
		assert.NoError(t, <-done)
	}
	storetest.MustHold(t.Context(), t, s, at(19))
}

// What a caller commits is read only while Commit runs.
func TestCommit_does_not_keep_the_batch(t *testing.T) {
	f := newFake(3)
	f.settings[settingSize] = "900"
	s := mustOpen(t.Context(), t, f)
	random := rand.New(rand.NewPCG(1, 1))
	for range 100 {
		b := storetest.SomeBatch(random)
		want := storetest.After(must.Get(s.Load(t.Context()))(t), b)
		stop, cancel := context.WithCancel(t.Context())
		at := f.requests + 1 + random.IntN(10)
		f.fault = func(n int, _ *fakeBatch) (out fault) {
			if n == at {
				cancel()
				out = fault{err: errAway}
			}
			return out
		}
		err := s.Commit(stop, b)
		cancel()
		f.fault = nil
		for _, rows := range b.Put {
			clear(rows)
		}
		clear(b.Streams)
		clear(b.Drop)
		if err != nil {
			continue
		}
		require.Equal(t, want, must.Get(s.Load(t.Context()))(t), "the checkpoint holds")
	}
}

// Who opens it tries again by itself, and wants to know soon.
func TestOpen_is_as_patient_as_it_is_told(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(3)
		f.away = errAway
		began := time.Now()
		_, err := openFake(t.Context(), f, Config{Patience: time.Second}, audit)
		took := time.Since(began)
		assert.True(t, errors.Is(err, errAway) && took == time.Second, "it ended after %v with %v", took, err)
		f.away = nil
		s := must.Get(openFake(t.Context(), f, Config{Patience: time.Second}, audit))(t)
		f.away = errAway
		began = time.Now()
		if err := s.Commit(t.Context(), position(1)); !errors.Is(err, errAway) || time.Since(began) < session.Patience {
			t.Errorf("a commit ended after %v with %v", time.Since(began), err)
		}
	})
}

// Of an opening store, only the barrier does not get through.
func TestOpen_is_no_more_patient_with_its_barrier(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(3)
		f.fault = func(int, *fakeBatch) fault { return fault{lose: true, err: errAway} }
		began := time.Now()
		_, err := openFake(t.Context(), f, Config{Patience: time.Second}, audit)
		took := time.Since(began)
		assert.True(t, errors.Is(err, errAway) && took == time.Second, "it ended after %v with %v", took, err)
	})
}

// Whatever a commit has to do before, as when it needs another epoch.
func TestCommit_is_patient_with_each_of_its_steps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(3)
		s := must.Get(openFake(t.Context(), f, Config{Patience: time.Second}, audit))(t)
		f.fault = func(int, *fakeBatch) fault { return fault{lose: true, err: kafkago.OutOfOrderSequenceNumber} }
		require.Error(t, s.Commit(t.Context(), position(1)), "it did not fail")
		f.fault, f.away = nil, errAway
		began := time.Now()
		if err := s.Commit(t.Context(), position(1)); !errors.Is(err, errAway) || time.Since(began) != session.Patience {
			t.Errorf("it ended after %v with %v", time.Since(began), err)
		}
	})
}
