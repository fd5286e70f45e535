// SPDX-License-Identifier: Apache-2.0

package world

import (
	"context"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/kube-eventbridge/kube-eventbridge/integration/internal/pause"
	"github.com/kube-eventbridge/kube-eventbridge/integration/internal/try"
)

// apiFaults break the API server, or the way to it.
func apiFaults() []Fault {
	return []Fault{
		{Name: "API server killed and restarted", Parts: API, Weight: 6, Cost: 15 * time.Second, run: killAPIServer},
		{Name: "API server stopped gracefully", Parts: API, Weight: 3, Cost: 15 * time.Second, run: stopAPIServer},
		{Name: "answers of the API server cut in the middle of a frame", Parts: API, Cost: 4 * time.Second, run: cutFrames},
		{Name: "API server answers 429", Parts: API, Cost: 8 * time.Second, run: storm(http.StatusTooManyRequests)},
		{Name: "API server answers 500, 503 and 504", Parts: API, Cost: 8 * time.Second, run: storm(
			http.StatusInternalServerError, http.StatusServiceUnavailable, http.StatusGatewayTimeout)},
		{Name: "watch expires in mid-stream", Parts: API, Cost: 6 * time.Second, run: expireWatches},
		{Name: "watch cache behind", Parts: API, Cost: 8 * time.Second, run: delayFrames},
		{Name: "client certificate renewed", Parts: API, Cost: 10 * time.Second, run: renewCertificate},
		{Name: "watches answered late", Parts: API, Weight: 5, Cost: 8 * time.Second, run: delayWatches},
	}
}

func killAPIServer(ctx context.Context, i *injection) error {
	try.Do(i.control.KillAPIServer())
	d := i.between(0, 2*time.Second)
	waited := pause.For(ctx, d)
	try.Do(i.control.StartAPIServer(context.WithoutCancel(ctx)))
	i.note(ctx, "the API server was killed and down for %s and a start", d)
	return waited
}

// stopAPIServer leaves open watches open and silent for as long as the API server's request timeout.
func stopAPIServer(ctx context.Context, i *injection) error {
	began := time.Now()
	stopping, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	stopped := i.control.StopAPIServer(stopping)
	d := time.Since(began)
	try.Do(i.control.StartAPIServer(context.WithoutCancel(ctx)))
	i.note(ctx, "the API server needed %s to stop, and was started again", d.Round(time.Millisecond))
	return stopped
}

func cutFrames(ctx context.Context, i *injection) error {
	want := 1 + i.random.IntN(10)
	before := i.api.now().Halved
	i.api.cutInFrames(want)
	err := i.await(ctx, "frames to cut", func() bool { return i.api.now().Halved >= before+want })
	i.note(ctx, "%d answers ended in the middle of a frame", i.api.now().Halved-before)
	return err
}

// storm answers watches and lists with these codes for a while. It cuts the watches that are open, so that the bridge
// has to ask.
func storm(codes ...int) func(context.Context, *injection) error {
	return func(ctx context.Context, i *injection) error {
		var n atomic.Int64
		retryAfter := i.random.IntN(2)
		i.api.set(func(r *http.Request, next http.RoundTripper) (*http.Response, error) {
			if !isWatch(r) && !isList(r) {
				return next.RoundTrip(r)
			}
			return refusal(r, codes[int(n.Add(1))%len(codes)], retryAfter), nil
		})
		cut := i.api.cut()
		try.Do(i.await(ctx, "a request to refuse", func() bool { return n.Load() > 0 }))
		try.Do(pause.For(ctx, i.between(500*time.Millisecond, 4*time.Second)))
		i.note(ctx, "%d answers cut, %d requests refused, Retry-After %d", cut, n.Load(), retryAfter)
		return nil
	}
}

// expireWatches says 410 in watches that are open, as an API server does whose cache has dropped what a slow watch has
// not read yet. Half the time it names a version as the oldest that is newer than all that were shown, as after a
// compaction.
func expireWatches(ctx context.Context, i *injection) error {
	want, oldest := 1+i.random.IntN(5), int64(0)
	if i.random.IntN(2) == 0 {
		oldest = i.revision(ctx)
	}
	before := i.api.now().Expired
	i.api.expire(want, oldest)
	try.Do(i.await(ctx, "a watch to end", func() bool { return i.api.now().Expired > before }))
	try.Do(pause.For(ctx, i.between(0, 2*time.Second)))
	i.api.expire(0, 0)
	i.note(ctx, "%d watches were told that their version is too old, and %d the oldest", i.api.now().Expired-before,
		oldest)
	return nil
}

// delayFrames keeps back what open watches say.
func delayFrames(ctx context.Context, i *injection) error {
	before := i.api.now().Delayed
	d := i.between(time.Second, 5*time.Second)
	i.api.stop()
	try.Do(pause.For(ctx, d))
	n := i.api.now().Delayed - before
	i.api.let()
	if n == 0 {
		return fmt.Errorf("%w: no watch had anything to say", ErrMissed)
	}
	i.note(ctx, "what %d watches said came up to %s late", n, d)
	return nil
}

// renewCertificate gives the bridge another client certificate, takes no other from then on, and ends what is under
// way.
func renewCertificate(ctx context.Context, i *injection) error {
	next := try.Get(i.issue())
	try.Do(pause.For(ctx, i.between(0, time.Second)))
	before := i.api.now()
	i.api.admit(next)
	i.api.cut()
	try.Do(i.await(ctx, "a watch with the next certificate", func() bool { return i.api.now().Watches > before.Watches }))
	i.note(ctx, "the client certificate was renewed; the old one was refused %d times",
		i.api.now().Status[http.StatusUnauthorized]-before.Status[http.StatusUnauthorized])
	return nil
}

// delayWatches makes new watches wait for their answer.
func delayWatches(ctx context.Context, i *injection) error {
	var n atomic.Int64
	d := i.between(500*time.Millisecond, 4*time.Second)
	i.api.set(func(r *http.Request, next http.RoundTripper) (*http.Response, error) {
		if isWatch(r) {
			n.Add(1)
			if err := pause.For(r.Context(), d); err != nil {
				return nil, err
			}
		}
		return next.RoundTrip(r)
	})
	i.api.cut()
	try.Do(i.await(ctx, "a watch", func() bool { return n.Load() > 0 }))
	try.Do(pause.For(ctx, d))
	i.note(ctx, "%d watches were answered %s late", n.Load(), d)
	return nil
}
