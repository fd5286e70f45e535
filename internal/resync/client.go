// SPDX-License-Identifier: Apache-2.0

package resync

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge"
	"github.com/kube-eventbridge/kube-eventbridge/internal/endpoint"
	"github.com/kube-eventbridge/kube-eventbridge/internal/pause"
)

const (
	requestTimeout = 10 * time.Second
	// pollEvery is how often a bridge is asked how far it is.
	pollEvery = 500 * time.Millisecond
	// maxSilence is how many questions in a row may have no answer.
	maxSilence = 20
	maxAnswer  = 64 << 20
)

// Client asks one bridge.
type Client struct {
	base url.URL
	http *http.Client
	// every is how often it asks how far the bridge is.
	every time.Duration
}

// NewClient returns a client of the bridge whose HTTP server is at server: a URL, or host:port.
func NewClient(server string) (*Client, error) {
	u, err := endpoint.URL(server, Path)
	if err != nil {
		return nil, err
	}
	return &Client{base: u, http: &http.Client{Timeout: requestTimeout, Transport: http.DefaultTransport.(*http.Transport).Clone()}, every: pollEvery}, nil
}

// Close closes connections that no request uses.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// UnknownError is the bridge's answer that there is no such pipeline or resource.
type UnknownError struct{ text string }

// Error implements error.
func (e *UnknownError) Error() string { return e.text }

// Start asks for a resync, see [bridge.StartResyncs]. An error is an [UnknownError], or says why the bridge has not answered.
func (c *Client) Start(ctx context.Context, pipeline string, resources []string) ([]Stream, error) {
	query := url.Values{paramResource: resources}
	if pipeline != "" {
		query.Set(paramPipeline, pipeline)
	}
	return c.ask(ctx, http.MethodPost, query)
}

// Wait asks how far the streams that Start returned are, until all have ended, and returns how. Each time it calls progress. A bridge that does not
// answer for a while is an error, as is ctx's end; a resync that a bridge does not know any more has failed.
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
				return started, fmt.Errorf("%w; what it had not published by then is not published again unless that is asked for", err)
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
			at.State, at.Problem = bridge.ResyncFailed, "the bridge has begun anew, and does not know of it; ask again"
		}
		out[i] = at
	}
	return out
}

func (c *Client) ask(ctx context.Context, method string, query url.Values) ([]Stream, error) {
	u := c.base
	u.RawQuery = query.Encode()
	req, err := http.NewRequestWithContext(ctx, method, u.String(), nil)
	if err != nil {
		return nil, err
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", method, u.Redacted(), err)
	}
	var said struct {
		Answer
		Refusal
	}
	jsonErr := json.Unmarshal(body, &said)
	switch {
	case jsonErr == nil && resp.StatusCode == http.StatusNotFound && said.Error != "":
		return nil, &UnknownError{said.Error}
	case jsonErr == nil && said.Error != "":
		return nil, fmt.Errorf("the bridge refuses: %s", said.Error)
	case jsonErr != nil || resp.StatusCode/100 != 2 || said.Streams == nil:
		return nil, fmt.Errorf("%s %s: the answer is %s, and none of a bridge that knows resync", method, u.Redacted(), resp.Status)
	}
	return said.Streams, nil
}
