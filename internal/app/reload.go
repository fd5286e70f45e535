// SPDX-License-Identifier: Apache-2.0

package app

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/kube-eventbridge/kube-eventbridge/internal/config"
	"github.com/kube-eventbridge/kube-eventbridge/internal/metric"
)

const (
	// glanceEvery is how often the file is looked at. What has changed counts when it is the same at the next look: a
	// file is not written at once, and a part of one may be a valid one.
	glanceEvery = time.Second
	// retryEvery is how often a file that was refused is tried again: what it names may have come.
	retryEvery = 30 * time.Second
)

// configStatus is how the process stands to its file.
type configStatus struct {
	// File is empty where there is none.
	File string
	// LoadedAt is since when the configuration holds that runs.
	LoadedAt time.Time
	// Err is why what the file has now was refused, at RefusedAt; nil if it was not.
	Err       error
	RefusedAt time.Time
}

// fileState is what a file has at a time.
type fileState struct {
	data []byte
	err  error
}

func (l fileState) same(o fileState) bool {
	return bytes.Equal(l.data, o.data) && (l.err == nil) == (o.err == nil) &&
		(l.err == nil || l.err.Error() == o.err.Error())
}

// lasts reports whether a file can be read again: a pipe has what it has once, and whoever opens it again may wait for
// ever.
func lasts(file string) bool {
	info, err := os.Stat(file)
	return err != nil || info.Mode().IsRegular() // what is gone may come back
}

func lookAt(file string) fileState {
	data, err := config.Read(file)
	return fileState{data, err}
}

// outcome is what became of a file.
type outcome string

const (
	applied   outcome = "applied"
	unchanged outcome = "unchanged"
	refused   outcome = "refused"
)

// reloads have a process go by its file when that changes. Only one goroutine looks; others may ask.
type reloads struct {
	// parse returns the configuration that the file has with some data, and adopt has the process go by it.
	parse func(data []byte) (*config.Config, config.Problems, error)
	adopt func(ctx context.Context, cfg *config.Config, data []byte) (difference, error)
	log   *slog.Logger
	// last is what was tried last, settling what has changed since and may not be all yet; tried when that was.
	last     fileState
	settling *fileState
	tried    time.Time

	mu     sync.Mutex
	status configStatus
	total  *prometheus.CounterVec
}

// newReloads returns the reloads of a process that goes by what it has read of a file.
func newReloads(p *process, file string, data []byte) *reloads {
	return (&reloads{parse: p.parse, adopt: p.adopt, log: p.log}).of(file, data, p.registry)
}

// of has the reloads begin with what was read of a file.
func (r *reloads) of(file string, data []byte, registry *prometheus.Registry) *reloads {
	r.last, r.status = fileState{data: data}, configStatus{File: file, LoadedAt: time.Now()}
	r.total = metric.NewCounter("config_reloads_total")
	for _, o := range []outcome{applied, unchanged, refused} {
		r.total.WithLabelValues(string(o))
	}
	registry.MustRegister(r.total,
		metric.NewGauge("config_last_reload_successful", func() float64 { return metric.Truth(r.now().Err == nil) }),
		metric.NewGauge("config_last_reload_success_timestamp_seconds",
			func() float64 { return float64(r.now().LoadedAt.UnixMilli()) / 1000 }))
	return r
}

