// SPDX-License-Identifier: Apache-2.0

package source

import (
	"context"
	"errors"
)

var errNoVersion = errors.New("a list at an exact version needs one")

// Audit calls f with the identity of every object that the stream had at exactly version, in no order that is promised. It
// reads metadata only, in pages, and holds one object at a time.
//
// The error is f's, which ends it, or says why the list could not be read, or not to its end: nothing is repeated, and what f was told before
// holds. API servers forget old versions (410), do not have future ones (504), and not all know such lists.
func Audit(ctx context.Context, c *Client, s Stream, version string, f func(Ident) error) error {
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
			return f(id.Ident)
		})
		if err != nil || meta.Continue == "" {
			return err
		}
		q = pageQuery{limit: pageSize, token: meta.Continue, identities: true}
	}
}

// ReadAt returns the identity of one object as the stream had it at exactly version. Found is false where the stream did not have it
// then: it did not exist, or the selectors did not match. The error says why the API server does not tell, see [Audit]; nothing is repeated.
func ReadAt(ctx context.Context, c *Client, s Stream, namespace, name, version string) (id Ident, found bool, err error) {
	if version == "" {
		return Ident{}, false, errNoVersion
	}
	key := Ident{Namespace: namespace, Name: name}
	found, err = c.readExact(ctx, s, key, pageQuery{exact: version, identities: true}, func(at Ident, _ []byte) { id = at })
	if !found {
		id = Ident{}
	}
	return id, found, err
}
