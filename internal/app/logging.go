// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"

	"golang.org/x/term"

	"github.com/kube-eventbridge/kube-eventbridge/internal/config"
)

// newLogger logs what is at a level or above it, as text to a terminal and as JSON to anything else, unless the
// configuration says which.
func newLogger(w io.Writer, c config.Log, at slog.Leveler) *slog.Logger {
	text := c.Format == config.FormatText
	if f, ok := w.(*os.File); ok && c.Format == config.FormatAuto {
		text = term.IsTerminal(int(f.Fd()))
	}
	options := &slog.HandlerOptions{Level: at}
	if text {
		return slog.New(slog.NewTextHandler(w, options))
	}
	return slog.New(slog.NewJSONHandler(w, options))
}

func level(l config.Level) slog.Level {
	var parsed slog.Level
	if err := parsed.UnmarshalText([]byte(l)); err != nil {
		panic("BUG: log level " + string(l))
	}
	return parsed
}

// quiet hands on what client-go and its kind say to everyone, klog's V(0) and V(1). What they say from V(2) on, for
// those who develop them, has a level below -1 here, and would be among what level debug shows.
type quiet struct{ slog.Handler }

// Enabled implements slog.Handler.
func (q quiet) Enabled(ctx context.Context, l slog.Level) bool {
	return l >= slog.LevelInfo-1 && q.Handler.Enabled(ctx, l)
}

// WithAttrs implements slog.Handler.
func (q quiet) WithAttrs(attrs []slog.Attr) slog.Handler { return quiet{q.Handler.WithAttrs(attrs)} }

// WithGroup implements slog.Handler.
func (q quiet) WithGroup(name string) slog.Handler { return quiet{q.Handler.WithGroup(name)} }

// Handle implements slog.Handler. An error that only says that this process has ended a request is no news.
func (q quiet) Handle(ctx context.Context, r slog.Record) error {
	ended := false
	r.Attrs(func(a slog.Attr) bool {
		err, is := a.Value.Any().(error)
		ended = ended || is && errors.Is(err, context.Canceled)
		return !ended
	})
	if ended {
		return nil
	}
	return q.Handler.Handle(ctx, r)
}
