// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/kube-eventbridge/kube-eventbridge/source"
	"github.com/kube-eventbridge/kube-eventbridge/source/rawjson"
)

const (
	// PageSize is how many objects one request of a list asks for. Pages keep a list alive that is published more
	// slowly than the API server allows a request to take (60 s by default).
	PageSize = 500
	// pageTimeout is how long a page may take, far above that.
	pageTimeout = 2 * time.Minute
	// maxUnpaged is how many bytes of objects an API server may send that was asked for one object. Those that
	// know no pages send all, and the first page is in no budget.
	maxUnpaged = 8 << 20
)

// ReadFirst reads the smallest first page of a list: its version, and what the API server sends with it. That is one
// object, or all of them where it knows no pages; then they have 8 MiB at most, or the error says so. The items are the
// caller's. Nothing is repeated.
func (c *Client) ReadFirst(
	ctx context.Context, s source.Stream, q PageQuery,
) (meta rawjson.ListMeta, items [][]byte, err error) {
	q.Limit = 1
	size := 0
	meta, err = c.ReadPage(ctx, s, q, func(raw []byte) error {
		if size += len(raw); size > maxUnpaged && len(items) > 0 {
			return rawjson.Unreadable("the API server knows no pages, and its list has more than %d bytes", maxUnpaged)
		}
		items = append(items, append([]byte(nil), raw...))
		// Nothing is announced before it is known that this can be read.
		_, err := source.ParseIdent(raw, s.Namespaced)
		return err
	})
	return meta, items, err
}

// ReadPage reads one page once it has a place, and calls item with the JSON of each object, valid until item returns.
// The API server has two minutes for a page; item may take as long as it needs. The error is item's, which ends it,
// ctx's, or says why the page could not be read to its end: then item was called for those before. Nothing is repeated.
func (c *Client) ReadPage(
	ctx context.Context, s source.Stream, q PageQuery, item func(raw []byte) error,
) (rawjson.ListMeta, error) {
	if q.Placed {
		return c.readPlaced(ctx, s, q, item)
	}
	p, err := c.places.take(ctx, s.GroupResource())
	if err != nil {
		return rawjson.ListMeta{}, fmt.Errorf("list %s: %w", s.Name(), err)
	}
	defer p.Leave()
	if !q.Prompt {
		item = p.lend(item)
	}
	return c.readPlaced(ctx, s, q, item)
}

// readPlaced is ReadPage for who has a place.
func (c *Client) readPlaced(
	ctx context.Context, s source.Stream, q PageQuery, item func(raw []byte) error,
) (rawjson.ListMeta, error) {
	conn, cancel := context.WithTimeout(ctx, pageTimeout)
	defer cancel()
	body, err := c.listPage(conn, s, q)
	if err != nil {
		return rawjson.ListMeta{}, fmt.Errorf("list %s: %w", s.Name(), err)
	}
	defer func() { _ = body.Close() }()
	meta, err := rawjson.ReadList(body, s.Resource.Kind, item)
	switch {
	case err != nil:
		err = Overdue(conn, err)
	case q.Exact != "" && meta.ResourceVersion != q.Exact:
		err = rawjson.Unreadable("asked for a list at %s, the API server sent one at %q", q.Exact, meta.ResourceVersion)
	case meta.ResourceVersion == "":
		err = errors.New("the answer has no resourceVersion")
	}
	if err != nil {
		return meta, fmt.Errorf("list %s: %w", s.Name(), err)
	}
	return meta, nil
}

// Overdue returns that the connection's time was up, if it was: what failed because of that says it in many ways.
func Overdue(conn context.Context, err error) error {
	if conn.Err() != nil {
		return conn.Err()
	}
	return err
}
