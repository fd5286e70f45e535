// SPDX-License-Identifier: Apache-2.0

// Package testlog collects what programs and loggers write in tests.
package testlog

import (
	"log/slog"
	"strings"
	"sync"
)

// Text is a writer that can be read at the same time. The zero value is ready for use.
type Text struct {
	mu   sync.Mutex
	text strings.Builder
}

// Write implements [io.Writer].
func (t *Text) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.text.Write(b)
}

// String is all that was written so far.
func (t *Text) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.text.String()
}

// Count is how often a part was written.
func (t *Text) Count(part string) int { return strings.Count(t.String(), part) }

// Logger writes to the text.
func (t *Text) Logger() *slog.Logger { return slog.New(slog.NewTextHandler(t, nil)) }
