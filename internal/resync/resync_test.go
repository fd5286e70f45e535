// SPDX-License-Identifier: Apache-2.0

package resync

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge"
	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge/health"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
)

// none is a pipeline that was not started.
func none(name string, resources ...string) *bridge.Pipeline {
	c := bridge.Config{Name: name, Metrics: health.NewMetrics(prometheus.NewRegistry())}
	for _, r := range resources {
		c.Streams = append(c.Streams, bridge.StreamSpec{Resource: r})
	}
	return bridge.New(c)
}

func TestHandler_answers_what_is_asked(t *testing.T) {
	two := []*bridge.Pipeline{none("audit", "pods", "deployments.apps"), none("other", "pods")}
	for name, c := range map[string]struct {
		method, query string
		pipelines     []*bridge.Pipeline
		code          int
		want          string
	}{
		"who asks how far it is, starts nothing": {http.MethodGet, "?resource=nothing", two, 200, `{"streams":[]}`},
		"a head starts nothing":                  {http.MethodHead, "", two, 200, ""},
		"all": {
			http.MethodPost, "", two, 202,
			`{"streams":[{"pipeline":"audit","stream":"pods","state":"refused","objects":0,"listed":0,"published":0,` +
				`"problem":"it is not open yet; /readyz says why"},`,
		},
		"one pipeline": {
			http.MethodPost, "?pipeline=other", two, 202,
			`{"streams":[{"pipeline":"other","stream":"pods",`,
		},
		"one resource": {
			http.MethodPost, "?resource=deployments.apps", two, 202,
			`{"streams":[{"pipeline":"audit","stream":"deployments.apps",`,
		},
		"no such pipeline": {
			http.MethodPost, "?pipeline=x", two, 404,
			`{"error":"pipeline \"x\" is not this bridge's; valid: audit, other"}`,
		},
		"no such resource": {
			http.MethodPost, "?resource=x", two, 404,
			`{"error":"resource \"x\" is not this bridge's; valid: deployments.apps, pods"}`,
		},
		"no such parameter": {
			http.MethodPost, "?resources=pods", two, 400,
			`{"error":"parameter \"resources\" is not known; valid: pipeline, resource"}`,
		},
		"two pipelines": {
			http.MethodPost, "?pipeline=a&pipeline=b", two, 400,
			`{"error":"parameter pipeline is there 2 times; name one pipeline, or leave it out for all"}`,
		},
		"a bridge that starts": {
			http.MethodPost, "", nil, 503,
			`{"error":"the bridge is starting; ask again when /readyz answers ok"}`,
		},
		"another method": {http.MethodPut, "", two, 405, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w, r := httptest.NewRecorder(), httptest.NewRequest(c.method, Path+c.query, nil)
			Handler(func() []*bridge.Pipeline { return c.pipelines }).ServeHTTP(w, r)
			assert.Equal(t, c.code, w.Code)
			assert.True(t, strings.HasPrefix(w.Body.String(), c.want))
			assert.Equal(t, (c.want != "" || c.code == 200), w.Header().Get("Content-Type") == "application/json",
				"the content is %s", w.Header().Get("Content-Type"))
		})
	}
}

func stream(number int64, state bridge.ResyncState, published int) Stream {
	return Stream{Pipeline: "p", Stream: "pods.v1", Number: number, State: state, Published: published}
}

// told serves a bridge's answers, one after the other; an empty one is no answer.
func told(t *testing.T, answers ...string) *Client {
	t.Helper()
	var n atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		text := answers[min(int(n.Add(1)), len(answers))-1]
		if text == "" {
			panic(http.ErrAbortHandler)
		}
		_, _ = io.WriteString(w, text)
	}))
	t.Cleanup(server.Close)
	c := must.Get(NewClient(server.URL + "/"))(t)
	t.Cleanup(c.Close)
	c.every = time.Microsecond
	return c
}

