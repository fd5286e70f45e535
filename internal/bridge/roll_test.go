// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
)

// called is a roll of names that a test changes, and what is read of it.
type called struct {
	mu      sync.Mutex
	now     roll[string, string]
	changed chan struct{}
	// ends has what ends what is being read.
	ends   map[string]chan error
	events []string
}

func (c *called) call() roll[string, string] {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// set calls other names; nil: it is not known which.
func (c *called) set(names []string, over bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.changed != nil {
		defer close(c.changed)
	}
	c.changed = make(chan struct{})
	c.now = roll[string, string]{over: over, moved: c.changed}
	if names != nil {
		c.now.all = map[string]string{}
	}
	for _, name := range names {
		c.now.all[name] = name
	}
}

func (c *called) note(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.events = append(c.events, fmt.Sprintf(format, args...))
}

var errDone = errors.New("done")

func (c *called) read(ctx context.Context, name string, opened func()) (done bool, err error) {
	end := make(chan error)
	c.mu.Lock()
	c.ends[name] = end
	c.mu.Unlock()
	c.note("reads %s", name)
	if !strings.HasPrefix(name, "slow") {
		opened()
	}
	select {
	case err := <-end:
		if errors.Is(err, errDone) {
			return true, nil
		}
		return false, err
	case <-ctx.Done():
		return false, nil
	}
}

// expect checks what has happened, in any order, since it was asked last.
func (c *called) expect(t *testing.T, want ...string) {
	t.Helper()
	synctest.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	slices.Sort(c.events)
	assert.Equal(t, want, c.events)
	c.events = nil
}

func TestReadEach_reads_what_is_called_until_it_ends(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &called{ends: map[string]chan error{}}
		c.set(nil, false)
		ended := make(chan error, 1)
		go func() { ended <- readEach(t.Context(), c.call, c.read, func() { c.note("begun") }) }()
		c.expect(t)
		c.set([]string{"a", "slow b"}, false)
		c.expect(t, "reads a", "reads slow b")
		c.set([]string{"a", "slow b", "slow c"}, false)
		c.expect(t, "reads slow c")
		c.ends["slow b"] <- nil // it is open in a way
		c.expect(t, "begun")
		c.set([]string{"a", "slow b", "slow c", "slow d"}, false)
		c.expect(t, "reads slow d")
		<-time.After(recess)
		c.expect(t, "reads slow b")
		c.set([]string{"a"}, false)
		for _, name := range []string{"slow b", "slow c", "slow d"} {
			c.ends[name] <- nil
		}
		<-time.After(recess)
		c.expect(t)
		c.set([]string{"a", "slow b"}, false)
		c.expect(t, "reads slow b")
		c.ends["a"] <- errDone
		<-time.After(recess)
		c.expect(t)
		c.set([]string{"a", "d"}, false)
		c.expect(t, "reads d")
		c.ends["d"] <- errors.New("wrong")
		err := <-ended
		assert.True(t, err != nil && err.Error() == "wrong", "it ended with %v", err)
	})
}

// What ends at once is not read more often than twice a second.
func TestReadEach_rests_between_an_end_and_the_next_beginning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := must.Within(t, 10*time.Second)
		times := 0
		call := func() roll[string, string] { return roll[string, string]{all: map[string]string{"a": "a"}} }
		read := func(context.Context, string, func()) (bool, error) {
			times++
			return false, nil
		}
		if err := readEach(ctx, call, read, func() {}); err != nil || times < 19 || times > 21 {
			t.Errorf("it was read %d times in ten seconds, and ended with %v", times, err)
		}
	})
}

func TestReadEach_ends_when_all_that_was_read_has(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &called{ends: map[string]chan error{}}
		c.set([]string{"a", "b"}, false)
		ended := make(chan error, 1)
		go func() { ended <- readEach(t.Context(), c.call, c.read, func() { c.note("begun") }) }()
		c.expect(t, "begun", "reads a", "reads b")
		c.ends["b"] <- errDone // for good, and so nothing to wait for
		c.set([]string{"b"}, true)
		c.expect(t)
		c.ends["a"] <- nil
		assert.NoError(t, <-ended)
	})
}

// What ends for good in an edition is called again in the next one, also where its end is heard of only then.
func TestReadEach_calls_again_what_has_ended_in_an_edition_before(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &called{ends: map[string]chan error{}}
		c.set([]string{"a"}, false)
		calling, goOn, calls := make(chan struct{}), make(chan struct{}), 0
		call := func() roll[string, string] {
			now := c.call()
			switch calls++; {
			case calls == 2: // the next edition, before the end of a is heard of
				close(calling)
				<-goOn
				now.edition = 1
			case calls > 2:
				now.edition = 1
			}
			return now
		}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- readEach(ctx, call, c.read, func() {}) }()
		synctest.Wait()
		c.expect(t, "reads a")
		c.set([]string{"a"}, false)
		<-calling
		c.ends["a"] <- errDone
		close(goOn)
		synctest.Wait()
		c.expect(t, "reads a")
		stop()
		assert.NoError(t, <-ended)
	})
}
