// SPDX-License-Identifier: Apache-2.0

package source

import (
	"context"
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// Item is an object of a list. It is valid until the function that it is handed to returns.
type Item struct {
	Ident
	raw      []byte
	resource Resource
}

// Size returns about what a [Change] with the item's body takes in memory.
func (i *Item) Size() int { return held(bodySize(i.raw, i.resource)) }

// Body copies the object into a body with one reference.
func (i *Item) Body() *Body { return newListBody(i.raw, i.resource) }

// Current calls f with every object that the stream has, in no order that is promised, and holds one at a time. What exists from the call to the
// return is told, once unless a page has to be read twice, in a state that it had in that time. A list whose version the API server forgets while it
// is read, as after some minutes, is read on as of later.
//
// A page that fails is asked for again, less and less often. The error is f's, which ends it, ctx's, or says why it is of no use to ask on; what f was
// told before holds.
func Current(ctx context.Context, c *Client, s Stream, f func(*Item) error) error {
	l := currentList{client: c, stream: s, f: f}
	q := pageQuery{limit: pageSize}
	for {
		meta, err := l.page(ctx, q)
		if err != nil || meta.Continue == "" {
			return err
		}
		q = pageQuery{limit: pageSize, token: meta.Continue}
	}
}

// currentList is one call of [Current].
type currentList struct {
	client *Client
	stream Stream
	f      func(*Item) error
	// stopped is what f has returned.
	stopped error
}

// page reads a page, again and again if need be. What was told of one that broke off is not told again, unless the list is read on as of later: then the
// page may have other objects.
func (l *currentList) page(ctx context.Context, q pageQuery) (listMeta, error) {
	var retry backoff
	var patient patience
	for told := 0; ; {
		seen, before := 0, told
		meta, err := l.client.readPage(ctx, l.stream, q, func(raw []byte) error {
			if seen++; seen <= told {
				return nil
			}
			if err := l.tell(raw); err != nil {
				return err
			}
			told = seen
			return nil
		})
		later := continuation(err)
		switch {
		case err == nil, l.stopped != nil, ctx.Err() != nil:
			return meta, err
		case later != "" && later != q.token:
			q.token, told = later, 0
			continue
		case told > before: // f may take longer than an API server waits
			retry.reset()
			patient = patience{}
		case patient.spent(err):
			return meta, err
		}
		if err := retry.wait(ctx, err); err != nil {
			return meta, err
		}
	}
}

func (l *currentList) tell(raw []byte) error {
	id, err := parseObject(raw, l.stream.Namespaced)
	if err != nil {
		return err
	}
	l.stopped = l.f(&Item{Ident: id.Ident, raw: raw, resource: l.stream.Resource})
	return l.stopped
}

// continuation returns the token with which a list goes on whose version the API server does not have any more; empty where it does not go on.
func continuation(err error) string {
	var status apierrors.APIStatus
	if !expired(err) || !errors.As(err, &status) {
		return ""
	}
	return status.Status().Continue
}
