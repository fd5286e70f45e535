// SPDX-License-Identifier: Apache-2.0

package kafka

import (
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/kube-eventbridge/kube-eventbridge/sink"
)

// health is what does not work now.
type health struct {
	log *slog.Logger
	// often is for saying what may be true of every attempt.
	often rate.Sometimes

	mu sync.Mutex
	// down is why nothing can be published at all; failures is what does not work, by the place.
	down     error
	failures map[string]error
}

func newHealth(log *slog.Logger) *health {
	return &health{
		log: log, often: rate.Sometimes{Interval: 10 * time.Second}, down: sink.ErrNotRunning, failures: map[string]error{},
	}
}

// err returns why not all can be published: the same reason each time.
func (h *health) err() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.down != nil && !errors.Is(h.down, errNotConnected) {
		return h.down
	}
	for _, place := range slices.Sorted(maps.Keys(h.failures)) {
		return h.failures[place]
	}
	return h.down
}

// setDown says why nothing can be published, or that it can.
func (h *health) setDown(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.down = err
}

// failing takes note of what does not work at a place.
func (h *health) failing(place string, err error) {
	h.mu.Lock()
	h.failures[place] = err
	h.mu.Unlock()
	h.often.Do(func() { h.log.Warn("the broker is not usable now", "at", place, "err", err) })
}

// working takes note that a place works.
func (h *health) working(place string) {
	h.mu.Lock()
	delete(h.failures, place)
	h.mu.Unlock()
}
