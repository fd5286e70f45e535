// SPDX-License-Identifier: Apache-2.0

package kafka

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	"github.com/kube-eventbridge/kube-eventbridge/internal/kafka"
	"github.com/kube-eventbridge/kube-eventbridge/internal/kafka/batch"
	"github.com/kube-eventbridge/kube-eventbridge/internal/pause"
)

// broker is what a partition is read and written with.
type broker interface {
	reader
	writer
}

// Store is an open checkpoint. It is a [checkpoint.Store]; all methods may be called concurrently.
type Store struct {
	cfg    Config
	want   checkpoint.Identity
	path   string
	broker broker
	// close ends the connections; it may be nil.
	close func()

	mu sync.Mutex
	// broken is why the store must not be used any more.
	broken error

	out  *producer
	keys *keys
	// limit is the largest batch that is made.
	limit int
	// plain: the producer's id is not that of the transactional id. taken is when it was given.
	plain bool
	taken time.Time
	// wrote is when this store wrote last.
	wrote time.Time
	// barrier is the last one that this store wrote; origin says that the log has one.
	barrier kafka.Producer
	origin  bool

	// head and numbers, those of streams, are what the log is known to have; stale says that it may have more.
	head    head
	numbers map[string]uint64
	stale   bool
	// present bounds the chunks that the log may have.
	present uint64
	// litter are the keys of rows of streams that had been forgotten when the log was read.
	litter []string

	// patience is that of the operation that holds mu.
	patience time.Duration

	// opened is what was read when the store was opened, until it is asked for or no longer true.
	opened *replay
	value  []byte
	chunk  []byte
}

var (
	_ checkpoint.Store  = (*Store)(nil)
	_ checkpoint.Holder = (*Store)(nil)
)

var errClosed = errors.New("the store is closed")

// Open opens the checkpoint of want, or begins it, and creates the topic if it is missing. From then on no other
// process that has opened the checkpoint before can commit. It reads all of a partition.
//
// A process that uses the checkpoint, and writes to it, is left alone: the error is a [*checkpoint.HeldError]. Open
// waits up to 15 s to see whether it writes. It does not wait if the process has closed the checkpoint, or is known to
// have ended because it ran on this host, or has no permission for its transactional id, or if cfg.Elected.
//
// A step that fails is tried again for as long as cfg.Patience, and until ctx ends. The error is a
// [*checkpoint.ForeignError] when the checkpoint belongs to another identity than want, and then nothing was done to
// it; a [*SettingsError], [*checkpoint.FormatError], [*DamagedError] or [*TakenError]; what is not
// [checkpoint.IsPermanent] may pass.
func Open(ctx context.Context, cfg Config, want checkpoint.Identity) (*Store, error) {
	cfg = cfg.withDefaults(want)
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("open checkpoint: %w", err)
	}
	client, err := kafka.NewClient(cfg.connection())
	if err != nil {
		return nil, fmt.Errorf("open checkpoint %s: %w", cfg.path(), err)
	}
	s, err := open(ctx, cfg, want, client)
	if err != nil {
		client.Close()
		return nil, err
	}
	s.close = client.Close
	return s, nil
}

// cluster is all that a store needs of one.
type cluster interface {
	broker
	topics
}

func open(ctx context.Context, cfg Config, want checkpoint.Identity, c cluster) (*Store, error) {
	s := &Store{cfg: cfg, want: want, path: cfg.path(), broker: c, keys: newKeys(cfg.Name), patience: cfg.Patience}
	if err := s.open(ctx, c); err != nil {
		if checkpoint.IsPermanent(err) {
			return nil, err
		}
		return nil, fmt.Errorf("open checkpoint %s: %w", s.path, err)
	}
	return s, nil
}

