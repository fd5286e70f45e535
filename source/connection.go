// SPDX-License-Identifier: Apache-2.0

package source

import (
	"context"
	"io"
	"time"
)

// connection is a watch that is open.
type connection interface {
	// next returns what the watch brings next, valid until the following call. The error is io.EOF where the API server ended the watch in good
	// order, ctx's, or says what broke it; it is the same from then on.
	next(ctx context.Context) (frame, error)
	// since returns when the API server began to answer.
	since() time.Time
	close()
}

// ownConnection is a watch that nobody else reads.
type ownConnection struct {
	body   io.ReadCloser
	frames *frameReader
	opened time.Time
}

// next implements connection. It ends with the context that the watch was opened with.
func (c *ownConnection) next(context.Context) (frame, error) { return c.frames.Next() }

func (c *ownConnection) since() time.Time { return c.opened }

func (c *ownConnection) close() { _ = c.body.Close() }

// open opens a watch for everything after version.
func (w *wire) open(conn context.Context, version string, timeout time.Duration) (connection, error) {
	body, err := w.client.watch(conn, w.stream, version, timeout)
	if err != nil {
		return nil, err
	}
	return &ownConnection{body: body, frames: newFrameReader(body), opened: time.Now()}, nil
}
