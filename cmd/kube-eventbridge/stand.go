// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"time"

	coordination "k8s.io/client-go/kubernetes/typed/coordination/v1"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge"
	"github.com/kube-eventbridge/kube-eventbridge/internal/config"
	"github.com/kube-eventbridge/kube-eventbridge/internal/election"
)

// standing is a process of which another one may lead.
type standing struct {
	*election.Candidate
	by *standby
}

// idle says what the process does while it does not lead.
func (s *standing) idle() (line string, ready bool) {
	switch {
	case s.Leads():
		return "starting: this process leads since a moment ago", false
	case s.Err() != nil:
		return "standing by: lease: " + s.Err().Error(), false
	case s.by.problem() != nil:
		return "standing by: " + s.by.problem().Error(), false
	case s.Leader() == "":
		return "standing by: nobody leads yet", true
	default:
		return "standing by: " + s.Leader() + " leads", true
	}
}

// stand publishes while this process leads, and records what it would need for that while it does not, until ctx ends.
func (p *process) stand(ctx context.Context, uid string) (err error) {
	candidate, err := p.candidate()
	if err != nil {
		return err
	}
	by, err := p.beginStandby(ctx, uid, candidate)
	if err != nil {
		return err
	}
	defer func() {
		p.turn.Lock()
		defer p.turn.Unlock()
		p.mu.Lock()
		p.standing = nil // a reload that waits for its turn must not begin it again
		p.mu.Unlock()
		err = errors.Join(err, by.close())
	}()
	p.metrics.Election(p.registry, candidate.Leads, by.recorded, by.limit)
	return candidate.Run(ctx, func(ctx context.Context, t election.Term) error {
		f, err := p.launch(func(cfg *config.Config) (*fleet, error) {
			holds := by.handOver()
			p.discovery.Reset() // what it knows may be as old as the process
			return p.newFleet(uid, cfg, &bridge.Term{Number: t.Number, Held: t.Held}, holds)
		})
		if err == nil {
			err = f.run(ctx)
		}
		p.turn.Lock()
		p.fleet = nil
		by.end()
		p.turn.Unlock()
		if p.overtaken(ctx, t, err) {
			err = nil
		}
		if err == nil && ctx.Err() == nil {
			p.turn.Lock()
			defer p.turn.Unlock()
			return by.resume(ctx, p.current)
		}
		return err
	})
}

// beginStandby records by the configuration that holds now, and from then on by others too.
func (p *process) beginStandby(ctx context.Context, uid string, candidate *election.Candidate) (*standby, error) {
	p.turn.Lock()
	defer p.turn.Unlock()
	by := &standby{process: p, uid: uid, open: peeker, failed: map[string]error{}}
	if err := by.follow(ctx, p.current); err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.standing = &standing{Candidate: candidate, by: by}
	return by, nil
}

// overtaken reports whether an error says no more than that another process leads by now: that is found out here when the lease is looked at next.
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
	c := p.cfg.LeaderElection
	namespace, err := leaseNamespace(p.cfg)
	if err != nil {
		return nil, err
	}
	client, err := coordination.NewForConfig(p.api)
	if err != nil {
		return nil, fmt.Errorf("lease %s: %w", c.ResourceName, err)
	}
	host, err := os.Hostname()
	if err != nil {
		return nil, errors.Join(errors.New("name this process for the lease"), err)
	}
	return election.New(election.Config{
		Client: client.Leases(namespace), Name: c.ResourceName, Identity: host + "_" + rand.Text()[:8],
		Duration: c.LeaseDuration, Deadline: c.RenewDeadline, Retry: c.RetryPeriod, Log: p.log.With("namespace", namespace),
	}), nil
}

// leaseNamespace returns the namespace of the lease: the file's, or the process's own.
func leaseNamespace(c *config.Config) (string, error) {
	if c.LeaderElection.ResourceNamespace != "" {
		return c.LeaderElection.ResourceNamespace, nil
	}
	namespace, err := ownNamespace(c.Kubernetes)
	if err != nil {
		return "", fmt.Errorf("find the namespace of the lease: %w; set leaderElection.resourceNamespace", err)
	}
	return namespace, nil
}
