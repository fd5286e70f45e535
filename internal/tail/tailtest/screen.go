// SPDX-License-Identifier: Apache-2.0

// Package tailtest has what tests of logs that tail shows have in common.
package tailtest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/kube-eventbridge/kube-eventbridge/internal/event"
	"github.com/kube-eventbridge/kube-eventbridge/internal/tail"
)

// Screen is where a tail under test writes.
type Screen struct {
	mu             sync.Mutex
	events         []*event.Event
	lines, notices []string
	result         error
	ended          bool
}

// Print notes the event, and a line of it in short.
func (s *Screen) Print(e *event.Event, previous func() *event.Event) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.events = append(s.events, e)
	line := fmt.Sprintf("%s %s@%s %s", e.Op, e.Attr("name"), e.Attr("resourceversion"), tail.Describe(e, previous, 4))
	s.lines = append(s.lines, strings.TrimSpace(line))
	return nil
}

// Notice notes what is said beside the events.
func (s *Screen) Notice(line string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.notices = append(s.notices, line)
}

// Events returns the events that were printed.
func (s *Screen) Events() []*event.Event {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.events)
}

// Text returns the lines that were printed.
func (s *Screen) Text() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.lines, "\n")
}

// Said returns the notices.
func (s *Screen) Said() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.notices, "\n")
}

// End reports whether the tail has ended, and with which error.
func (s *Screen) End() (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ended, s.result
}

// Tail shows a log until the test or stop ends it, and then closes it. The screen prints if cfg says nothing else.
func (s *Screen) Tail(t *testing.T, log event.Log, cfg tail.Config, closeLog func()) (stop func()) {
	t.Helper()
	if cfg.Printer == nil {
		cfg.Printer = s
	}
	cfg.Notice = s.Notice
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		defer closeLog()
		err := tail.Run(ctx, log, cfg)
		s.mu.Lock()
		defer s.mu.Unlock()
		s.ended, s.result = true, err
	})
	stop = func() { cancel(); running.Wait() }
	t.Cleanup(stop)
	return stop
}
