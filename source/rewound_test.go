// SPDX-License-Identifier: Apache-2.0

package source

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
)

var (
	publishedAt21 = []Ident{known("old", "u-o", 2), known("a", "u-a", 20), known("b", "u-b", 18)}
	restored      = []write{
		{rev: 2, name: "old", uid: "u-o"},
		{rev: 7, name: "a", uid: "u-a"},
		{rev: 8, name: "b", uid: "u-b"},
	}
)

// foreign are histories that are not the one that was published up to version 21, and what gives them away.
var foreign = map[string]struct {
	writes []write
	known  []Ident
	want   RewoundError
	text   string
}{
	"an object is older": {
		restored, publishedAt21,
		RewoundError{Object: "default/a", Position: "20", At: "21", Server: "7"},
		"stream configmaps.v1: object default/a was at resourceVersion 20 and the API server has it at 7, read as of 21: " +
			"its etcd was restored or replaced",
	},
	"an object is not there": {
		restored[:1], publishedAt21,
		RewoundError{Object: "default/a", Position: "20", At: "21"},
		"stream configmaps.v1: object default/a was at resourceVersion 20 and the API server has nothing, read as of 21: " +
			"its etcd was restored or replaced",
	},
	"an object is another one": {
		append(slices.Clone(restored), write{rev: 20, name: "a", uid: "u-x"}), publishedAt21,
		RewoundError{Object: "default/a", Position: "20", At: "21", Server: "20", Replaced: true},
		"stream configmaps.v1: object default/a was at resourceVersion 20 and the API server has another object of that " +
			"name, at 20, read as of 21: its etcd was restored or replaced",
	},
	"an object is newer, and was not written then": {
		append(slices.Clone(restored), write{rev: 21, name: "a", uid: "u-a"}), publishedAt21,
		RewoundError{Object: "default/a", Position: "20", At: "20", Server: "7"},
		"",
	},
	"only the second is older": {
		append(slices.Clone(restored), write{rev: 20, name: "a", uid: "u-a"}), publishedAt21,
		RewoundError{Object: "default/b", Position: "18", At: "21", Server: "8"},
		"",
	},
	"what was published ahead of the position never was": {
		restored, append(slices.Clone(publishedAt21), known("c", "u-c", 22), known("d", "u-d", 23)),
		RewoundError{Object: "default/d", Position: "23", At: "23"},
		"",
	},
}

// An etcd that was restored, and has passed the position since, is at a version that says nothing. What it has there
// does.
func TestReader_ends_where_the_history_is_another_one(t *testing.T) {
	for name, c := range foreign {
		c.want.Stream = "configmaps.v1"
		must.RunInBubble(t, name+", at the start", func(t *testing.T) {
			server := newCluster(t, 60, c.writes...)
			server.oldest = 1
			r := &recorder{resume: "21", known: c.known}
			got, err := runAt(server, r, enough, minutes(10))
			var rewound *RewoundError
			assert.True(t, errors.As(err, &rewound) && *rewound == c.want && len(got) <= 0 && server.watches() <= 0,
				"error is %+v after %v, want %+v", err, got, c.want)
			assert.True(t, c.text == "" || fmt.Sprint(err) == c.text, "it says %q, want %q", err, c.text)
		})
		must.RunInBubble(t, name+", between two watches", func(t *testing.T) {
			server := newCluster(t, 60, c.writes...)
			server.fault = func(n int, q url.Values) *step {
				switch {
				case server.watches() == 0 && q.Get("resourceVersionMatch") != "":
					return &step{status: http.StatusGone, body: expiredStatus}
				case server.watches() == 1 && q.Get("watch") != "":
					return &step{cut: true}
				}
				return nil
			}
			r := &recorder{resume: "21", known: c.known}
			_, err := runAt(server, r, enough, minutes(10))
			var rewound *RewoundError
			assert.True(t, errors.As(err, &rewound) && *rewound == c.want && server.watches() == 1,
				"error is %v, want %+v", err, c.want)
		})
	}
}

// What was published is ahead of the position, and its end is no object that could be looked for. The server has not
// come so far.
func TestReader_ends_where_the_server_is_older_than_what_was_published(t *testing.T) {
	for reached, want := range map[string]string{"61": "61", "60": "", "": ""} {
		must.RunInBubble(t, reached, func(t *testing.T) {
			server := newCluster(t, 60)
			r := &recorder{resume: "21"}
			began := time.Now()
			_, err := runReader(t, Reader{
				Client: clientOf(t, server.script), Stream: configMaps, Reached: func() string { return reached },
			}, r, func() bool { return server.watches() > 0 || time.Since(began) > time.Minute })
			var rewound *RewoundError
			if errors.As(err, &rewound) {
				assert.Equal(t, "60", rewound.Server)
				assert.Equal(t, want, rewound.Position)
			} else {
				assert.Empty(t, want, "error %v", err)
			}
		})
	}
}

