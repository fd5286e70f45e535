// SPDX-License-Identifier: Apache-2.0

package reader

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
	"github.com/kube-eventbridge/kube-eventbridge/source"
	"github.com/kube-eventbridge/kube-eventbridge/source/kube/kubetest"
)

var (
	publishedAt21 = []source.Ident{known("old", "u-o", 2), known("a", "u-a", 20), known("b", "u-b", 18)}
	restored      = []kubetest.Write{
		{Rev: 2, Name: "old", UID: "u-o"},
		{Rev: 7, Name: "a", UID: "u-a"},
		{Rev: 8, Name: "b", UID: "u-b"},
	}
)

// foreign are histories that are not the one that was published up to version 21, and what gives them away.
var foreign = map[string]struct {
	writes []kubetest.Write
	known  []source.Ident
	want   source.RewoundError
	text   string
}{
	"an object is older": {
		restored, publishedAt21,
		source.RewoundError{Object: "default/a", Position: "20", At: "21", Server: "7"},
		"stream configmaps.v1: object default/a was at resourceVersion 20 and the API server has it at 7, read as of 21: " +
			"its etcd was restored or replaced",
	},
	"an object is not there": {
		restored[:1], publishedAt21,
		source.RewoundError{Object: "default/a", Position: "20", At: "21"},
		"stream configmaps.v1: object default/a was at resourceVersion 20 and the API server has nothing, read as of 21: " +
			"its etcd was restored or replaced",
	},
	"an object is another one": {
		append(slices.Clone(restored), kubetest.Write{Rev: 20, Name: "a", UID: "u-x"}), publishedAt21,
		source.RewoundError{Object: "default/a", Position: "20", At: "21", Server: "20", Replaced: true},
		"stream configmaps.v1: object default/a was at resourceVersion 20 and the API server has another object of that " +
			"name, at 20, read as of 21: its etcd was restored or replaced",
	},
	"an object is newer, and was not written then": {
		append(slices.Clone(restored), kubetest.Write{Rev: 21, Name: "a", UID: "u-a"}), publishedAt21,
		source.RewoundError{Object: "default/a", Position: "20", At: "20", Server: "7"},
		"",
	},
	"only the second is older": {
		append(slices.Clone(restored), kubetest.Write{Rev: 20, Name: "a", UID: "u-a"}), publishedAt21,
		source.RewoundError{Object: "default/b", Position: "18", At: "21", Server: "8"},
		"",
	},
	"what was published ahead of the position never was": {
		restored, append(slices.Clone(publishedAt21), known("c", "u-c", 22), known("d", "u-d", 23)),
		source.RewoundError{Object: "default/d", Position: "23", At: "23"},
		"",
	},
}

// An etcd that was restored, and has passed the position since, is at a version that says nothing. What it has there
// does.
func TestReader_ends_where_the_history_is_another_one(t *testing.T) {
	for name, c := range foreign {
		c.want.Stream = "configmaps.v1"
		must.RunInBubble(t, name+", at the start", func(t *testing.T) {
			server := kubetest.NewCluster(t, 60, c.writes...)
			server.Oldest = 1
			r := &recorder{resume: "21", known: c.known}
			got, err := runAt(server, r, enough, minutes(10))
			var rewound *source.RewoundError
			assert.True(t, errors.As(err, &rewound) && *rewound == c.want && len(got) <= 0 && server.Watches() <= 0,
				"error is %+v after %v, want %+v", err, got, c.want)
			assert.True(t, c.text == "" || fmt.Sprint(err) == c.text, "it says %q, want %q", err, c.text)
		})
		must.RunInBubble(t, name+", between two watches", func(t *testing.T) {
			server := kubetest.NewCluster(t, 60, c.writes...)
			server.Fault = func(n int, q url.Values) *kubetest.Step {
				switch {
				case server.Watches() == 0 && q.Get("resourceVersionMatch") != "":
					return &kubetest.Step{Status: http.StatusGone, Body: kubetest.ExpiredStatus}
				case server.Watches() == 1 && q.Get("watch") != "":
					return &kubetest.Step{Cut: true}
				}
				return nil
			}
			r := &recorder{resume: "21", known: c.known}
			_, err := runAt(server, r, enough, minutes(10))
			var rewound *source.RewoundError
			assert.True(t, errors.As(err, &rewound) && *rewound == c.want && server.Watches() == 1,
				"error is %v, want %+v", err, c.want)
		})
	}
}

