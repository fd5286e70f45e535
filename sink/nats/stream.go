// SPDX-License-Identifier: Apache-2.0

package nats

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"

	gonats "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/kube-eventbridge/kube-eventbridge/internal/natsclient"
	"github.com/kube-eventbridge/kube-eventbridge/sink"
)

// stream is the one that is published to: it is made, and compared with what it must be like and what it acknowledged.
// Its methods are serve's, but for those that only read seen.
type stream struct {
	cfg    *Config
	log    *slog.Logger
	broker *broker
	acked  acknowledged
	// seen are its settings when it was last found good; nil before that.
	seen atomic.Pointer[jetstream.StreamConfig]
	// doubted is since when it seems to have gone back, patience for how long a replica may be left behind.
	doubted  time.Time
	patience time.Duration
}

// ensure creates the stream where it is missing and checks it where it is not.
func (s *stream) ensure(ctx context.Context, js jetstream.JetStream) error {
	ctx, cancel := s.broker.request(ctx)
	defer cancel()
	acked := s.acked.until()
	st, err := js.Stream(ctx, s.cfg.Stream)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		if acked.sequence > 0 {
			return s.rewound(acked, 0)
		}
		st, err = s.create(ctx, js)
	}
	if errors.Is(err, gonats.ErrNoResponders) {
		err = fmt.Errorf("%w: %w", natsclient.ErrNoJetStream, err)
	}
	if err != nil {
		return fmt.Errorf("check of stream %s: %w", s.cfg.Stream, s.broker.unanswered(ctx, err))
	}
	info := st.CachedInfo()
	cfg := info.Config
	if err := check(cfg, s.cfg.Subjects); err != nil {
		return err
	}
	first := s.seen.Swap(&cfg) == nil
	if first && cfg.Storage == jetstream.MemoryStorage {
		s.log.Warn("the stream is kept in memory: its messages end with the servers", "stream", s.cfg.Stream)
	}
	if found, edit := s.cfg.Limits.differ(cfg); first && found != "" {
		s.log.Warn("the stream has other limits than the configuration, and is not changed",
			"stream", s.cfg.Stream, "limits", found, "to change it", edit)
	}
	if acked, same := s.acked.of(info.Created); !same {
		return s.rewound(acked, info.State.LastSeq)
	}
	return s.unbroken(ctx, acked, info.State.LastSeq)
}

func (s *stream) create(ctx context.Context, js jetstream.JetStream) (jetstream.Stream, error) {
	l := s.cfg.Limits
	maxBytes := l.MaxBytes
	if maxBytes <= 0 {
		maxBytes = -1
	}
	st, err := js.CreateStream(ctx, jetstream.StreamConfig{
		Name:        s.cfg.Stream,
		Subjects:    s.cfg.Subjects,
		Storage:     jetstream.FileStorage,
		Retention:   jetstream.LimitsPolicy,
		Discard:     jetstream.DiscardOld,
		Duplicates:  l.Duplicates,
		MaxBytes:    maxBytes,
		MaxAge:      l.MaxAge,
		Replicas:    l.Replicas,
		AllowDirect: true,
	})
	var api *jetstream.APIError
	switch {
	case err == nil && s.seen.Load() != nil:
		s.log.Warn("the stream had vanished before anything was published to it now, and was created again", "stream",
			s.cfg.Stream)
		return st, nil
	case err == nil:
		s.log.Info("stream created", "stream", s.cfg.Stream, "subjects", s.cfg.Subjects)
		return st, nil
	case errors.Is(err, jetstream.ErrStreamNameAlreadyInUse):
		return js.Stream(ctx, s.cfg.Stream)
	case errors.As(err, &api) && api.ErrorCode == natsclient.CodeOverlap:
		return nil, s.overlaps(ctx, js, api)
	case errors.As(err, &api) && natsclient.Hopeless(api):
		return nil, &sink.UnusableError{
			Target: "stream " + s.cfg.Stream,
			Reason: "it is missing, and the broker refuses to create it: " + api.Description,
			Advice: "correct the stream's settings, or create it by hand: nats stream add " + s.cfg.Stream,
		}
	default:
		return nil, fmt.Errorf("create: %w", err)
	}
}

// overlaps says which stream has the subjects already.
func (s *stream) overlaps(ctx context.Context, js jetstream.JetStream, api *jetstream.APIError) error {
	by := "another stream"
	if other, err := owner(ctx, js, s.cfg.Subjects); err == nil && other != "" {
		by = "stream " + other
	}
	return taken(s.cfg.Stream, by, api.Description)
}

