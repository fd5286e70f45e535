// SPDX-License-Identifier: Apache-2.0

package status

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/kube-eventbridge/kube-eventbridge/internal/endpoint"
	"github.com/kube-eventbridge/kube-eventbridge/internal/inert"
)

// Client asks one bridge.
type Client struct{ http *endpoint.Client }

// NewClient returns a client of the bridge whose HTTP server is at server: a URL, or host:port.
func NewClient(server string) (*Client, error) {
	c, err := endpoint.NewClient(server, Path)
	if err != nil {
		return nil, err
	}
	return &Client{c}, nil
}

// Close closes connections that no request uses.
func (c *Client) Close() { c.http.Close() }

// Report asks how the bridge is doing.
func (c *Client) Report(ctx context.Context) (Report, error) {
	var r Report
	answer, err := c.http.Ask(ctx, http.MethodGet, nil)
	if err != nil {
		return r, err
	}
	if answer.Code == http.StatusForbidden {
		return r, fmt.Errorf("the bridge refuses: %s", inert.Line(string(bytes.TrimSpace(answer.Body))))
	}
	if err := json.Unmarshal(answer.Body, &r); err != nil || answer.Code != http.StatusOK || r.Summary == "" {
		return r, answer.Stranger("tells its status")
	}
	return r, nil
}
