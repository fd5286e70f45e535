// SPDX-License-Identifier: Apache-2.0

package endpoint

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"
)

const (
	requestTimeout = 10 * time.Second
	maxAnswer      = 64 << 20
)

// Client asks one interface of one bridge's HTTP server. It may be used by several goroutines.
type Client struct {
	at   url.URL
	http *http.Client
}

// NewClient returns a client of what path is on the bridge whose HTTP server is at server: a URL, or host:port.
func NewClient(server, path string) (*Client, error) {
	at, err := URL(server, path)
	if err != nil {
		return nil, err
	}
	return &Client{at: at, http: &http.Client{
		Timeout:   requestTimeout,
		Transport: http.DefaultTransport.(*http.Transport).Clone(),
	}}, nil
}

// Close closes connections that no request uses.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Answer is what came back: an HTTP status, and the first 64 MiB of a body.
type Answer struct {
	Code int
	Body []byte
	// stranger is the error if it is no bridge's answer.
	stranger string
}

// Stranger returns an error that says that the answer is not that of a bridge that knows what.
func (a *Answer) Stranger(what string) error {
	return fmt.Errorf("%s, and none of a bridge that %s", a.stranger, what)
}

// Ask makes a request, which takes 10 s at most. An error says that there was no answer, and shows no user and no
// password of the address.
func (c *Client) Ask(ctx context.Context, method string, query url.Values) (*Answer, error) {
	u := c.at
	u.RawQuery = query.Encode()
	req, err := http.NewRequestWithContext(ctx, method, u.String(), nil)
	if err != nil {
		return nil, err
	}
	resp, err := c.http.Do(req)
	shown := Shown(c.at.String())
	if err != nil {
		var failed *url.Error
		if errors.As(err, &failed) { // which shows the user
			err = failed.Err
		}
		return nil, fmt.Errorf("%s %s: %w", method, shown, err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", method, shown, err)
	}
	return &Answer{resp.StatusCode, body, fmt.Sprintf("%s %s: the answer is %s", method, shown, resp.Status)}, nil
}