func text(streams ...Stream) string {
	var all []string
	for _, s := range streams {
		all = append(all, fmt.Sprintf(`{"pipeline":%q,"stream":%q,"number":%d,"state":%q,"published":%d}`, s.Pipeline,
			s.Stream, s.Number, s.State, s.Published))
	}
	return `{"streams":[` + strings.Join(all, ",") + `]}`
}

func TestClient_waits_until_what_it_has_started_has_ended(t *testing.T) {
	refused := Stream{Pipeline: "p", Stream: "nodes.v1", State: bridge.ResyncRefused, Problem: "it is listing"}
	for name, c := range map[string]struct {
		answers []string
		want    Stream
		err     string
	}{
		"it is done": {[]string{
			text(stream(7, bridge.ResyncRunning, 1)),
			text(stream(6, bridge.ResyncDone, 9), stream(7, bridge.ResyncDone, 2)),
		}, stream(7, bridge.ResyncDone, 2), ""},
		"it fails": {[]string{text(stream(7, bridge.ResyncFailed, 2))}, stream(7, bridge.ResyncFailed, 2), ""},
		"the bridge is another": {[]string{text(stream(8, bridge.ResyncRunning, 1))}, Stream{
			Pipeline: "p", Stream: "pods.v1", Number: 7, State: bridge.ResyncFailed,
			Problem: "the bridge was restarted, and does not know this request; ask again",
		}, ""},
		"the bridge is silent for a moment": {
			[]string{"", "", text(stream(7, bridge.ResyncDone, 2))},
			stream(7, bridge.ResyncDone, 2), "",
		},
		"the bridge is gone": {
			[]string{""},
			stream(7, bridge.ResyncQueued, 0),
			"what it had not published by then is not published again",
		},
		"it is no bridge": {
			[]string{"<html>"},
			stream(7, bridge.ResyncQueued, 0),
			"the answer is 200 OK, and none of a bridge that knows resync",
		},
	} {
		t.Run(name, func(t *testing.T) {
			var last []Stream
			got, err := told(t, c.answers...).Wait(t.Context(), []Stream{stream(7, bridge.ResyncQueued, 0), refused},
				func(now []Stream) { last = now })
			if !reflect.DeepEqual(got, []Stream{c.want, refused}) || (err == nil) != (c.err == "") ||
				err != nil && !strings.Contains(err.Error(), c.err) {
				t.Errorf("%+v, error %v, want %+v, %q", got, err, c.want, c.err)
			}
			assert.True(t, c.err != "" || reflect.DeepEqual(last, got), "told last was %+v", last)
		})
	}
}

func TestClient_waits_no_longer_than_it_may(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	_, err := told(t, text(stream(7, bridge.ResyncRunning, 1))).Wait(ctx, []Stream{stream(7, bridge.ResyncQueued, 0)},
		func([]Stream) { cancel() })
	assert.ErrorIs(t, err, context.Canceled, "error")
}

func TestClient_asks_for_what_is_wanted(t *testing.T) {
	two := []*bridge.Pipeline{none("audit", "pods", "nodes"), none("other", "pods")}
	server := httptest.NewServer(Handler(func() []*bridge.Pipeline { return two }))
	defer server.Close()
	c := must.Get(NewClient(strings.TrimPrefix(server.URL, "http://")))(t)
	defer c.Close()
	for want, ask := range map[string][]string{
		"[audit pods audit nodes other pods]": {""}, "[audit pods other pods]": {"", "pods"},
		"[audit pods audit nodes]": {"audit", "pods", "nodes"},
	} {
		all, err := c.Start(t.Context(), ask[0], ask[1:])
		var got []string
		for _, s := range all {
			got = append(got, s.Pipeline, s.Stream)
		}
		require.NoError(t, err)
		assert.Equal(t, want, fmt.Sprint(got), "%v: %v", ask, got)
	}
	var unknown *UnknownError
	if _, err := c.Start(t.Context(), "x", nil); !errors.As(err, &unknown) ||
		err.Error() != `pipeline "x" is not this bridge's; valid: audit, other` {
		t.Errorf("error is %v", err)
	}
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
