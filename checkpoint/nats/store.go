// SPDX-License-Identifier: Apache-2.0

package nats

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	"github.com/kube-eventbridge/kube-eventbridge/checkpoint/internal/session"
	"github.com/kube-eventbridge/kube-eventbridge/internal/pause"
)

// messages are those of a checkpoint, as a server has them.
type messages interface {
	// append stores a message if the last one has the sequence after, and else returns errMoved.
	append(ctx context.Context, number, after uint64, data []byte) (sequence uint64, err error)
	last(ctx context.Context) (raw, error)
	read(ctx context.Context, after, to uint64, do func(raw)) error
	purge(ctx context.Context, before uint64) error
}

// Store is an open checkpoint. It is a [checkpoint.Store]; all methods may be called concurrently.
type Store struct {
	cfg     Config
	session *session.Session
	log     log
	// close ends the connection; it may be nil.
	close func()

	// writer and epoch are in each message of this store.
	writer, epoch uint64
	// sequence and number are those of the newest message; unsure says that another one of this store may come.
	sequence, number uint64
	unsure           bool
	// room is how much of a commit fits one message.
	room int
	size size

	// opened is what was read when the store was opened, until it is asked for or no longer true.
	opened *checkpoint.State
	// records and message are built here.
	records, message []byte
}

// size is how much the bucket has of the checkpoint.
type size struct {
	// base is what the base costs, since what is behind it does, due from when on there is to be another one.
	base, since, due int
	// before is a sequence before which nothing counts and something is left; 0 is none.
	before uint64
}

var (
	_ checkpoint.Store  = (*Store)(nil)
	_ checkpoint.Holder = (*Store)(nil)
)

// Open opens the checkpoint of want, or begins it, and creates the bucket if it is missing. From then on no other
// process that has opened the checkpoint before can commit. It reads all of the checkpoint.
//
// A process that uses the checkpoint, and writes to it, is left alone: the error is a [*checkpoint.HeldError]. Open
// waits up to 15 s to see whether it writes. It does not wait if the process has closed the checkpoint, or is known to
// have ended because it ran on this host, or if cfg.Elected.
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
	s, err := dial(ctx, cfg, want)
	return s, session.Named("open", cfg.path(), err)
}

func dial(ctx context.Context, cfg Config, want checkpoint.Identity) (*Store, error) {
	b, err := connect(ctx, cfg)
	if err != nil {
		return nil, err
	}
	var limit int
	err = again(ctx, cfg.Patience, func() (err error) {
		limit, err = b.find(ctx)
		return err
	})
	var s *Store
	if err == nil {
		s, err = open(ctx, cfg, want, b, limit)
	}
	if err != nil {
		b.close()
		return nil, err
	}
	s.close = b.close
	return s, nil
}

const (
	// largest is the most of a commit that one message has: others wait while a server takes it.
	largest = 512 << 10
	// headers is more than the headers of a message have besides the checkpoint's name.
	headers = 512
)

func open(ctx context.Context, cfg Config, want checkpoint.Identity, m messages, limit int) (*Store, error) {
	room := min(limit-headers-headSize-2*len(cfg.prefix()), largest)
	if room <= 0 {
		return nil, &SettingsError{
			Bucket: cfg.Bucket, Problem: fmt.Sprintf("it takes messages of %d bytes at most", limit),
			Advice: "let it take 64 KiB at least",
		}
	}
	use := session.New(cfg.path(), want, cfg.Patience)
	s := &Store{cfg: cfg, session: use, log: log{m, use}, room: room}
	return s, s.take(ctx)
}

// Epoch is how often the checkpoint was opened, this time included. It is more than that of any process that has used
// the checkpoint before.
func (s *Store) Epoch() uint64 { return s.epoch }

// Load implements [checkpoint.Store].
func (s *Store) Load(ctx context.Context) (state *checkpoint.State, err error) {
	err = s.session.Do(ctx, s.cfg.Patience, func() error {
		state, err = s.load(ctx)
		return err
	})
	return state, session.Named("load", s.session.Path, err)
}

func (s *Store) load(ctx context.Context) (*checkpoint.State, error) {
	if state := s.opened; state != nil {
		s.opened = nil
		return state, nil
	}
	if s.unsure { // behind another message nothing of what was sent before can come
		if err := s.sign(ctx); err != nil {
			return nil, err
		}
	}
	r, err := s.catchUp(ctx, newReplay())
	if err != nil {
		return nil, err
	}
	return s.log.stateOf(r)
}

// Commit implements [checkpoint.Store]. After an error that is not [checkpoint.IsPermanent] the batch may be there or
// not, and may yet get there until the next Commit or Load ends. It may be committed again, alone or within a later
// one; a later one that leaves out some of what it named leaves open which of the two is true there.
//
// A step that fails is tried again for 10 s, and until ctx ends.
func (s *Store) Commit(ctx context.Context, b *checkpoint.Batch) error {
	return s.session.Commit(ctx, b, func() error {
		s.opened = nil
		s.records = appendBatch(s.records[:0], b)
		err := s.write(ctx, kindCommit, s.records)
		if err == nil {
			s.tidy(ctx)
		}
		if cap(s.records) > keptAfter {
			s.records = nil
		}
		return err
	})
}

// Close ends the connection, and tells the next process before that the checkpoint is free. What was committed stays; a
// store may be closed twice.
func (s *Store) Close() error {
	leave := func(ctx context.Context) error { return s.append(ctx, kindWriter, 0, nil) }
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

// final reports whether the server's answer will be the same if the same is asked again, or somebody has to decide what
// to ask now. A replica that takes over may not have yet what was acknowledged, so that something is lost is not final.
func final(err error) bool {
	var lost *LostError
	var held *checkpoint.HeldError
	if errors.As(err, &held) {
		return true
	}
	return checkpoint.IsPermanent(err) && !errors.As(err, &lost) || errors.Is(err, errNoBucket) || errors.Is(err, errLate)
}