// owner returns the name of a stream that has subjects in common with some; empty where there is none.
func owner(ctx context.Context, js jetstream.JetStream, subjects []string) (string, error) {
	for _, subject := range subjects {
		name, err := js.StreamNameBySubject(ctx, subject)
		if !errors.Is(err, jetstream.ErrStreamNotFound) {
			return name, err
		}
	}
	return "", nil
}

func taken(stream, by, what string) error {
	return &sink.UnusableError{
		Target: "stream " + stream,
		Reason: fmt.Sprintf("it is missing, and cannot be created, because %s has subjects of it: %s", by, what),
		Advice: "name that stream, or choose another subject",
	}
}

// check refuses settings under which messages would be lost, repeated or not taken.
func check(c jetstream.StreamConfig, subjects []string) error {
	for _, rule := range rules {
		if rule.broken(c) {
			return unusable(c, rule.reason, rule.advice)
		}
	}
	for _, want := range subjects {
		if !natsclient.CoveredByAny(c.Subjects, want) {
			return unusable(c, fmt.Sprintf("it has the subjects %s, which do not cover %s", strings.Join(c.Subjects, ", "),
				want),
				fmt.Sprintf("add the subject: nats stream edit NAME --subjects '%s'", strings.Join(append(c.Subjects, want), ",")))
		}
	}
	return nil
}

// differ returns which of the configured limits a stream that was found does not have, and the command that gives it
// them. A limit that is not configured is that of the stream.
func (l Limits) differ(found jetstream.StreamConfig) (limits, edit string) {
	var differing []string
	edit = "nats stream edit " + found.Name
	if l.MaxAge > 0 && l.MaxAge != found.MaxAge {
		has := "no maxAge"
		if found.MaxAge > 0 {
			has = "maxAge " + found.MaxAge.String()
		}
		differing = append(differing, fmt.Sprintf("the stream has %s, the configuration %v", has, l.MaxAge))
		edit += " --max-age=" + l.MaxAge.String()
	}
	if l.MaxBytes > 0 && l.MaxBytes != found.MaxBytes {
		has := "no maxBytes"
		if found.MaxBytes > 0 {
			has = fmt.Sprintf("maxBytes %d", found.MaxBytes)
		}
		differing = append(differing, fmt.Sprintf("the stream has %s, the configuration %d", has, l.MaxBytes))
		edit += fmt.Sprintf(" --max-bytes=%d", l.MaxBytes)
	}
	return strings.Join(differing, "; "), edit
}

const anotherStream = "it cannot be changed: use another stream, or remove this one: nats stream rm NAME"

var rules = []struct {
	broken         func(jetstream.StreamConfig) bool
	reason, advice string
}{
	{
		func(c jetstream.StreamConfig) bool { return c.Mirror != nil },
		"it is a mirror, which takes no messages of clients", "publish to its origin, or use another stream",
	},
	{
		func(c jetstream.StreamConfig) bool { return c.Sealed },
		"it is sealed", anotherStream,
	},
	{
		func(c jetstream.StreamConfig) bool { return c.Retention != jetstream.LimitsPolicy },
		"its retention is not limits: messages that were read, or that no consumer waits for, are removed", anotherStream,
	},
	{
		func(c jetstream.StreamConfig) bool { return c.Storage == jetstream.MemoryStorage && c.Replicas <= 1 },
		"it is kept in the memory of one server: a restart of the broker empties it", anotherStream,
	},
	{
		func(c jetstream.StreamConfig) bool { return c.NoAck },
		"it does not acknowledge (no_ack)", "let it: nats stream edit NAME --ack",
	},
	{
		func(c jetstream.StreamConfig) bool { return c.PersistMode == jetstream.AsyncPersistMode },
		"it acknowledges before it has written (persist mode async)", anotherStream,
	},
	{
		func(c jetstream.StreamConfig) bool { return c.AllowMsgCounter },
		"it is a stream of counters", anotherStream,
	},
	{
		func(c jetstream.StreamConfig) bool { return c.SubjectTransform != nil },
		"it renames subjects, so that the last message of an object is not found again", "remove its subject transform",
	},
	{
		func(c jetstream.StreamConfig) bool { return c.Duplicates < minDuplicates },
		fmt.Sprintf("it remembers ids for less than %v, so that repeated messages stay in it", minDuplicates),
		"let it remember them longer: nats stream edit NAME --dupe-window 2m",
	},
	{
		func(c jetstream.StreamConfig) bool {
			return c.Discard == jetstream.DiscardNew && c.DiscardNewPerSubject
		},
		"it refuses new messages of a subject that is full (discard new per subject)", "nats stream edit NAME --discard old",
	},
}

func unusable(c jetstream.StreamConfig, reason, advice string) error {
	return &sink.UnusableError{
		Target: "stream " + c.Name, Reason: reason,
		Advice: strings.ReplaceAll(advice, "NAME", c.Name),
	}
}
