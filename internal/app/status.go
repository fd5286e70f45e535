// SPDX-License-Identifier: Apache-2.0

package app

import (
	"cmp"

	"github.com/kube-eventbridge/kube-eventbridge/internal/election"
	"github.com/kube-eventbridge/kube-eventbridge/internal/status"
)

// statusConfig says what the process reports on.
func (p *process) statusConfig() status.Config {
	return status.Config{Process: p.told, Pipelines: p.running, Idle: p.idle, Replicas: p.replicator.states}
}

// told is what the process knows of itself.
func (p *process) told() status.Process {
	p.mu.Lock()
	defer p.mu.Unlock()
	t := status.Process{
		Version: p.build.Version, Commit: p.build.Commit, Started: p.started, Cluster: cmp.Or(p.cfg.Cluster, p.uid),
		ClusterUID: p.uid, APIServer: p.apiServer,
		File: p.file, LoadedAt: p.started, Start: p.unstarted,
	}
	if now := p.reloads.now(); now.File != "" {
		t.LoadedAt, t.Refused, t.RefusedAt = now.LoadedAt, now.Err, now.RefusedAt
	}
	if s := p.standing; s != nil {
		t.Election = electionOf(s.Candidate)
		_, t.Election.Brokers = s.brokers()
	}
	return t
}

// electionOf says how a candidate stands; nil where there is none.
func electionOf(c *election.Candidate) *status.Election {
	if c == nil {
		return nil
	}
	return &status.Election{Leads: c.Leads(), Identity: c.Identity(), Leader: c.Leader(), Term: c.Term(), Err: c.Err()}
}

func (r *report) setCluster(uid string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.uid = uid
}

// clusterUID is empty before the API server has told it.
func (r *report) clusterUID() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.uid
}
