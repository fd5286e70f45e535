// SPDX-License-Identifier: Apache-2.0

package source

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/kube-eventbridge/kube-eventbridge/source/rawjson"
)

const (
	// pageSize is how many objects one request of a list asks for. Pages keep a list alive that is published more
	// slowly than the API server allows a request to take (60 s by default).
	pageSize = 500
	// pageTimeout is how long a page may take, far above that.
	pageTimeout = 2 * time.Minute
	// maxUnpaged is how many bytes of objects an API server may send that was asked for one object. Those that
	// know no pages send all, and the first page is in no budget.
	maxUnpaged = 8 << 20
)

// readFirst reads the smallest page there is, as firstPage has it, to its end.
func (c *Client) readFirst(
	ctx context.Context, s Stream, q pageQuery,
) (meta rawjson.ListMeta, items [][]byte, err error) {
	q.limit = 1
	size := 0
	meta, err = c.readPage(ctx, s, q, func(raw []byte) error {
		if size += len(raw); size > maxUnpaged && len(items) > 0 {
			return rawjson.Unreadable("the API server knows no pages, and its list has more than %d bytes", maxUnpaged)
		}
		items = append(items, append([]byte(nil), raw...))
		// Nothing is announced before it is known that this can be read.
		_, err := parseObject(raw, s.Namespaced)
		return err
	})
	return meta, items, err
}

// readPage reads one page within pageTimeout, once it has a place; what it read is passed on however long there is no
// room for it.
func (c *Client) readPage(
	ctx context.Context, s Stream, q pageQuery, item func(raw []byte) error,
) (rawjson.ListMeta, error) {
	if q.placed {
		return c.readPlaced(ctx, s, q, item)
	}
	p, err := c.places.take(ctx, s.GroupResource(), false)
	if err != nil {
		return rawjson.ListMeta{}, fmt.Errorf("list %s: %w", s.Name(), err)
	}
	defer p.leave()
	return c.readPlaced(ctx, s, q, p.lend(item))
}

// readPlaced is readPage for who has a place.
func (c *Client) readPlaced(
	ctx context.Context, s Stream, q pageQuery, item func(raw []byte) error,
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
		err = overdue(conn, err)
	case q.exact != "" && meta.ResourceVersion != q.exact:
		err = rawjson.Unreadable("asked for a list at %s, the API server sent one at %q", q.exact, meta.ResourceVersion)
	case meta.ResourceVersion == "":
		err = errors.New("the answer has no resourceVersion")
	}
	if err != nil {
		return meta, fmt.Errorf("list %s: %w", s.Name(), err)
	}
	return meta, nil
}

// overdue returns that the connection's time was up, if it was: what failed because of that says it in many ways.
func overdue(conn context.Context, err error) error {
	if conn.Err() != nil {
		return conn.Err()
	}
	return err
}