// now returns how the process stands to its file; r may be nil.
func (r *reloads) now() configStatus {
	if r == nil {
		return configStatus{}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.status
}

// note says in a line that what the file has was refused; empty if it was not.
func (s configStatus) note() string {
	if s.Err == nil {
		return ""
	}
	first := s.Err.Error()
	var problems config.Problems
	if errors.As(s.Err, &problems) && len(problems) > 0 {
		first = problems[0].String()
	}
	return "configuration refused, the one of " + s.LoadedAt.UTC().Format(time.RFC3339) + " stays: " + first
}

// follow looks at the file until ctx ends, and at once whenever hangups has something. R is nil without a file that
// lasts: then it says that there is nothing to be loaded.
func (r *reloads) follow(ctx context.Context, hangups <-chan os.Signal, log *slog.Logger) {
	var tick <-chan time.Time
	if r != nil {
		t := time.NewTicker(glanceEvery)
		defer t.Stop()
		tick = t.C
	}
	for {
		select {
		case <-hangups:
			if r == nil {
				log.Info("SIGHUP: there is no configuration file to be loaded again; the process goes on")
				continue
			}
			r.see(ctx, lookAt(r.status.File), true)
		case <-tick:
			r.see(ctx, lookAt(r.status.File), false)
		case <-ctx.Done():
			return
		}
	}
}

// see takes what the file has into account: at once where that was asked for, else when it has settled.
func (r *reloads) see(ctx context.Context, now fileState, asked bool) {
	again := r.now().Err != nil && time.Since(r.tried) >= retryEvery
	switch {
	case asked:
	case now.same(r.last) && !again:
		r.settling = nil
		return
	case !now.same(r.last) && (r.settling == nil || !now.same(*r.settling)):
		r.settling = &now
		return
	}
	known := now.same(r.last) && !asked
	r.settling, r.last, r.tried = nil, now, time.Now()
	err := r.load(ctx, now)
	if err == nil || ctx.Err() != nil {
		return
	}
	r.mu.Lock()
	told := known && r.status.Err != nil && r.status.Err.Error() == err.Error()
	r.status.Err, r.status.RefusedAt = err, time.Now()
	r.mu.Unlock()
	if !told {
		r.total.WithLabelValues(string(refused)).Inc()
		r.complain(err)
	}
}

// load has the process go by what the file has. An error says why it does not.
func (r *reloads) load(ctx context.Context, now fileState) error {
	if now.err != nil {
		return now.err
	}
	cfg, warnings, err := r.parse(now.data)
	if err != nil {
		return err
	}
	diff, err := r.adopt(ctx, cfg, now.data)
	if err != nil {
		return err
	}
	r.mu.Lock()
	r.status.Err, r.status.LoadedAt = nil, time.Now()
	r.mu.Unlock()
	if diff.none() {
		r.total.WithLabelValues(string(unchanged)).Inc()
		r.log.Info("configuration unchanged", "file", r.status.File)
		return nil
	}
	r.total.WithLabelValues(string(applied)).Inc()
	for _, w := range warnings {
		r.log.Warn("configuration", "warning", w.String())
	}
	said := []any{"file", r.status.File}
	for _, of := range []struct {
		key   string
		names []string
	}{
		{"added", diff.Added},
		{"removed", diff.Removed},
		{"restarted", diff.Changed},
		{"otherResources", diff.Resources},
		{"other", diff.Others},
	} {
		if len(of.names) > 0 {
			said = append(said, of.key, of.names)
		}
	}
	r.log.Info("configuration applied", said...)
	return nil
}

// complain logs a refusal, each problem in a line.
func (r *reloads) complain(err error) {
	const message = "configuration refused; the one before stays"
	var problems config.Problems
	if !errors.As(err, &problems) {
		r.log.Error(message, "file", r.status.File, "problem", err.Error())
	}
	for _, p := range problems {
		r.log.Error(message, "problem", p.String())
	}
}

// adopt has the process go by a configuration, which data says; it may be called once at a time. An error says why it
// does not; then nothing has changed.
func (p *process) adopt(ctx context.Context, cfg *config.Config, data []byte) (difference, error) {
	diff := p.compare(cfg)
	if len(diff.Fixed) > 0 {
		return diff, config.PlaceRead(p.file, data, diff.Fixed)
	}
	if diff.none() {
		return diff, nil
	}
	// The API server may take its time, and the turn is not held meanwhile.
	switch wrong, err := p.unreadable(ctx, cfg); {
	case err != nil:
		return diff, err
	case len(wrong) > 0:
		return diff, config.PlaceRead(p.file, data, wrong)
	}
	return diff, p.turnTo(ctx, cfg, diff)
}

// turnTo has the process go by a configuration when it is its turn; not at all where ctx has ended by then.
func (p *process) turnTo(ctx context.Context, cfg *config.Config, diff difference) error {
	p.turn.Lock()
	defer p.turn.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	p.need(cfg)
	if err := p.follow(ctx, cfg, diff); err != nil {
		return err
	}
	p.current = cfg
	if p.watches != nil {
		p.watches.SetHold(int64(cfg.SharedBuffer()))
	}
	p.level.Set(level(cfg.Log.Level))
	return nil
}

// compare says how a configuration differs from the one that holds, until adopt has another one hold.
func (p *process) compare(cfg *config.Config) difference {
	p.turn.Lock()
	defer p.turn.Unlock()
	return compare(p.current, cfg)
}

// follow has whatever runs go by a configuration; the caller holds turn.
func (p *process) follow(ctx context.Context, cfg *config.Config, diff difference) error {
	if p.fleet != nil {
		if ended, err := p.fleet.order(ctx, cfg, diff); !ended {
			return err
		}
		return nil // what comes next goes by it
	}
	return p.try(cfg)
}

// try makes what would publish, for as much as can be known before anything does.
func (p *process) try(cfg *config.Config) error {
	for i := range cfg.Pipelines {
		if cfg.Pipelines[i].Sink.Embedded != nil {
			continue
		}
		b, err := p.pipeline(cfg, i, cmp.Or(p.clusterUID(), "unknown"), nil)
		if err != nil {
			return err
		}
		if cfg.LeaderElection == nil {
			continue
		}
		store, err := p.store(cfg, i, b.Identity) // at a broker, which is not asked before the first use
		if err == nil {
			err = store.Close()
		}
		if err != nil {
			return fmt.Errorf("pipeline %s: %w", b.Name, err)
		}
	}
	return nil
}
