// SPDX-License-Identifier: Apache-2.0

package reader

import (
	"context"
	"io"
	"time"

	"github.com/kube-eventbridge/kube-eventbridge/source/rawjson"
	"github.com/kube-eventbridge/kube-eventbridge/source/sharing"
)

// connection is a watch that is open.
type connection interface {
	// next returns what the watch brings next, valid until the following call. The error is io.EOF where the API server
	// ended the watch in good order, ctx's, or says what broke it; it is the same from then on.
	Next(ctx context.Context) (sharing.Frame, error)
	// since returns when the API server began to answer.
	Since() time.Time
	Close()
}

// ownConnection is a watch that no other stream reads.
type ownConnection struct {
	body   io.ReadCloser
	frames *rawjson.Reader
	opened time.Time
}

// Next implements connection. It ends with the context that the watch was opened with.
func (c *ownConnection) Next(context.Context) (sharing.Frame, error) {
	f, err := c.frames.Next()
	return sharing.Frame{Frame: f}, err
}

func (c *ownConnection) Since() time.Time { return c.opened }

func (c *ownConnection) Close() { _ = c.body.Close() }

// connector opens the watches of a stream.
type connector struct {
	*requests
	// membership is nil where watches are not shared. Reserved is a place in a shared watch for the first connection of
	// the first watch, if there is one.
	membership *sharing.Membership
	reserved   *sharing.Follower
}

// open opens a watch for everything after version, and calls check before anything of it can be read. The error may be
// that of check. A reader takes its place in a shared watch before that, as those who come later may find none.
func (c *connector) open(
	conn context.Context, version string, timeout time.Duration, check func() error,
) (connection, error) {
	f := c.reserved
	if c.reserved = nil; f == nil {
		f = c.membership.Attach(version, true)
	}
	if f != nil {
		err := check() // before the answer, which may be that history was forgotten: another one is not listed
		if err == nil {
			f.Pass()
			err = f.Ready(conn)
		}
		if err != nil {
			f.Close()
			return nil, err
		}
		return f, nil
	}
	if err := check(); err != nil {
		return nil, err
	}
	body, err := c.client.Watch(conn, c.stream, version, timeout)
	if err != nil {
		return nil, err
	}
	return &ownConnection{body: body, frames: rawjson.NewReader(body), opened: time.Now()}, nil
}

// reserve takes the place that a reader is to have in a shared watch, before the check that precedes its first watch.
func (c *connector) reserve(version string) { c.reserved = c.membership.Attach(version, true) }

// unreserve gives up the place that was reserved and not used.
func (c *connector) unreserve() {
	if c.reserved != nil {
		c.reserved.Close()
		c.reserved = nil
	}
}

// share returns the shared watch from behind version on, for a reader with a watch of its own that can change over;
// else nil.
func (c *connector) share(open connection, version string, bookmark bool) *sharing.Follower {
	if _, own := open.(*ownConnection); !own {
		return nil
	}
	return c.membership.Rejoin(version, bookmark)
}
