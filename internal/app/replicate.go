// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"golang.org/x/sync/errgroup"

	"github.com/kube-eventbridge/kube-eventbridge/internal/config"
	"github.com/kube-eventbridge/kube-eventbridge/internal/election"
	"github.com/kube-eventbridge/kube-eventbridge/internal/endpoint"
	"github.com/kube-eventbridge/kube-eventbridge/internal/memory"
	"github.com/kube-eventbridge/kube-eventbridge/internal/replica"
	"github.com/kube-eventbridge/kube-eventbridge/internal/replica/remote"
	"github.com/kube-eventbridge/kube-eventbridge/internal/wiring"
)

// replicator is a process that replicates.
type replicator struct {
	cfg      *config.Config
	log      *slog.Logger
	replicas []*replica.Replica
	// candidate is nil where no other process can lead.
	candidate *election.Candidate
}

// Replicate keeps the replicas of a configuration in the state that their logs describe, until ctx ends, and then
// returns nil. It returns an error if it cannot begin, or if a replica must not go on. Of the options, those about
// events on the standard output are not used.
func Replicate(ctx context.Context, o Options) error {
	at := &slog.LevelVar{}
	at.Set(level(o.Config.Log.Level))
	log := newLogger(o.Err, o.Config.Log, at)
	if o.Klog != nil {
		o.Klog(slog.New(quiet{log.Handler()}))
	}
	limit := memory.NewLimit(log)
	limit.Apply()
	p, err := newReplicator(o.Config, o.Build, log)
	if err != nil {
		return err
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		remote.Metrics(p.replicas))
	registerClientMetrics(registry)
	registerBuildInfo(registry, o.Build)
	group, ctx := errgroup.WithContext(ctx)
	servers, err := p.listen(registry)
	if err != nil {
		return err
	}
	serving, stop := context.WithCancel(context.WithoutCancel(ctx))
	var served errgroup.Group
	for _, s := range servers {
		served.Go(func() error { return s.serve(serving) })
	}
	served.Go(func() error { limit.Follow(serving); return nil })
	served.Go(func() error { memory.Pace(serving); return nil })
	served.Go(func() error { memory.GiveBack(serving); return nil })
	group.Go(func() error { return p.lead(ctx) })
	err = group.Wait()
	stop()
	if failed := served.Wait(); err == nil {
		err = failed
	}
	if err == nil {
		p.log.Info("stopped")
	}
	return err
}

// newReplicator makes the replicas of a configuration; nil if it has none.
func newReplicator(cfg *config.Config, build Build, log *slog.Logger) (p *replicator, err error) {
	if len(cfg.Replicas) == 0 {
		return nil, nil //nolint:nilnil // its methods say what it does
	}
	api, err := wiring.RestConfig(cfg.Kubernetes, build.UserAgent())
	if err != nil {
		return nil, err
	}
	p = &replicator{cfg: cfg, log: log}
	for i := range cfg.Replicas {
		c, err := wiring.Replica(cfg, &cfg.Replicas[i], api, log)
		if err != nil {
			return nil, err
		}
		p.replicas = append(p.replicas, replica.New(c))
	}
	if cfg.LeaderElection != nil {
		p.candidate, err = candidate(cfg, api, log, wiring.ReplicasLease(cfg.LeaderElection))
	}
	return p, err
}

// beside replicates beside pipelines until ctx ends. What ends a replica does not end them: it is logged. P may be nil.
func (p *replicator) beside(ctx context.Context, registry *prometheus.Registry) error {
	if p == nil {
		return nil
	}
	registry.MustRegister(remote.Metrics(p.replicas))
	if err := p.lead(ctx); err != nil {
		p.log.Error("replication has ended", "err", err)
	}
	return nil
}

// lead replicates, while this process leads if several may.
func (p *replicator) lead(ctx context.Context) error {
	if p.candidate == nil {
		return p.replicate(ctx)
	}
	return p.candidate.Run(ctx, func(ctx context.Context, t election.Term) error {
		ctx, stop := context.WithCancel(ctx)
		defer stop()
		defer context.AfterFunc(t.Held, stop)()
		return p.replicate(ctx)
	})
}

