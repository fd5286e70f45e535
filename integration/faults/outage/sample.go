// SPDX-License-Identifier: Apache-2.0

package outage

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/kube-eventbridge/kube-eventbridge/integration/faults/world"
)

// Sample is a measurement, in bytes. Samples are taken once a second.
type Sample struct {
	// Broker says whether there was one; Since is the time since it went, 0 before that.
	Broker bool
	Since  time.Duration
	// Changes is how many were made until then.
	Changes int
	// RSS is the bridge's memory, Buffered what it says to hold, Checkpoint all that it keeps on disk.
	RSS, Buffered, Checkpoint int64
}

// sampler measures the bridge.
type sampler struct {
	world   *world.World
	log     io.Writer
	changes func() int
	taken   []Sample

	mu     sync.Mutex // guards what follows
	went   time.Time
	absent bool
}

// tellEvery is how often a sample is told to a person.
const tellEvery = 60

// gone and back say where the broker is.
func (s *sampler) gone() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.went, s.absent = time.Now(), true
}

func (s *sampler) back() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.absent = false
}

// run measures until ctx ends. The error says that the bridge has ended, or that its files cannot be measured.
func (s *sampler) run(ctx context.Context) error {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		sample, err := s.take(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, errSilent):
			_, _ = fmt.Fprintln(s.log, err)
		case err != nil:
			return err
		default:
			s.keep(sample)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

func (s *sampler) keep(sample Sample) {
	if s.taken = append(s.taken, sample); len(s.taken)%tellEvery == 1 {
		_, _ = fmt.Fprintf(s.log, "%s %+v\n", time.Now().Format(time.TimeOnly), sample)
	}
}

// errSilent says that the bridge runs and does not answer in time: one sample less.
var errSilent = errors.New("the bridge does not say what it holds")

func (s *sampler) take(ctx context.Context) (Sample, error) {
	b := s.world.Bridge()
	if !b.Running() {
		out, _ := b.Stderr()
		return Sample{}, fmt.Errorf("the bridge has ended: %s", out[max(0, len(out)-2000):])
	}
	m, err := b.Metrics(ctx)
	if err != nil {
		return Sample{}, fmt.Errorf("%w: %w", errSilent, err)
	}
	buffered, _ := m.Sum("buffered_bytes")
	size, err := s.checkpoint()
	if err != nil {
		return Sample{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := Sample{Broker: !s.absent, Changes: s.changes(), RSS: b.RSS(), Buffered: int64(buffered), Checkpoint: size}
	if !s.went.IsZero() {
		now.Since = time.Since(s.went)
	}
	return now, nil
}

// checkpoint is the size of all that the bridge keeps.
func (s *sampler) checkpoint() (size int64, err error) {
	files, err := s.world.CheckpointFiles()
	if err != nil {
		return 0, err
	}
	for _, name := range files {
		info, err := os.Stat(name)
		if errors.Is(err, os.ErrNotExist) {
			continue // a temporary one
		}
		if err != nil {
			return 0, fmt.Errorf("measure the checkpoint: %w", err)
		}
		size += info.Size()
	}
	return size, nil
}
