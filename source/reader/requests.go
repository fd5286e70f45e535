// SPDX-License-Identifier: Apache-2.0

package reader

import (
	"context"

	"github.com/kube-eventbridge/kube-eventbridge/source"
	"github.com/kube-eventbridge/kube-eventbridge/source/kube"
	"github.com/kube-eventbridge/kube-eventbridge/source/rawjson"
)

// requests are those of a stream to its API server, each repeated until it succeeds or is given up.
type requests struct {
	client   *kube.Client
	stream   source.Stream
	observer source.Observer
}

// retried repeats a request until it succeeds, is given up, or ctx ends.
func (r *requests) retried(ctx context.Context, giveUp func(error) bool, request func() error) error {
	var retry kube.Backoff
	for {
		err := request()
		if err == nil || giveUp(err) {
			return err
		}
		if err := r.wait(ctx, &retry, err); err != nil {
			return err
		}
	}
}

// firstPage reads the version at which a list begins, and what the API server sends with it: one object, or everything
// where it knows no pages. Exact is the version to list at, or empty for a consistent list; then only the former gives
// up.
func (r *requests) firstPage(ctx context.Context, exact string) (meta rawjson.ListMeta, items [][]byte, err error) {
	giveUp := kube.Expired
	if exact != "" {
		giveUp = new(kube.Patience).Spent
	}
	err = r.retried(ctx, giveUp, func() (err error) {
		meta, items, err = r.client.ReadFirst(ctx, r.stream, kube.PageQuery{Exact: exact})
		return err
	})
	return meta, items, err
}

// page reads a page of a list. Items that were passed on before it broke off are not passed on again: a list has one
// order and one version.
func (r *requests) page(
	ctx context.Context, q kube.PageQuery, giveUp func(error) bool, item func(raw []byte) error,
) (meta rawjson.ListMeta, err error) {
	passed := 0
	err = r.retried(ctx, giveUp, func() (err error) {
		seen := 0
		meta, err = r.client.ReadPage(ctx, r.stream, q, func(raw []byte) error {
			if seen++; seen <= passed {
				return nil
			}
			if err := item(raw); err != nil {
				return err
			}
			passed = seen
			return nil
		})
		return err
	})
	if err == nil {
		r.observer.State(source.Listing, nil)
	}
	return meta, err
}

// wait tells why a request is repeated, and waits until it may be. The error is ctx's.
func (r *requests) wait(ctx context.Context, retry *kube.Backoff, cause error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	r.observer.State(source.Waiting, cause)
	r.observer.Restarted(restartReason(cause))
	return retry.Wait(ctx, cause)
}

// stateAt reads an object as it was at a version. The error is answered where the API server does not tell: the version
// may be gone, and not every API server knows such requests.
func (r *requests) stateAt(
	ctx context.Context, id source.Ident, version string,
) (found source.Ident, there bool, err error) {
	tries := 0
	giveUp := func(err error) bool {
		tries++
		return tries >= checkTries || kube.Unanswerable(err) || !kube.Answered(err)
	}
	err = r.retried(ctx, giveUp, func() (err error) {
		q := kube.PageQuery{Exact: version, Identities: true, Placed: true}
		found, _, there, err = kube.ReadState(ctx, r.client, r.stream, id, q)
		return err
	})
	return found, there, err
}