// replicate runs all replicas until ctx ends. One that has to end ends alone: the others go on.
func (p *replicator) replicate(ctx context.Context) error {
	var group errgroup.Group
	errs := make([]error, len(p.replicas))
	for i, r := range p.replicas {
		group.Go(func() error {
			if errs[i] = r.Run(ctx); errs[i] != nil {
				p.log.Error("a replica has ended", slog.String("replica", r.Name()), slog.Any("error", errs[i]))
			}
			return nil
		})
	}
	_ = group.Wait() // the errors are in errs
	return errors.Join(errs...)
}

// listen opens the addresses of metrics and probes, and of what changes something if that has one of its own.
func (p *replicator) listen(registry *prometheus.Registry) (servers []endpointServer, err error) {
	c := &p.cfg.Server
	l, err := open(c.Listen, "server.listen")
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	p.handle(mux, c.Admin == "")
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok\n")) })
	mux.HandleFunc("GET /readyz", p.ready)
	p.log.Info("serving /replicas /metrics /livez /readyz", "address", l.Addr().String())
	servers = append(servers, endpointServer{l, endpoint.Guarded(c.Listen, mux)})
	if c.Admin == "" {
		return servers, nil
	}
	if l, err = open(c.Admin, "server.admin"); err != nil {
		return nil, errors.Join(err, servers[0].Close())
	}
	p.log.Info("serving POST /replicas/resume", "address", l.Addr().String())
	admin := http.NewServeMux()
	p.handle(admin, true)
	return append(servers, endpointServer{l, endpoint.Guarded(c.Admin, admin)}), nil
}

// handle serves what tells of replicas, and what changes them if that is allowed there. P may be nil.
func (p *replicator) handle(mux *http.ServeMux, changes bool) {
	if p == nil {
		return
	}
	handler := endpoint.Unchanging(changes, remote.Handler(p.replicas))
	mux.Handle(remote.Path, handler)
	mux.Handle(remote.ResumePath, handler)
}

// unreadyLag is how far a replica may be behind its log, and for how long something may fail.
const unreadyLag = time.Minute

// ready answers whether the replicas follow their logs. A process that does not lead is ready.
func (p *replicator) ready(w http.ResponseWriter, _ *http.Request) {
	if why := p.unready(); why != "" {
		http.Error(w, why, http.StatusServiceUnavailable)
		return
	}
	_, _ = w.Write([]byte("ok\n"))
}

// unready returns why a replica does not follow its log; empty if all do, or another process leads. P may be nil.
func (p *replicator) unready() string {
	if p == nil || p.candidate != nil && !p.candidate.Leads() {
		return ""
	}
	for _, r := range p.replicas {
		if why := behind(r.Status()); why != "" {
			return "replica " + r.Name() + ": " + why
		}
	}
	return ""
}

// behind returns why a replica does not follow its log; empty if it does.
func behind(s replica.Status, running bool) string {
	switch {
	case !running && s.Problems["start"] != "":
		return "it does not run: " + s.Problems["start"]
	case !running:
		return "it does not run"
	case !s.CaughtUp:
		return "it reads the log up to its end first"
	case s.HeldEpoch != 0:
		return "the source's versions begin again; see: kube-eventbridge replicate resume"
	case s.HeldDeletes:
		return "deletes are held; see: kube-eventbridge replicate resume"
	case s.Failing > unreadyLag:
		part := slices.Min(slices.Collect(maps.Keys(s.Problems)))
		return part + ": " + s.Problems[part]
	case s.Lag > unreadyLag:
		return "it is " + s.Lag.Round(time.Second).String() + " behind the log"
	default:
		return ""
	}
}

// CompareReplicas tells what the replicas of a configuration would write, and writes nothing.
func CompareReplicas(ctx context.Context, o Options, tell func(name string, d replica.Difference) error) error {
	log := newLogger(o.Err, o.Config.Log, slog.LevelWarn)
	if o.Klog != nil {
		o.Klog(slog.New(quiet{log.Handler()}))
	}
	p, err := newReplicator(o.Config, o.Build, log)
	if err != nil {
		return err
	}
	for _, r := range p.replicas {
		if err := r.Compare(ctx, func(d replica.Difference) error { return tell(r.Name(), d) }); err != nil {
			return err
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
	return nil
}