func (s *Store) open(ctx context.Context, t topics) error {
	partitions, err := s.cfg.find(ctx, t)
	if err != nil {
		return err
	}
	if s.limit, err = s.cfg.check(ctx, t); err != nil {
		return err
	}
	r, err := s.locate(ctx, partitions)
	if err != nil {
		return err
	}
	if err := r.admit(s.want); err != nil { // before anything is done to it
		return err
	}
	if err := s.awaitEnd(ctx, r); err != nil {
		return err
	}
	s.origin = r.origin
	s.out = &producer{
		broker: s.broker, topic: s.cfg.Topic, partition: r.partition,
		codec: batch.NewCodec(s.cfg.Compression), patience: s.patience,
	}
	if err := s.enlist(ctx); err != nil {
		return err
	}
	if err := s.readOn(ctx, r); err != nil {
		return err
	}
	s.opened = r
	return nil
}

// bePatient says how long a step of the operation that begins is tried again. The caller holds mu.
func (s *Store) bePatient(d time.Duration) { s.patience, s.out.patience = d, d }

// Load implements [checkpoint.Store].
func (s *Store) Load(ctx context.Context) (*checkpoint.State, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.bePatient(s.cfg.Patience)
	state, err := s.load(ctx)
	if err != nil {
		return nil, fmt.Errorf("load checkpoint: %w", err)
	}
	return state, nil
}

func (s *Store) load(ctx context.Context) (*checkpoint.State, error) {
	if err := s.usable(ctx); err != nil {
		return nil, err
	}
	r := s.opened
	s.opened = nil
	if r != nil {
		return r.state(), nil
	}
	r, err := s.steady(ctx)
	if err == nil && r == nil {
		r, err = s.replay(ctx)
	}
	if err != nil {
		return nil, err
	}
	return r.state(), nil
}

// Commit implements [checkpoint.Store]. After an error that is not [checkpoint.IsPermanent] the batch may be there or
// not, and may yet get there until the next Commit or Load ends. It may be committed again, alone or within a later
// one; a later one that leaves out some of what it named leaves open which of the two is true there.
//
// A step that fails is tried again for 10 s, and until ctx ends.
func (s *Store) Commit(ctx context.Context, b *checkpoint.Batch) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.bePatient(patience)
	if b.Identity != s.want {
		return &checkpoint.ForeignError{Path: s.path, Has: s.want, Want: b.Identity}
	}
	err := s.usable(ctx)
	if err == nil {
		s.opened = nil
		err = s.commit(ctx, b)
		s.release()
	}
	if err == nil || checkpoint.IsPermanent(err) { // which says by itself of which checkpoint it is
		return err
	}
	return fmt.Errorf("commit checkpoint %s: %w", s.path, err)
}

// Close ends the connections, and tells the next process before that the checkpoint is free. What was committed stays;
// a store may be closed twice.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if errors.Is(s.broken, errClosed) {
		return nil
	}
	if s.broken == nil {
		s.leave()
	}
	s.broken, s.opened = errClosed, nil
	if s.close != nil {
		s.close()
	}
	return nil
}

// usable returns why nothing can be done, if so.
func (s *Store) usable(ctx context.Context) error {
	if s.broken != nil {
		return s.broken
	}
	return ctx.Err()
}

// breaks remembers an error after which what this process knows is not to be trusted any more.
func (s *Store) breaks(err error) error {
	s.broken = err
	return err
}

// patience is how long one step of a commit is tried again before its error is returned, and of everything else where
// the configuration does not say.
const patience = 10 * time.Second

// again calls step until it succeeds, fails in a way that another attempt does not help, or patience or ctx ends. The
// last attempt is made when patience ends.
func again(ctx context.Context, patience time.Duration, step func() error) error {
	return pause.Again(ctx, patience, final, step)
}

// final reports whether the broker's answer will be the same if the same is asked again, or somebody has to decide what
// to ask now.
func final(err error) bool {
	return checkpoint.IsPermanent(err) || kafka.Fenced(err) || kafka.Confused(err) || kafka.TooLarge(err) ||
		kafka.Malformed(err) || kafka.Forbidden(err) || kafka.Repeated(err)
}
