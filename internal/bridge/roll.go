// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/kube-eventbridge/kube-eventbridge/internal/pause"
)

// recess is between the end of what was read and its next beginning: what ends at once each time is not to keep the machine busy.
const recess = 500 * time.Millisecond

// roll is what there is to be read at one time.
type roll[K comparable, V any] struct {
	// all is by what tells one from another; nil: it is not known yet.
	all map[K]V
	// over: when what is being read has ended, that was all.
	over bool
	// changed, moved, edited and ends are closed when the roll may be another one; one that is nil never is.
	changed, moved, edited, ends <-chan struct{}
	// edition is another number where what was done for good may be called once more.
	edition int
}

// readEach reads what call returns, each in a goroutine of its own, as it comes and until it ends by itself, until ctx ends or the roll is over. What has ended is read again after
// a recess if it is still called, unless read returns that it is done for good: then in another edition only. Begun is called once when all is open that was called first; read calls opened when something is. It
// returns when ctx has ended, when the roll is over and nothing is read any more, or with the first error, which ends all.
func readEach[K comparable, V any](
	ctx context.Context, call func() roll[K, V], read func(ctx context.Context, what V, opened func()) (done bool, err error), begun func(),
) error {
	type outcome struct {
		key  K
		done bool
	}
	// Reading has in which edition each began: what an earlier one has finished may be called again.
	reading, finished, ended := map[K]int{}, map[K]struct{}{}, make(chan outcome)
	streams, ctx := errgroup.WithContext(ctx)
	start := func(key K, what V, opened func()) {
		streams.Go(func() error {
			done, err := read(ctx, what, opened)
			opened()
			if err != nil || !done && pause.For(ctx, recess) != nil {
				return err
			}
			select {
			case ended <- outcome{key, done}:
			case <-ctx.Done():
			}
			return nil
		})
	}
	open := func(now roll[K, V]) (opening *sync.WaitGroup) {
		opening = &sync.WaitGroup{}
		for key, what := range now.all {
			_, taken := reading[key]
			if _, over := finished[key]; taken || over {
				continue
			}
			reading[key] = now.edition
			opening.Add(1)
			start(key, what, sync.OnceFunc(opening.Done))
		}
		return opening
	}
	streams.Go(func() error {
		for first, edition := true, 0; ; {
			now := call()
			if now.edition != edition {
				edition = now.edition
				clear(finished)
			}
			opening := open(now)
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
			case <-now.edited:
			case <-now.ends:
			case o := <-ended:
				if o.done && reading[o.key] == edition {
					finished[o.key] = struct{}{}
				}
				delete(reading, o.key)
			case <-ctx.Done():
				return nil
			}
		}
	})
	return streams.Wait()
}
