// SPDX-License-Identifier: Apache-2.0

package watching

import (
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge/health"
	"github.com/kube-eventbridge/kube-eventbridge/internal/testlog"
	"github.com/kube-eventbridge/kube-eventbridge/source"
)

// A resource that stays missing is looked for less and less often. One that was there meanwhile is looked for at once.
func TestStatus_looks_more_and_more_seldom_for_what_is_missing(t *testing.T) {
	st := New(Config{Refresh: func() {}})
	now, looks := time.Now(), 0
	for range 3600 {
		before := st.asked
		st.missed(now)
		if st.asked != before {
			looks++
		}
		now = now.Add(time.Second)
	}
	assert.GreaterOrEqual(t, looks, 30, "looks in an hour")
	assert.LessOrEqual(t, looks, 45, "looks in an hour")
	st.doubt = 0 // as when it watches
	if st.missed(now); st.asked != now {
		t.Error("it does not look at once when something new is missing")
	}
}

// A stream that has watched may wait for a while, and is ready; one that has not is not.
func TestStatus_is_ready_for_a_while_without_its_watch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := New(Config{Log: slog.New(slog.DiscardHandler), Incidents: &health.StreamIncidents{}})
		gone := errors.New("gone")
		st.State(source.Listing, gone)
		assert.Equal(t, "gone", st.Ready(), "before it has watched")
		st.State(source.Watching, nil)
		assert.Empty(t, st.Ready())
		st.State(source.Watching, gone)
		<-time.After(health.UnreadyAfter)
		assert.Empty(t, st.Ready())
		<-time.After(1)
		assert.Equal(t, "gone", st.Ready())
		st.State(source.Watching, nil)
		assert.Empty(t, st.Ready())
	})
}

// The same of many streams, again and again, would be a log of nothing else.
func TestStatus_of_a_wildcard_says_once_why_a_stream_waits(t *testing.T) {
	for name, c := range map[string]struct {
		wildcard bool
		want     int
	}{
		"of a name": {false, 2}, "of a wildcard": {true, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				logged := &testlog.Text{}
				st := New(Config{
					Log: logged.Logger(), Incidents: &health.StreamIncidents{}, Wildcard: c.wildcard,
				})
				for range 2 {
					st.State(source.Listing, errors.New("not permitted"))
					<-time.After(health.UnreadyAfter)
				}
				assert.Equal(t, c.want, logged.Count("not permitted"), logged.String())
				st.State(source.Listing, errors.New("no route"))
				assert.Equal(t, 1, logged.Count("no route"), "another reason is news")
			})
		})
	}
}
