// SPDX-License-Identifier: Apache-2.0

package source

import (
	"bytes"
	"context"
	"errors"
)

var errNoVersion = errors.New("a list at an exact version needs one")

// Audit calls f with every object that the stream had at exactly version, in no order that is promised: with its
// identity, and with JSON that has its metadata, valid until f returns. It reads metadata only, in pages, and holds one
// object at a time.
//
// The error is f's, which ends it, or says why the list could not be read, or not to its end: nothing is repeated, and
// what f was told before holds. API servers forget old versions (410), do not have future ones (504), and not all know
// such lists.
func Audit(ctx context.Context, c *Client, s Stream, version string, f func(Ident, []byte) error) error {
	if version == "" {
		return errNoVersion
	}
	q := pageQuery{limit: pageSize, exact: version, identities: true}
	for {
		meta, err := c.readPage(ctx, s, q, func(raw []byte) error {
			id, err := parseObject(raw, s.Namespaced)
			if err != nil {
				return err
			}
			return f(id.Ident, raw)
		})
		if err != nil || meta.Continue == "" {
			return err
		}
		q = pageQuery{limit: pageSize, token: meta.Continue, identities: true}
	}
}

// ObjectsAt calls f with every object that the stream had at exactly version, in no order that is promised, and its
// body, which it lends until f returns. It reads in pages, and holds one object at a time. A page that could not be
// read to its end is read again, with a growing wait between, so that f may be called twice for an object.
//
// The error is f's, which ends it, or ctx's, or says why the API server does not tell: at once where it has no such
// version any more, or does not know such lists, and after half a minute or so where it refuses to answer.
func ObjectsAt(ctx context.Context, c *Client, s Stream, version string, f func(Ident, *Body) error) error {
	if version == "" {
		return errNoVersion
	}
	var failed error
	take := func(raw []byte) error {
		id, err := parseObject(raw, s.Namespaced)
		if err != nil {
			return err
		}
		body := newListBody(raw, s.Resource)
		defer body.Release()
		failed = f(id.Ident, body)
		return failed
	}
	giveUp := new(patience)
	for q := (pageQuery{limit: pageSize, exact: version}); ; {
		var retry backoff
		meta, err := c.readPage(ctx, s, q, take)
		for err != nil {
			if ctx.Err() != nil || failed != nil || giveUp.spent(err) {
				return err
			}
			if err := retry.wait(ctx, err); err != nil {
				return err
			}
			meta, err = c.readPage(ctx, s, q, take)
		}
		if meta.Continue == "" {
			return nil
		}
		q = pageQuery{limit: pageSize, token: meta.Continue}
	}
}

// ItemAt is [ReadAt] with the whole object; nil where the stream did not have it. What is returned stays valid.
func ItemAt(ctx context.Context, c *Client, s Stream, namespace, name, version string) (item *Item, err error) {
	if version == "" {
		return nil, errNoVersion
	}
	key, q := Ident{Namespace: namespace, Name: name}, pageQuery{exact: version}
	_, err = c.readExact(ctx, s, key, q, func(at Ident, object []byte) {
		item = &Item{Ident: at, At: version, raw: bytes.Clone(object), resource: s.Resource}
	})
	if err != nil {
		return nil, err
	}
	return item, nil
}

// ReadAt returns one object as the stream had it at exactly version: its identity, and JSON that has its metadata.
// Found is false where the stream did not have it then: it did not exist, or the selectors did not match. The error
// says why the API server does not tell, see [Audit]; nothing is repeated.
func ReadAt(
	ctx context.Context, c *Client, s Stream, namespace, name, version string,
) (id Ident, raw []byte, found bool, err error) {
	return readState(ctx, c, s, Ident{Namespace: namespace, Name: name}, pageQuery{exact: version, identities: true})
}

// readState is ReadAt with a key and a query.
func readState(
	ctx context.Context, c *Client, s Stream, key Ident, q pageQuery,
) (id Ident, raw []byte, found bool, err error) {
	if q.exact == "" {
		return Ident{}, nil, false, errNoVersion
	}
	found, err = c.readExact(ctx, s, key, q, func(at Ident, object []byte) { id, raw = at, bytes.Clone(object) })
	if !found {
		return Ident{}, nil, false, err
	}
	return id, raw, true, err
}
