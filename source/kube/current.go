// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"errors"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/kube-eventbridge/kube-eventbridge/internal/pause"
	"github.com/kube-eventbridge/kube-eventbridge/source"
	"github.com/kube-eventbridge/kube-eventbridge/source/rawjson"
)

// Item is an object of a list. It is valid until the function that it is handed to returns.
type Item struct {
	source.Ident
	// At is the version of the list.
	At       string
	raw      []byte
	resource source.Resource
}

// Size returns about what a [source.Change] with the item's body takes in memory.
func (i *Item) Size() int { return source.ChangeSize(source.ListBodySize(i.raw, i.resource)) }

// Bytes returns the object as the API server sent it. They are lent as long as the item is valid.
func (i *Item) Bytes() []byte { return i.raw }

// Body copies the object into a body with one reference.
func (i *Item) Body() *source.Body { return source.NewListBody(i.raw, i.resource) }

// Current calls f with every object that the stream has, and returns the version of the list, in no order that is
// promised, and holds one at a time. What exists from the call to the
// return is told, once unless the API server forgets the version of the list while it is read, as after some minutes:
// then it is read on as of later. The state is one that the object had in that time.
//
// A page that fails is asked for again, less and less often. The error is f's, which ends it, ctx's, or says why it is
// of no use to ask on, as where an API server that knows no pages has too much to send; what f was told before holds.
func Current(ctx context.Context, c *Client, s source.Stream, f func(*Item) error) (version string, err error) {
	l := currentList{client: c, stream: s, f: f}
	meta, err := l.begin(ctx, "")
	for err == nil && meta.Continue != "" {
		meta, err = l.page(ctx, meta.Continue)
	}
	return l.at, err
}

// currentList is one call of [Current].
type currentList struct {
	client *Client
	stream source.Stream
	f      func(*Item) error
	// at is the version that is read.
	at string
	// stopped is what f has returned.
	stopped error
}

// begin reads on with a token, or without at the beginning, that is of no version: whatever is read is as of then, and
// what is read again is another list. So the page is small, and nothing of it is told before its end. What follows it
// is of its version.
func (l *currentList) begin(ctx context.Context, token string) (meta rawjson.ListMeta, err error) {
	var items [][]byte
	later, err := l.retried(ctx, token, func() (_ bool, err error) {
		meta, items, err = l.client.ReadFirst(ctx, l.stream, PageQuery{Token: token})
		return false, err
	})
	if later != "" {
		return l.begin(ctx, later)
	}
	if err != nil {
		return meta, err
	}
	l.at = meta.ResourceVersion
	for _, raw := range items {
		if err := l.tell(raw); err != nil {
			return meta, err
		}
	}
	return meta, nil
}

// page reads a page of a version. What was told of one that broke off is not told again, unless the list is read on as
// of later: then the page may have other objects.
func (l *currentList) page(ctx context.Context, token string) (meta rawjson.ListMeta, err error) {
	told := 0
	later, err := l.retried(ctx, token, func() (more bool, err error) {
		seen, before := 0, told
		meta, err = l.client.ReadPage(ctx, l.stream, PageQuery{Limit: PageSize, Token: token}, func(raw []byte) error {
			if seen++; seen <= told {
				return nil
			}
			if err := l.tell(raw); err != nil {
				return err
			}
			told = seen
			return nil
		})
		return told > before, err
	})
	if later != "" {
		return l.begin(ctx, later)
	}
	return meta, err
}

// retried reads a page, again and again if need be. Read reports whether it came further than before: f may take longer
// than an API server waits. Later is not empty where the list goes on with that token only.
func (l *currentList) retried(
	ctx context.Context, token string, read func() (more bool, err error),
) (later string, err error) {
	var retry Backoff
	var patient Patience
	for {
		more, err := read()
		later := continuation(err)
		switch {
		case err == nil, l.stopped != nil, ctx.Err() != nil:
			return "", err
		case later != "" && later != token:
			return later, nil
		case more:
			retry.Reset()
			patient = Patience{}
		case patient.Spent(err):
			return "", err
		}
		if err := retry.Wait(ctx, err); err != nil {
			return "", err
		}
	}
}

func (l *currentList) tell(raw []byte) error {
	id, err := source.ParseIdent(raw, l.stream.Namespaced)
	if err != nil {
		return err
	}
	l.stopped = l.f(&Item{Ident: id, At: l.at, raw: raw, resource: l.stream.Resource})
	return l.stopped
}

// continuation returns the token with which a list goes on whose version the API server does not have any more; empty
// where it does not go on.
func continuation(err error) string {
	var status apierrors.APIStatus
	if !Expired(err) || !errors.As(err, &status) {
		return ""
	}
	return status.Status().Continue
}

// Rewound asks the API server for its version again and again, and returns a [source.RewoundError] when that goes back,
// or ctx's error. Next returns the stream that it is asked for: streams of one resource have the same versions.
//
// A watch that is open tells nothing of an etcd that was restored below its API server, or behind a proxy that keeps
// connections. Once the API server has passed the version of the watch again, no watch tells it any more. So this finds
// a restore only if its version stays behind the one before for as long as every.
func Rewound(ctx context.Context, c *Client, next func() source.Stream, every time.Duration) error {
	for shown := ""; ; {
		if err := pause.For(ctx, every); err != nil {
			return err
		}
		s := next()
		meta, err := c.ReadPage(ctx, s, PageQuery{Limit: 1}, func([]byte) error { return nil })
		if err != nil {
			continue // who reads the stream meets it, too
		}
		now := meta.ResourceVersion
		if now != shown && source.Later(now, shown) == shown {
			return &source.RewoundError{Stream: s.Name(), Position: shown, Server: now}
		}
		shown = now
	}
}
