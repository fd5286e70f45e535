// SPDX-License-Identifier: Apache-2.0

package reader

import (
	"context"
	"time"

	"github.com/kube-eventbridge/kube-eventbridge/source"
	"github.com/kube-eventbridge/kube-eventbridge/source/kube"
)

// list streams every object to the feed and returns the list's version. The error is ctx's, a [source.RewoundError], or
// one of expiry, after which a new list may succeed.
func (w *wire) list(ctx context.Context) (version string, err error) {
	w.observer.State(source.Listing, nil)
	w.unreserve() // a watch goes on from the list's version
	// The first page tells the version before anything is published.
	meta, first, err := w.begin(ctx)
	if err != nil {
		return "", err
	}
	version = meta.ResourceVersion
	if err := w.startList(ctx, version); err != nil {
		return "", err
	}
	n := 0
	take := func(raw []byte) error { n++; return w.item(ctx, raw) }
	for _, raw := range first {
		if err := take(raw); err != nil {
			return "", err
		}
	}
	for meta.Continue != "" {
		if meta, err = w.page(ctx, kube.PageQuery{Limit: kube.PageSize, Token: meta.Continue}, kube.Expired,
			take); err != nil {
			return "", err
		}
	}
	return version, w.note(ctx, source.Progress{
		Kind: source.Listed, Version: version, Objects: n,
		Seen: time.Now(),
	})
}

func (w *wire) startList(ctx context.Context, version string) error {
	start := source.Progress{Kind: source.SnapshotStarted, Version: version, Seen: time.Now()}
	if w.at != "" {
		if err := w.checkVersion(w.at, version); err != nil {
			return err
		}
		start.Kind, start.Why = source.Gap, source.Why{Cause: w.gap.why.Cause, Message: w.gap.text()}
	}
	err := w.note(ctx, start)
	w.gap.announced()
	return err
}

// item passes one object of a list to the feed.
func (w *wire) item(ctx context.Context, raw []byte) error {
	id, err := source.ParseIdent(raw, w.stream.Namespaced)
	if err != nil {
		return err
	}
	size := source.ChangeSize(source.ListBodySize(raw, w.stream.Resource))
	ticket, err := w.feed.Admit(ctx, "", size)
	if err != nil {
		return err
	}
	reason := source.ReasonSnapshot
	if w.at != "" {
		reason = source.ReasonRelist
	}
	w.feed.Deliver(source.Change{
		Op: source.Added, Ident: id, Body: source.NewListBody(raw, w.stream.Resource), Reason: reason, Seen: time.Now(),
		Ticket: ticket, Size: size,
		Listed: true,
	})
	return nil
}
