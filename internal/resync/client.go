// SPDX-License-Identifier: Apache-2.0

package resync

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge"
	"github.com/kube-eventbridge/kube-eventbridge/internal/endpoint"
	"github.com/kube-eventbridge/kube-eventbridge/internal/inert"
	"github.com/kube-eventbridge/kube-eventbridge/internal/pause"
)

const (
	// pollEvery is how often a bridge is asked how far it is.
	pollEvery = 500 * time.Millisecond
	// maxSilence is how many questions in a row may have no answer.
	maxSilence = 20
)

// Client asks one bridge.
type Client struct {
	http *endpoint.Client
	// every is how often it asks how far the bridge is.
	every time.Duration
}

// NewClient returns a client of the bridge whose HTTP server is at server: a URL, or host:port.
func NewClient(server string) (*Client, error) {
	c, err := endpoint.NewClient(server, Path)
	if err != nil {
		return nil, err
	}
	return &Client{http: c, every: pollEvery}, nil
}

// Close closes connections that no request uses.
func (c *Client) Close() { c.http.Close() }

// UnknownError is the bridge's answer that there is no such pipeline or resource.
type UnknownError struct{ text string }

// Error implements error.
func (e *UnknownError) Error() string { return e.text }

// Start asks for a resync, see [bridge.StartResyncs]. An error is an [UnknownError], or says why the bridge has not
// answered.
func (c *Client) Start(ctx context.Context, pipeline string, resources []string) ([]Stream, error) {
	query := url.Values{paramResource: resources}
	if pipeline != "" {
		query.Set(paramPipeline, pipeline)
	}
	return c.ask(ctx, http.MethodPost, query)
}

// Wait asks how far the streams that Start returned are, until all have ended, and returns how. Each time it calls
// progress. A bridge that does not answer for a while is an error, as is ctx's end; a resync that a bridge does not
// know any more has failed.
func (c *Client) Wait(ctx context.Context, started []Stream, progress func([]Stream)) ([]Stream, error) {
	for silent := 0; ; {
		now, err := c.ask(ctx, http.MethodGet, nil)
		switch {
		case err == nil:
			silent = 0
			started = follow(started, now)
			progress(started)
			if ended(started) {
				return started, nil
			}
		case ctx.Err() != nil:
			return started, ctx.Err()
		default:
			if silent++; silent == maxSilence {
				return started, fmt.Errorf("%w; what it had not published by then is not published again unless that is asked for",
					err)
			}
		}
		if err := pause.For(ctx, c.every); err != nil {
			return started, err
		}
	}
}

func ended(all []Stream) bool {
	for _, s := range all {
		if !s.State.Ended() {
			return false
		}
	}
	return true
}

// follow returns started as they are now.
func follow(started, now []Stream) []Stream {
	type key struct {
		pipeline, stream string
		number           int64
	}
	known := map[key]Stream{}
	for _, s := range now {
		known[key{s.Pipeline, s.Stream, s.Number}] = s
	}
	out := make([]Stream, len(started))
	for i, s := range started {
		at, ok := known[key{s.Pipeline, s.Stream, s.Number}]
		switch {
		case s.State.Ended():
			at = s
		case !ok:
			at = s
			at.State, at.Problem = bridge.ResyncFailed, "the bridge was restarted, and does not know this request; ask again"
		}
		out[i] = at
	}
	return out
}

func (c *Client) ask(ctx context.Context, method string, query url.Values) ([]Stream, error) {
	answer, err := c.http.Ask(ctx, method, query)
	if err != nil {
		return nil, err
	}
	if answer.Code == http.StatusForbidden {
		return nil, fmt.Errorf("the bridge refuses: %s", inert.Line(string(bytes.TrimSpace(answer.Body))))
	}
	var said struct {
		Answer
		Refusal
	}
	jsonErr := json.Unmarshal(answer.Body, &said)
	switch {
	case jsonErr == nil && answer.Code == http.StatusNotFound && said.Error != "":
		return nil, &UnknownError{said.Error}
	case jsonErr == nil && said.Error != "":
		return nil, fmt.Errorf("the bridge refuses: %s", said.Error)
	case jsonErr != nil || answer.Code/100 != 2 || said.Streams == nil:
		return nil, answer.Stranger("knows resync")
	}
	return said.Streams, nil
}
