// SPDX-License-Identifier: Apache-2.0

package memory

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/KimMachineGun/automemlimit/memlimit"
	"github.com/stretchr/testify/assert"

	"github.com/kube-eventbridge/kube-eventbridge/internal/testlog"
)

// limited is a control group of which each answer is the next one, and what was set because of it.
type limited struct {
	answers []limitAnswer
	set     []int64
	logged  testlog.Text
}

type limitAnswer struct {
	bytes uint64
	err   error
}

func (l *limited) limit() *Limit {
	return &Limit{
		of: func() (uint64, error) {
			next := l.answers[0]
			l.answers = l.answers[1:]
			return next.bytes, next.err
		},
		set: func(n int64) int64 { l.set = append(l.set, n); return 0 },
		now: math.MaxInt64, log: slog.New(slog.NewTextHandler(&l.logged, &slog.HandlerOptions{Level: slog.LevelDebug})),
	}
}

func TestMemoryLimit_is_a_share_of_the_containers(t *testing.T) {
	for _, c := range []struct {
		bytes    uint64
		err      error
		set, log string
	}{
		{512 << 20, nil, "[483183820]", `msg="memory limit set" goMemLimit=483183820 limit=536870912`},
		{math.MaxUint64, nil, "[]", ""},
		{0, memlimit.ErrNoLimit, "[]", ""},
		{0, fmt.Errorf("look: %w", memlimit.ErrNoCgroup), "[]", ""},
		{0, memlimit.ErrCgroupsNotSupported, "[]", ""},
		{0, errors.New("broken"), "[]", `level=WARN msg="memory limit not read" err=broken`},
	} {
		l := &limited{answers: []limitAnswer{{c.bytes, c.err}}}
		l.limit().Apply()
		if got := fmt.Sprint(l.set); got != c.set || !strings.Contains(l.logged.String(), c.log) ||
			(c.log == "") != (l.logged.String() == "") {
			t.Errorf("%+v: set %s, logged %s", c, got, l.logged.String())
		}
	}
}

// What stays as it is would be told every minute.
func TestMemoryLimit_warns_once_of_why_it_cannot_be_read(t *testing.T) {
	broken, denied, read := limitAnswer{0, errors.New("broken")}, limitAnswer{0, errors.New("denied")},
		limitAnswer{100, nil}
	for name, c := range map[string]struct {
		answers []limitAnswer
		want    string
	}{
		"the same one":            {[]limitAnswer{broken, broken, broken}, "WARN DEBUG DEBUG"},
		"another one":             {[]limitAnswer{broken, denied, denied, broken}, "WARN WARN DEBUG WARN"},
		"the same after a limit":  {[]limitAnswer{broken, read, broken}, "WARN INFO WARN"},
		"the same after no limit": {[]limitAnswer{broken, {0, memlimit.ErrNoLimit}, broken}, "WARN WARN"},
	} {
		l := &limited{answers: c.answers}
		m := l.limit()
		for range c.answers {
			m.Apply()
		}
		var levels []string
		for _, found := range regexp.MustCompile(`level=(\w+)`).FindAllStringSubmatch(l.logged.String(), -1) {
			levels = append(levels, found[1])
		}
		assert.Equal(t, c.want, strings.Join(levels, " "), name)
	}
}

func TestMemoryLimit_follows_the_containers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		l := &limited{answers: []limitAnswer{
			{100, nil},
			{100, nil},
			{200, nil},
			{0, errors.New("broken")},
			{200, nil},
			{0, memlimit.ErrNoLimit},
		}}
		m, again := l.limit(), time.Duration(len(l.answers)-1)
		m.Apply()
		go m.Follow(ctx)
		<-time.After(again * memoryAgain)
		synctest.Wait()
		stop()
		synctest.Wait()
		assert.Equal(t, fmt.Sprint([]int64{90, 180, math.MaxInt64}), fmt.Sprint(l.set), "set")
	})
}

func TestMemoryLimit_is_the_environments_where_that_says_one(t *testing.T) {
	for value, want := range map[string]bool{"": true, "off": false, "1GiB": false} {
		t.Setenv("GOMEMLIMIT", value)
		m := NewLimit(nil)
		assert.Equal(t, want, m != nil, "GOMEMLIMIT=%q: follows", value)
	}
	var none *Limit
	none.Apply()
	none.Follow(t.Context()) // returns
}
