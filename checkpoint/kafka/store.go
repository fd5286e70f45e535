// SPDX-License-Identifier: Apache-2.0

package kafka

import (
	"context"
	"fmt"
	"time"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	"github.com/kube-eventbridge/kube-eventbridge/checkpoint/internal/session"
	"github.com/kube-eventbridge/kube-eventbridge/internal/kafka"
	"github.com/kube-eventbridge/kube-eventbridge/internal/pause"
)

// broker is what a partition is read and written with.
type broker interface {
	reader
	writer
}

// Store is an open checkpoint. It is a [checkpoint.Store]; all methods may be called concurrently.
type Store struct {
	cfg     Config
	session *session.Session
	log     log
	fence   fence
	out     *producer
	// close ends the connections; it may be nil.
	close func()

	// barrier is the last one that this store wrote; origin says that the log has one.
	barrier kafka.Producer
	origin  bool

	// contents are what the log is known to have; stale says that it may have more.
	contents
	stale bool
	// present bounds the chunks that the log may have.
	present uint64
	// litter are the keys of rows of streams that had been forgotten when the log was read.
	litter []string

	// opened is what was read when the store was opened, until it is asked for or no longer true.
	opened *replay
	// value and chunk are built here.
	value, chunk []byte
}

// contents are the head and the numbers of streams.
type contents struct {
	head    head
	numbers map[string]uint64
}

var (
	_ checkpoint.Store  = (*Store)(nil)
	_ checkpoint.Holder = (*Store)(nil)
)

// Open opens the checkpoint of want, or begins it, and creates the topic if it is missing. From then on no other
// process that has opened the checkpoint before can commit. It reads all of a partition.
//
// A process that uses the checkpoint, and writes to it, is left alone: the error is a [*checkpoint.HeldError]. Open
// waits up to 15 s to see whether it writes. It does not wait if the process has closed the checkpoint, or is known to
// have ended because it ran on this host, or has no permission for its transactional id, or if cfg.Elected.
//
// A step that fails is tried again for as long as cfg.Patience, and until ctx ends. The error is a
// [*checkpoint.ForeignError] when the checkpoint belongs to another identity than want, and then nothing was done to
// it; a [*SettingsError], [*checkpoint.FormatError], [*checkpoint.DamagedError] or
// [*checkpoint.TakenError]; what is not [checkpoint.IsPermanent] may pass.
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
	use := session.New(cfg.path(), want, cfg.Patience)
	s := &Store{cfg: cfg, session: use, log: newLog(&cfg, use, c)}
	s.fence = fence{cfg: &s.cfg, session: use, broker: c}
	if err := s.open(ctx, c); err != nil {
		return nil, session.Named("open", use.Path, err)
	}
	return s, nil
}

func (s *Store) open(ctx context.Context, c cluster) error {
	partitions, err := s.cfg.find(ctx, c)
	if err != nil {
		return err
	}
	limit, err := s.cfg.check(ctx, c)
	if err != nil {
		return err
	}
	r, err := s.log.locate(ctx, partitions)
	if err != nil {
		return err
	}
	if err := r.admit(s.session.Want); err != nil { // before anything is done to it
		return err
	}
	if !s.cfg.Elected {
		if err := s.log.awaitEnd(ctx, r); err != nil {
			return err
		}
	}
	s.origin = r.origin
	s.out = newProducer(&s.cfg, s.session, c, r.partition, limit)
	if err := s.enlist(ctx); err != nil {
		return err
	}
	if err := s.readOn(ctx, r); err != nil {
		return err
	}
	s.opened = r
	return nil
}

// Load implements [checkpoint.Store].
func (s *Store) Load(ctx context.Context) (state *checkpoint.State, err error) {
	err = s.session.Do(ctx, s.cfg.Patience, func() error {
		state, err = s.load(ctx)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("load checkpoint: %w", err)
	}
	return state, nil
}

func (s *Store) load(ctx context.Context) (*checkpoint.State, error) {
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
	return s.session.Commit(ctx, b, func() error {
		s.opened = nil
		defer s.release()
		return s.commit(ctx, b)
	})
}

// Close ends the connections, and tells the next process before that the checkpoint is free. What was committed stays;
// a store may be closed twice.
func (s *Store) Close() error {
	leave := func(ctx context.Context) error { return s.sign(ctx, "") }
	return s.session.Close(leave, func() {
		s.opened = nil
		if s.close != nil {
			s.close()
		}
	})
}

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
