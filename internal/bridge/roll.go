// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"context"
	"sync"

	"golang.org/x/sync/errgroup"
)

// roll is what there is to be read at one time.
type roll[K comparable, V any] struct {
	// all is by what tells one from another; nil: it is not known yet.
	all map[K]V
	// over: when what is being read has ended, that was all.
	over bool
	// changed and moved are closed when the roll may be another one; one that is nil never is.
	changed, moved <-chan struct{}
}

// readEach reads what call returns, each in a goroutine of its own, as it comes and until it ends by itself, until ctx ends or the roll is over. What has ended is read again if it
// is still called, unless read returns that it is done for good. Begun is called once when all is open that was called first; read calls opened when something is. It returns
// when everything has ended, with the first error, which ends all.
func readEach[K comparable, V any](
	ctx context.Context, call func() roll[K, V], read func(ctx context.Context, what V, opened func()) (done bool, err error), begun func(),
) error {
	reading, ended := map[K]struct{}{}, make(chan K)
	streams, ctx := errgroup.WithContext(ctx)
	start := func(key K, what V, opened func()) {
		streams.Go(func() error {
			defer opened()
			if done, err := read(ctx, what, opened); done || err != nil {
				return err
			}
			select {
			case ended <- key:
			case <-ctx.Done():
			}
			return nil
		})
	}
	streams.Go(func() error {
		for first := true; ; {
			now := call()
			var opening sync.WaitGroup
			for key, what := range now.all {
				if _, taken := reading[key]; !taken {
					reading[key] = struct{}{}
					opening.Add(1)
					start(key, what, sync.OnceFunc(opening.Done))
				}
			}
			if first && now.all != nil {
				first = false
				streams.Go(func() error {
					opening.Wait()
					begun()
					return nil
				})
			}
			if now.over && len(reading) == 0 {
				return nil
			}
			select {
			case <-now.changed:
			case <-now.moved:
			case key := <-ended:
				delete(reading, key)
			case <-ctx.Done():
				return nil
			}
		}
	})
	return streams.Wait()
}
