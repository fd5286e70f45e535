// SPDX-License-Identifier: Apache-2.0

package kafka

import (
	"context"
	"errors"

	"golang.org/x/sync/errgroup"

	"github.com/kube-eventbridge/kube-eventbridge/internal/pause"
	"github.com/kube-eventbridge/kube-eventbridge/sink"
)

// Run implements [sink.Sink]. It becomes the pipeline's only writer, writes a barrier to each partition, and publishes
// until ctx ends. A topic that is missing is created if [Config].Create says how; one that exists is never changed,
// only checked. A cluster that is away, or refuses the credentials or the permissions, is waited for. When ctx ends,
// what has no answer yet is told ctx's error: drain before. Run is called once.
//
// The error is a [*sink.UnusableError] when a topic must not be used, or another process has become the pipeline's
// writer; a [*sink.RewoundError] when a partition has lost what was acknowledged, or Bounds told of; and a
// [*sink.InterruptedError] when a broker does not know any more what it has of a batch that may be there.
func (s *Sink) Run(ctx context.Context) error {
	if !s.started.CompareAndSwap(false, true) {
		return errors.New("kafka: Run was called a second time")
	}
	s.health.setDown(errNotConnected)
	err := s.serve(ctx)
	if ctx.Err() != nil {
		err = nil
	}
	s.end(ctx, err)
	return err
}

func (s *Sink) serve(ctx context.Context) error {
	if err := s.insistOn(ctx, "producer", s.writer.begin); err != nil {
		return err
	}
	var known []string
	err := s.insistOn(ctx, "topics", func(ctx context.Context) (err error) {
		known, err = s.topics.known(ctx, s.client)
		return err
	})
	if err != nil {
		return err
	}
	work, ctx := errgroup.WithContext(ctx)
	work.Go(func() error { return s.openAll(ctx, work, known) })
	work.Go(func() error { return s.renew(ctx) })
	work.Go(func() error { return s.look(ctx) })
	return work.Wait()
}

// insistOn calls attempt until it succeeds, and says meanwhile that a place does not work. The error is ctx's, or
// final.
func (s *Sink) insistOn(ctx context.Context, place string, attempt func(context.Context) error) error {
	for n := 1; ; n++ {
		err := attempt(ctx)
		switch {
		case err == nil:
			s.health.working(place)
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case final(err):
			return err
		}
		s.health.failing(place, err)
		if pause.For(ctx, pause.Backoff(n, s.cfg.Wait, maxWait)) != nil {
			return ctx.Err()
		}
	}
}

var errNotConnected = errors.New("not connected yet")

// final reports whether err must end Run.
func final(err error) bool {
	var unusable *sink.UnusableError
	var rewound *sink.RewoundError
	var interrupted *sink.InterruptedError
	return errors.As(err, &unusable) || errors.As(err, &rewound) || errors.As(err, &interrupted)
}

// openAll opens the topics that are known, and then each that is asked for, and publishes to them.
func (s *Sink) openAll(ctx context.Context, work *errgroup.Group, known []string) error {
	for _, name := range known {
		if _, err := s.topics.want(name); err != nil {
			return unusable(name, err.Error(), "use fewer topics, or other names")
		}
	}
	for opened := 0; ; opened++ {
		if opened == len(known) {
			close(s.up)
			s.health.setDown(nil)
		}
		select {
		case t := <-s.topics.asked:
			if err := s.insistOn(ctx, t.name, func(ctx context.Context) error { return s.open(ctx, t) }); err != nil {
				return err
			}
			for _, p := range t.partitions {
				work.Go(func() error { return p.run(ctx) })
			}
			close(t.open)
		case <-ctx.Done():
			return nil
		}
	}
}

// end settles what is left when nothing else does any more. Calls of the log's methods fail.
func (s *Sink) end(ctx context.Context, err error) {
	if err == nil {
		err = ctx.Err()
	}
	s.health.setDown(sink.ErrNotRunning)
	close(s.over)
	for _, t := range s.topics.opened() { // nothing was taken for others
		for _, p := range t.partitions {
			p.close(err)
		}
	}
	s.client.Close()
}