func TestReader_goes_on_where_nothing_says_that_the_history_is_another_one(t *testing.T) {
	writes := []write{
		{rev: 2, name: "old", uid: "u-o"},
		{rev: 18, name: "b", uid: "u-b"},
		{rev: 20, name: "a", uid: "u-a"},
		{rev: 22, name: "b", uid: "u-b"},
	}
	published := []Ident{known("a", "u-a", 20), known("b", "u-b", 18), known("old", "u-o", 2)}
	answer := func(st step) func(int, url.Values) *step {
		return func(_ int, q url.Values) *step {
			if q.Get("resourceVersionMatch") == "" {
				return nil
			}
			return &st
		}
	}
	for name, c := range map[string]struct {
		known []Ident
		fault func(int, url.Values) *step
		// reads is how many objects may be asked for.
		reads int
	}{
		"because it is ours":                        {published, nil, 2},
		"because it is ours, and has one object":    {published[:1], nil, 1},
		"because nothing is known":                  {nil, nil, 0},
		"because what is ahead of the position was": {[]Ident{known("b", "u-b", 18), known("a", "u-a", 20)}, nil, 2},
		"because a change was folded into another":  {[]Ident{known("a", "u-a", 20), known("b", "u-b", 17)}, nil, 3},
		"because versions are no numbers": {[]Ident{{
			Namespace: "default", Name: "a", UID: "u-a",
			ResourceVersion: "x",
		}}, nil, 0},
		"because the history is gone": {
			published, answer(step{status: http.StatusGone, body: expiredStatus}),
			2,
		},
		"because it knows no exact lists":  {published, answer(step{status: http.StatusBadRequest}), 2},
		"because it sends its newest list": {published, answer(step{body: listOf("60", "")}), 2},
		"because it ignores the selector": {
			published, answer(step{body: listOf("21", "t", cm("old", "u-o", "2"))}),
			2,
		},
		"because it has not looked at all of it": {published, answer(step{body: listOf("21", "t")}), 2},
		"because it may not be asked":            {published, answer(step{status: http.StatusForbidden}), 2 * checkTries},
		"because it fails": {
			published, answer(step{status: http.StatusInternalServerError}),
			2 * checkTries,
		},
		"because it always asks to wait": {
			published, answer(step{status: http.StatusTooManyRequests}),
			2 * checkTries,
		},
		"because it does not end": {published, answer(step{mute: true, body: "{"}), 1},
		"because of an object without a version": {
			published,
			answer(step{body: listOf("21", "", nameless["resourceVersion"])}), 2,
		},
		"because of an object of a later version": {
			published, answer(step{body: listOf("21", "", cm("a", "u-a", "30"))}),
			2,
		},
		"because of an answer with several objects": {
			published,
			answer(step{body: listOf("21", "", cm("a", "u-a", "20"), cm("a", "u-a", "20"))}), 2,
		},
	} {
		must.RunInBubble(t, name, func(t *testing.T) {
			server := newCluster(t, 60, writes...)
			if strings.Contains(name, "folded") {
				server.writes = append([]write{{rev: 17, name: "b", uid: "u-b"}}, writes...)
				slices.SortFunc(server.writes, func(a, b write) int { return a.rev - b.rev })
			}
			server.oldest, server.fault = 1, c.fault
			r := &recorder{resume: "21", known: c.known}
			got, err := runAt(server, r, enough, until(r, "updated b@22 watch"))
			check(t, got, "updated b@22 watch")
			require.NoError(t, err)
			assert.LessOrEqual(t, len(server.reads()), c.reads, "after the reads %v", server.reads())
		})
	}
}

// Between two attempts the API server can be exchanged: all that was seen before counts no more.
func TestReader_asks_all_again_where_the_connection_broke(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newCluster(t, 60, write{rev: 20, name: "a", uid: "u-a"})
		server.oldest, server.fault = 1, func(n int, q url.Values) *step {
			switch {
			case n == 1:
				return &step{cut: true}
			case n > 1 && q.Get("resourceVersionMatch") == "":
				return &step{body: listOf("15", "")}
			}
			return nil
		}
		r := &recorder{resume: "21", known: []Ident{known("a", "u-a", 20)}}
		_, err := runAt(server, r, enough, minutes(10))
		var rewound *RewoundError
		if !errors.As(err, &rewound) || rewound.Server != "15" || server.watches() > 0 {
			t.Errorf("error is %v after %d watches, want that the server was rewound to 15", err, server.watches())
		}
		want := "stream configmaps.v1 was at resourceVersion 21 and the API server is at 15: its etcd was restored or " +
			"replaced"
		assert.Equal(t, want, fmt.Sprint(err), "it says %q", err)
	})
}

func TestReader_ends_where_the_far_side_finds_another_history(t *testing.T) {
	for _, kind := range []ProgressKind{SnapshotStarted, Gap, Listed} {
		must.RunInBubble(t, fmt.Sprint("kind ", kind), func(t *testing.T) {
			server := newCluster(t, 60, write{rev: 20, name: "a", uid: "u-a"})
			r := &recorder{}
			if kind == Gap {
				r.resume = "5"
			}
			found := &RewoundError{Stream: "configmaps.v1", Object: "default/a", Position: "30", Server: "20"}
			r.refuse = func(p Progress) error {
				if p.Kind == kind {
					return fmt.Errorf("the log knows better: %w", found)
				}
				return nil
			}
			begin := time.Now()
			_, err := runAt(server, r, enough, minutes(10))
			var rewound *RewoundError
			if !errors.As(err, &rewound) || rewound != found || time.Since(begin) > time.Minute || r.told("waiting") > 0 {
				t.Errorf("error is %v after %v, want the far side's; states %v", err, time.Since(begin), r.states)
			}
		})
	}
}

// What a watch has shown last may not be published yet, so the far side does not know it. It was there nevertheless.
func TestReader_ends_where_what_a_watch_has_shown_never_was(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newCluster(t, 60)
		server.oldest = 1
		server.fault = func(_ int, q url.Values) *step {
			if q.Get("watch") != "" && server.watches() == 1 {
				return &step{body: frameOf("ADDED", cm("b", "u-b", "30")), cut: true}
			}
			return nil
		}
		r := &recorder{resume: "21"}
		got, err := runAt(server, r, enough, minutes(10))
		var rewound *RewoundError
		want := (RewoundError{Stream: "configmaps.v1", Object: "default/b", Position: "30", At: "30"})
		assert.True(t, errors.As(err, &rewound) && *rewound == want, "error is %v after %v, want %v", err, got, &want)
		check(t, got, "added b@30 watch")
	})
}
