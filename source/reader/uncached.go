// SPDX-License-Identifier: Apache-2.0

package reader

import (
	"context"
	"time"

	"k8s.io/client-go/tools/cache"

	"github.com/kube-eventbridge/kube-eventbridge/source"
	"github.com/kube-eventbridge/kube-eventbridge/source/kube"
)

// uncached is a store that keeps nothing, for a reflector without an informer. What a watch shows is delivered at once;
// what a list shows has been, by the list itself.
type uncached struct{ *handler }

// Add implements [cache.ReflectorStore].
func (u uncached) Add(obj any) error { u.pass(obj); return nil }

// Update implements [cache.ReflectorStore].
func (u uncached) Update(obj any) error { u.pass(obj); return nil }

// Delete implements [cache.ReflectorStore].
func (u uncached) Delete(obj any) error { u.pass(obj); return nil }

// Replace implements [cache.ReflectorStore].
func (uncached) Replace([]any, string) error { return nil }

// Resync implements [cache.ReflectorStore].
func (uncached) Resync() error { return nil }

// useful is how long reading has to last until the next wait is the first one again.
const useful = time.Minute

// reflect reads from the wire without a cache until ctx ends.
func (w *wire) reflect(ctx context.Context, s source.Stream) {
	reflector := cache.NewReflectorWithOptions(w, &object{}, uncached{&handler{feed: w.feed, inside: &w.inside}},
		cache.ReflectorOptions{TypeDescription: s.Name()})
	for backoff := (kube.Backoff{}); ctx.Err() == nil; {
		began := time.Now()
		err := reflector.ListAndWatchWithContext(ctx)
		if time.Since(began) > useful {
			backoff.Reset()
		}
		_ = backoff.Wait(ctx, err) // ctx's end ends the loop
	}
}