// What was published is ahead of the position, and its end is no object that could be looked for. The server has not
// come so far.
func TestReader_ends_where_the_server_is_older_than_what_was_published(t *testing.T) {
	for reached, want := range map[string]string{"61": "61", "60": "", "": ""} {
		must.RunInBubble(t, reached, func(t *testing.T) {
			server := kubetest.NewCluster(t, 60)
			r := &recorder{resume: "21"}
			began := time.Now()
			_, err := runReader(t, Reader{
				Client: clientOf(t, server.Script), Stream: kubetest.ConfigMaps, Reached: func() string { return reached },
			}, r, func() bool { return server.Watches() > 0 || time.Since(began) > time.Minute })
			var rewound *source.RewoundError
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
	writes := []kubetest.Write{
		{Rev: 2, Name: "old", UID: "u-o"},
		{Rev: 18, Name: "b", UID: "u-b"},
		{Rev: 20, Name: "a", UID: "u-a"},
		{Rev: 22, Name: "b", UID: "u-b"},
	}
	published := []source.Ident{known("a", "u-a", 20), known("b", "u-b", 18), known("old", "u-o", 2)}
	answer := func(st kubetest.Step) func(int, url.Values) *kubetest.Step {
		return func(_ int, q url.Values) *kubetest.Step {
			if q.Get("resourceVersionMatch") == "" {
				return nil
			}
			return &st
		}
	}
	for name, c := range map[string]struct {
		known []source.Ident
		fault func(int, url.Values) *kubetest.Step
		// reads is how many objects may be asked for.
		reads int
	}{
		"because it is ours":                        {published, nil, 2},
		"because it is ours, and has one object":    {published[:1], nil, 1},
		"because nothing is known":                  {nil, nil, 0},
		"because what is ahead of the position was": {[]source.Ident{known("b", "u-b", 18), known("a", "u-a", 20)}, nil, 2},
		"because a change was folded into another":  {[]source.Ident{known("a", "u-a", 20), known("b", "u-b", 17)}, nil, 3},
		"because versions are no numbers": {[]source.Ident{{
			Namespace: "default", Name: "a", UID: "u-a",
			ResourceVersion: "x",
		}}, nil, 0},
		"because the history is gone": {
			published, answer(kubetest.Step{Status: http.StatusGone, Body: kubetest.ExpiredStatus}),
			2,
		},
		"because it knows no exact lists":  {published, answer(kubetest.Step{Status: http.StatusBadRequest}), 2},
		"because it sends its newest list": {published, answer(kubetest.Step{Body: kubetest.ListOf("60", "")}), 2},
		"because it ignores the selector": {
			published, answer(kubetest.Step{Body: kubetest.ListOf("21", "t", kubetest.ConfigMap("old", "u-o", "2"))}),
			2,
		},
		"because it has not looked at all of it": {published, answer(kubetest.Step{Body: kubetest.ListOf("21", "t")}), 2},
		"because it may not be asked": {
			published, answer(kubetest.Step{Status: http.StatusForbidden}),
			2 * checkTries,
		},
		"because it fails": {
			published, answer(kubetest.Step{Status: http.StatusInternalServerError}),
			2 * checkTries,
		},
		"because it always asks to wait": {
			published, answer(kubetest.Step{Status: http.StatusTooManyRequests}),
			2 * checkTries,
		},
		"because it does not end": {published, answer(kubetest.Step{Mute: true, Body: "{"}), 1},
		"because of an object without a version": {
			published,
			answer(kubetest.Step{Body: kubetest.ListOf("21", "", kubetest.Nameless["resourceVersion"])}), 2,
		},
		"because of an object of a later version": {
			published, answer(kubetest.Step{Body: kubetest.ListOf("21", "", kubetest.ConfigMap("a", "u-a", "30"))}),
			2,
		},
		"because of an answer with several objects": {
			published,
			answer(kubetest.Step{Body: kubetest.ListOf("21", "", kubetest.ConfigMap("a", "u-a", "20"),
				kubetest.ConfigMap("a", "u-a", "20"))}), 2,
		},
	} {
		must.RunInBubble(t, name, func(t *testing.T) {
			server := kubetest.NewCluster(t, 60, writes...)
			if strings.Contains(name, "folded") {
				server.Writes = append([]kubetest.Write{{Rev: 17, Name: "b", UID: "u-b"}}, writes...)
				slices.SortFunc(server.Writes, func(a, b kubetest.Write) int { return a.Rev - b.Rev })
			}
			server.Oldest, server.Fault = 1, c.fault
			r := &recorder{resume: "21", known: c.known}
			got, err := runAt(server, r, enough, until(r, "updated b@22 watch"))
			check(t, got, "updated b@22 watch")
			require.NoError(t, err)
			assert.LessOrEqual(t, len(server.Reads()), c.reads, "after the reads %v", server.Reads())
		})
	}
}

// Between two attempts the API server can be exchanged: all that was seen before counts no more.
func TestReader_asks_all_again_where_the_connection_broke(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := kubetest.NewCluster(t, 60, kubetest.Write{Rev: 20, Name: "a", UID: "u-a"})
		server.Oldest, server.Fault = 1, func(n int, q url.Values) *kubetest.Step {
			switch {
			case n == 1:
				return &kubetest.Step{Cut: true}
			case n > 1 && q.Get("resourceVersionMatch") == "":
				return &kubetest.Step{Body: kubetest.ListOf("15", "")}
			}
			return nil
		}
		r := &recorder{resume: "21", known: []source.Ident{known("a", "u-a", 20)}}
		_, err := runAt(server, r, enough, minutes(10))
		var rewound *source.RewoundError
		if !errors.As(err, &rewound) || rewound.Server != "15" || server.Watches() > 0 {
			t.Errorf("error is %v after %d watches, want that the server was rewound to 15", err, server.Watches())
		}
		want := "stream configmaps.v1 was at resourceVersion 21 and the API server is at 15: its etcd was restored or " +
			"replaced"
		assert.Equal(t, want, fmt.Sprint(err), "it says %q", err)
	})
}

func TestReader_ends_where_the_far_side_finds_another_history(t *testing.T) {
	for _, kind := range []source.ProgressKind{source.SnapshotStarted, source.Gap, source.Listed} {
		must.RunInBubble(t, fmt.Sprint("kind ", kind), func(t *testing.T) {
			server := kubetest.NewCluster(t, 60, kubetest.Write{Rev: 20, Name: "a", UID: "u-a"})
			r := &recorder{}
			if kind == source.Gap {
				r.resume = "5"
			}
			found := &source.RewoundError{Stream: "configmaps.v1", Object: "default/a", Position: "30", Server: "20"}
			r.refuse = func(p source.Progress) error {
				if p.Kind == kind {
					return fmt.Errorf("the log knows better: %w", found)
				}
				return nil
			}
			begin := time.Now()
			_, err := runAt(server, r, enough, minutes(10))
			var rewound *source.RewoundError
			if !errors.As(err, &rewound) || rewound != found || time.Since(begin) > time.Minute || r.told("waiting") > 0 {
				t.Errorf("error is %v after %v, want the far side's; states %v", err, time.Since(begin), r.states)
			}
		})
	}
}

// What a watch has shown last may not be published yet, so the far side does not know it. It was there nevertheless.
func TestReader_ends_where_what_a_watch_has_shown_never_was(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := kubetest.NewCluster(t, 60)
		server.Oldest = 1
		server.Fault = func(_ int, q url.Values) *kubetest.Step {
			if q.Get("watch") != "" && server.Watches() == 1 {
				return &kubetest.Step{Body: kubetest.FrameOf("ADDED", kubetest.ConfigMap("b", "u-b", "30")), Cut: true}
			}
			return nil
		}
		r := &recorder{resume: "21"}
		got, err := runAt(server, r, enough, minutes(10))
		var rewound *source.RewoundError
		want := (source.RewoundError{Stream: "configmaps.v1", Object: "default/b", Position: "30", At: "30"})
		assert.True(t, errors.As(err, &rewound) && *rewound == want, "error is %v after %v, want %v", err, got, &want)
		check(t, got, "added b@30 watch")
	})
}
