// SPDX-License-Identifier: Apache-2.0

package stream

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"golang.org/x/time/rate"

	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge/delivery"
	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge/ledger"
	"github.com/kube-eventbridge/kube-eventbridge/sink"
	"github.com/kube-eventbridge/kube-eventbridge/source"
	"github.com/kube-eventbridge/kube-eventbridge/source/kube"
	"github.com/kube-eventbridge/kube-eventbridge/source/reader"
	"github.com/kube-eventbridge/kube-eventbridge/source/sharing"
)

// Environment is what the streams of a session have in common.
type Environment struct {
	Session
	Pipeline string
	Log      *slog.Logger
	Client   *kube.Client
	Watches  *sharing.Watches
	Recovery reader.Recovery
	Audit    time.Duration
	// ResyncRate is how many objects of a stream are published again in a second, at most.
	ResyncRate rate.Limit
	// PrimeTime is the constant, but in tests.
	PrimeTime time.Duration
	// Checks says that the broker checks what each message follows.
	Checks bool
	// Refresh has what is served looked up again.
	Refresh  func()
	Budget   *delivery.Budget
	Delivery *delivery.Deliverer
	Epochs   *ledger.Epochs
}

// Session is what a stream needs of the session that has opened it.
type Session interface {
	// Save returns when what is settled now is durable. The error is ctx's, or permanent.
	Save(ctx context.Context) error
	// Exclusive calls f while nothing is committed. It may be called with no stream's lock held.
	Exclusive(f func())
	// NextResync returns a number for a resync or a repair: the one that is asked for, unless it was used. It is durable
	// with the next commit, which precedes its first use. The caller is called by Exclusive.
	NextResync(asked int64) int64
	// Restored gives all other streams an epoch of a stream's, those that do not run now included. The caller is called
	// by Exclusive.
	Restored(s *Stream, epoch uint64, cause *source.RewoundError)
	// Share is how much each stream may hold of deleted objects.
	Share() int64
	// Fenced says that the broker refuses what a replaced process publishes late.
	Fenced() bool
	// Interrupt ends the session: the log has an epoch that the checkpoint has not given.
	Interrupt()
}

// Ended leaves out what only says that a session, or a stream, was stopped.
func Ended(err error) error {
	if errors.Is(err, context.Canceled) || errors.Is(err, sink.ErrNotRunning) {
		return nil
	}
	return err
}
