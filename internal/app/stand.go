// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	coordination "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge"
	"github.com/kube-eventbridge/kube-eventbridge/internal/config"
	"github.com/kube-eventbridge/kube-eventbridge/internal/election"
	"github.com/kube-eventbridge/kube-eventbridge/internal/metric"
	"github.com/kube-eventbridge/kube-eventbridge/internal/wiring"
)

// stand publishes while this process leads, until ctx ends.
func (p *process) stand(ctx context.Context, uid string) error {
	candidate, err := p.candidate()
	if err != nil {
		return err
	}
	standing := &standing{Candidate: candidate, process: p}
	if err := p.beginStanding(standing); err != nil {
		return err
	}
	p.registry.MustRegister(metric.NewGauge("leader", func() float64 { return metric.Truth(candidate.Leads()) }))
	asking, stop := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() { standing.run(asking) })
	defer running.Wait()
	defer stop()
	return candidate.Run(ctx, func(ctx context.Context, t election.Term) error {
		f, err := p.launch(func(cfg *config.Config) (*fleet, error) {
			p.catalog.Refresh() // what it knows may be as old as the process
			return p.newFleet(uid, cfg, &bridge.Term{Number: t.Number, Held: t.Held})
		})
		if err == nil {
			err = f.run(ctx)
		}
		p.turn.Lock()
		p.fleet = nil
		p.turn.Unlock()
		if p.overtaken(ctx, t, err) {
			err = nil
		}
		return err
	})
}

// beginStanding ends a process that cannot read what it would need to publish, such as a file with a password.
func (p *process) beginStanding(s *standing) error {
	p.turn.Lock()
	defer p.turn.Unlock()
	if err := p.try(p.current); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.standing = s
	return nil
}

// overtaken reports whether an error says no more than that another process leads by now: that is found out here when
// the lease is looked at next.
func (p *process) overtaken(ctx context.Context, t election.Term, err error) bool {
	if !checkpoint.IsTaken(err) {
		return false
	}
	select {
	case <-t.Held.Done():
		p.log.Warn("another process has taken over", "err", err)
		return true
	case <-ctx.Done():
		return false
	case <-time.After(2*p.cfg.LeaderElection.RetryPeriod + time.Second):
		return false
	}
}

// candidate makes the candidate for the lease.
func (p *process) candidate() (*election.Candidate, error) {
	return candidate(p.cfg, p.api, p.log, p.cfg.LeaderElection.ResourceName)
}

// candidate makes the candidate for a lease of this name.
func candidate(cfg *config.Config, api *rest.Config, log *slog.Logger, name string) (*election.Candidate, error) {
	c := cfg.LeaderElection
	namespace, err := wiring.LeaseNamespace(cfg)
	if err != nil {
		return nil, err
	}
	client, err := coordination.NewForConfig(api)
	if err != nil {
		return nil, fmt.Errorf("lease %s: %w", name, err)
	}
	host, err := os.Hostname()
	if err != nil {
		return nil, errors.Join(errors.New("name this process for the lease"), err)
	}
	return election.New(election.Config{
		Client: client.Leases(namespace), Name: name, Identity: host + "_" + rand.Text()[:8],
		Duration: c.LeaseDuration, Deadline: c.RenewDeadline, Retry: c.RetryPeriod, Log: log.With("namespace", namespace),
	}), nil
}
