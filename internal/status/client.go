// SPDX-License-Identifier: Apache-2.0

package status

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/kube-eventbridge/kube-eventbridge/internal/endpoint"
)

const (
	requestTimeout = 10 * time.Second
	maxAnswer      = 64 << 20
)

// Client asks one bridge.
type Client struct {
	at   url.URL
	http *http.Client
}

// NewClient returns a client of the bridge whose HTTP server is at server: a URL, or host:port.
func NewClient(server string) (*Client, error) {
	at, err := endpoint.URL(server, Path)
	if err != nil {
		return nil, err
	}
	return &Client{at: at, http: &http.Client{Timeout: requestTimeout, Transport: http.DefaultTransport.(*http.Transport).Clone()}}, nil
}

// Close closes connections that no request uses.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Report asks how the bridge is doing.
func (c *Client) Report(ctx context.Context) (Report, error) {
	var r Report
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.at.String(), nil)
	if err != nil {
		return r, err
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return r, err
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return r, fmt.Errorf("GET %s: %w", c.at.Redacted(), err)
	}
	if resp.StatusCode == http.StatusForbidden {
		return r, fmt.Errorf("the bridge refuses: %s", clean(strings.TrimSpace(string(body))))
	}
	if err := json.Unmarshal(body, &r); err != nil || resp.StatusCode != http.StatusOK || r.Summary == "" {
		return r, fmt.Errorf("GET %s: the answer is %s, and none of a bridge that tells its status", c.at.Redacted(), resp.Status)
	}
	return r, nil
}
