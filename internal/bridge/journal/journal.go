// SPDX-License-Identifier: Apache-2.0

// Package journal keeps a pipeline's checkpoint. It reads the checkpoint once. Then it saves the positions and ledgers
// of open streams, what is stored of the others, and what is known of the log.
//
// Locks are taken in this order: committing, mu, and then the lock of a stream.
package journal

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge/delivery"
	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge/health"
	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge/ledger"
	"github.com/kube-eventbridge/kube-eventbridge/internal/pause"
)

const (
	// Every is how often a pipeline commits, and the time before a commit that has failed is tried again.
	Every = time.Second
	// maxDelay is between two tries of a load or a commit that is waited for.
	maxDelay = 10 * time.Second
	// firstLoadDelay is between the first two attempts to read the checkpoint.
	firstLoadDelay = 250 * time.Millisecond
	// logEvery is how often it is logged that the checkpoint cannot be read or saved.
	logEvery = 10 * time.Second
)

var news = health.Intervals{Same: logEvery, Other: logEvery}

// Stream is an open stream. Its methods are called by one goroutine at a time.
type Stream interface {
	// Changes returns what a commit must hold of the stream, and whether at differs from what the store has.
	Changes() (at checkpoint.Stream, changed bool, put map[string]checkpoint.Row, drop []string)
	// Committed takes note that the store has what a batch names of the stream.
	Committed(b *checkpoint.Batch)
	// Doubt takes note that the store may have what a batch names of the stream, or not.
	Doubt(b *checkpoint.Batch)
}

// Config is what a journal works with. All fields are needed.
type Config struct {
	Store    checkpoint.Store
	Identity checkpoint.Identity
	Log      *slog.Logger
	Epochs   *ledger.Epochs
	Offsets  *delivery.Offsets
}

// Journal keeps the checkpoint of a pipeline between two starts from it. Its methods may be called by several
// goroutines at a time, Load and Adopt excepted.
type Journal[S Stream] struct {
	streams[S]
	cfg Config
	// condition says why the checkpoint cannot be read or saved. Loading: it is being read.
	condition health.Condition
	loading   atomic.Bool
	// saved is when the last commit succeeded, in nanoseconds since 1970. Known are the streams that the store knew when
	// it was read.
	saved atomic.Int64
	known atomic.Pointer[[]string]

	// committing is held during a commit, and guards what follows.
	committing sync.Mutex
	// log is what the store has of the log, unless it is changed.
	log        checkpoint.Log
	logChanged bool
}

// New returns the journal of a store that has nothing, until Load.
func New[S Stream](c Config) *Journal[S] {
	return &Journal[S]{cfg: c, streams: streams[S]{unsaved: map[string]checkpoint.Stream{}, stored: &checkpoint.State{
		Streams: map[string]checkpoint.Stream{}, Rows: map[string]map[string]checkpoint.Row{},
	}}}
}

// Load reads the checkpoint, however often that takes. The error is ctx's, or permanent.
func (j *Journal[S]) Load(ctx context.Context) error {
	state, err := j.read(ctx)
	if err != nil {
		return err
	}
	if state.Streams == nil {
		state.Streams = map[string]checkpoint.Stream{}
	}
	if state.Rows == nil {
		state.Rows = map[string]map[string]checkpoint.Row{}
	}
	j.stored, j.log, j.resyncNew = state, state.Log, state.Log.ResyncNew
	j.cfg.Epochs.Observe(state.Log.Given)
	for _, saved := range state.Streams {
		j.cfg.Epochs.Observe(saved.Epoch)
	}
	known := slices.Collect(maps.Keys(state.Streams))
	j.known.Store(&known)
	j.saved.Store(time.Now().UnixNano())
	return nil
}

func (j *Journal[S]) read(ctx context.Context) (*checkpoint.State, error) {
	j.loading.Store(true)
	for delay := firstLoadDelay; ; delay = min(2*delay, maxDelay) {
		state, err := j.cfg.Store.Load(ctx)
		switch {
		case err != nil && ctx.Err() != nil:
			return nil, ctx.Err()
		case err == nil, checkpoint.IsPermanent(err):
			j.observeLoad(nil)
			j.loading.Store(false)
			return state, err
		}
		j.observeLoad(err)
		if err := pause.For(ctx, delay); err != nil {
			return nil, err
		}
	}
}

// observeLoad takes note of how reading the checkpoint went, and logs what is news.
func (j *Journal[S]) observeLoad(err error) {
	switch n, since := j.condition.Observe(err, news); n {
	case health.Begins:
		j.cfg.Log.Warn("waiting for the checkpoint", "err", err)
	case health.Lasts:
		j.cfg.Log.Warn("still waiting for the checkpoint", "since", since.Format(time.TimeOnly), "err", err)
	case health.Ends:
		j.cfg.Log.Info("checkpoint answers", "after", time.Since(since).Round(time.Millisecond).String())
	case health.Nothing:
	}
}

// Loading returns why nothing can begin: the checkpoint is being read. Nil where it is not.
func (j *Journal[S]) Loading() error {
	if !j.loading.Load() {
		return nil
	}
	if _, err := j.condition.Problem(); err != nil {
		return err
	}
	return errLoading
}

var errLoading = errors.New("it is being read")

// Problem returns since when the checkpoint cannot be read or saved, and why; a nil error if it can.
func (j *Journal[S]) Problem() (since time.Time, err error) { return j.condition.Problem() }

// Saved returns when the last commit succeeded, or the checkpoint was read; zero before that.
func (j *Journal[S]) Saved() time.Time {
	if at := j.saved.Load(); at != 0 {
		return time.Unix(0, at)
	}
	return time.Time{}
}

// Known returns the streams that the store knew when it was read.
func (j *Journal[S]) Known() []string {
	if known := j.known.Load(); known != nil {
		return *known
	}
	return nil
}

// Adopt commits a batch, if there is one, and takes over what is known of the log then. After the batch the store has
// what State says. The error is ctx's, or permanent.
func (j *Journal[S]) Adopt(ctx context.Context, b *checkpoint.Batch, log checkpoint.Log) error {
	if b != nil {
		if err := j.insist(ctx, func() error { return j.cfg.Store.Commit(ctx, b) }); err != nil {
			return err
		}
	}
	j.log, j.resyncNew = log, log.ResyncNew
	return nil
}
