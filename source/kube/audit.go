// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"bytes"
	"context"
	"errors"

	"github.com/kube-eventbridge/kube-eventbridge/source"
)

var errNoVersion = errors.New("a list at an exact version needs one")

// Audit calls f with every object that the stream had at exactly version, in no order that is promised: with its
// identity, and with JSON that has its metadata, valid until f returns. It reads metadata only, in pages, and holds one
// object at a time.
//
// The error is f's, which ends it, or says why the list could not be read, or not to its end: nothing is repeated, and
// what f was told before holds. API servers forget old versions (410), do not have future ones (504), and not all know
// such lists.
func Audit(ctx context.Context, c *Client, s source.Stream, version string, f func(source.Ident, []byte) error) error {
	if version == "" {
		return errNoVersion
	}
	q := PageQuery{Limit: PageSize, Exact: version, Identities: true, Prompt: true}
	for {
		meta, err := c.ReadPage(ctx, s, q, func(raw []byte) error {
			id, err := source.ParseIdent(raw, s.Namespaced)
			if err != nil {
				return err
			}
			return f(id, raw)
		})
		if err != nil || meta.Continue == "" {
			return err
		}
		q = PageQuery{Limit: PageSize, Token: meta.Continue, Identities: true, Prompt: true}
	}
}

// ObjectsAt calls f with every object that the stream had at exactly version, in no order that is promised, and its
// body, which it lends until f returns. It reads in pages, and holds one object at a time. A page that could not be
// read to its end is read again, with a growing wait between, so that f may be called twice for an object.
//
// The error is f's, which ends it, or ctx's, or says why the API server does not tell: at once where it has no such
// version any more, or does not know such lists, and after half a minute or so where it refuses to answer.
func ObjectsAt(
	ctx context.Context, c *Client, s source.Stream, version string, f func(source.Ident, *source.Body) error,
) error {
	if version == "" {
		return errNoVersion
	}
	var failed error
	take := func(raw []byte) error {
		id, err := source.ParseIdent(raw, s.Namespaced)
		if err != nil {
			return err
		}
		body := source.NewListBody(raw, s.Resource)
		defer body.Release()
		failed = f(id, body)
		return failed
	}
	giveUp := new(Patience)
	for q := (PageQuery{Limit: PageSize, Exact: version, Prompt: true}); ; {
		var retry Backoff
		meta, err := c.ReadPage(ctx, s, q, take)
		for err != nil {
			if ctx.Err() != nil || failed != nil || giveUp.Spent(err) {
				return err
			}
			if err := retry.Wait(ctx, err); err != nil {
				return err
			}
			meta, err = c.ReadPage(ctx, s, q, take)
		}
		if meta.Continue == "" {
			return nil
		}
		q = PageQuery{Limit: PageSize, Token: meta.Continue, Prompt: true}
	}
}

// ItemAt is [ReadAt] with the whole object; nil where the stream did not have it. What is returned stays valid.
func ItemAt(ctx context.Context, c *Client, s source.Stream, namespace, name, version string) (item *Item, err error) {
	if version == "" {
		return nil, errNoVersion
	}
	key, q := source.Ident{Namespace: namespace, Name: name}, PageQuery{Exact: version}
	_, err = c.ReadExact(ctx, s, key, q, func(at source.Ident, object []byte) {
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
	ctx context.Context, c *Client, s source.Stream, namespace, name, version string,
) (id source.Ident, raw []byte, found bool, err error) {
	return ReadState(ctx, c, s, source.Ident{Namespace: namespace, Name: name},
		PageQuery{Exact: version, Identities: true})
}

// ReadState is [ReadAt] at q.Exact, for who may have a place, and may need more than metadata.
func ReadState(
	ctx context.Context, c *Client, s source.Stream, key source.Ident, q PageQuery,
) (id source.Ident, raw []byte, found bool, err error) {
	if q.Exact == "" {
		return source.Ident{}, nil, false, errNoVersion
	}
	found, err = c.ReadExact(ctx, s, key, q, func(at source.Ident, object []byte) { id, raw = at, bytes.Clone(object) })
	if !found {
		return source.Ident{}, nil, false, err
	}
	return id, raw, true, err
}
