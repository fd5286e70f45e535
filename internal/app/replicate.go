// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"golang.org/x/sync/errgroup"

	"github.com/kube-eventbridge/kube-eventbridge/internal/config"
	"github.com/kube-eventbridge/kube-eventbridge/internal/election"
	"github.com/kube-eventbridge/kube-eventbridge/internal/inert"
	"github.com/kube-eventbridge/kube-eventbridge/internal/kubemetrics"
	"github.com/kube-eventbridge/kube-eventbridge/internal/memory"
	"github.com/kube-eventbridge/kube-eventbridge/internal/metric"
	"github.com/kube-eventbridge/kube-eventbridge/internal/replica"
	"github.com/kube-eventbridge/kube-eventbridge/internal/replica/remote"
	"github.com/kube-eventbridge/kube-eventbridge/internal/rerun"
	"github.com/kube-eventbridge/kube-eventbridge/internal/status"
	"github.com/kube-eventbridge/kube-eventbridge/internal/wiring"
)

// replicator is a process that replicates.
type replicator struct {
	cfg *config.Config
	log *slog.Logger
	// process is what the process knows of itself, but for who leads.
	process  status.Process
	replicas []*replica.Replica
	// candidate is nil where no other process can lead.
	candidate *election.Candidate
	// hasPipelines: the process publishes, too.
	hasPipelines bool
	// note says what is wrong with the file of the process; empty where nothing is.
	note func() string
}

// Replicate keeps the replicas of a configuration in the state that their logs describe, until ctx ends, and then
// returns nil. It returns an error if it cannot begin, or if no replica can go on. Of the options, those about
// events on the standard output are not used. A file that changes is only looked at: what it has for replicas takes a
// restart.
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
	p.process.File = o.File
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		remote.Metrics(p.replicas))
	kubemetrics.Register(registry)
	registry.MustRegister(metric.NewBuildInfo(o.Build.Commit, o.Build.Go, o.Build.Version))
	var file *reloads
	if o.File != "" && lasts(o.File) {
		file = (&reloads{parse: o.Parse, adopt: p.adopt(o.File, at), log: log}).of(o.File, o.Data, registry)
	}
	p.note = func() string { return file.now().note() }
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
	served.Go(func() error { file.follow(serving, o.Hangups, log); return nil })
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

// adopt returns what has the process go by another configuration of its file: the level of its log follows it, and what
// concerns replicas takes a restart. Pipelines do not count.
func (p *replicator) adopt(
	file string, at *slog.LevelVar,
) func(context.Context, *config.Config, []byte) (difference, error) {
	current := p.cfg
	return func(_ context.Context, cfg *config.Config, data []byte) (difference, error) {
		diff := compare(current, cfg)
		if len(diff.Fixed) > 0 {
			return diff, config.PlaceRead(file, data, diff.Fixed)
		}
		current = cfg
		at.Set(level(cfg.Log.Level))
		return difference{Others: slices.DeleteFunc(diff.Others, func(key string) bool { return key != "log.level" })}, nil
	}
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
	at, err := wiring.AddressOf(api)
	if err != nil {
		return nil, err
	}
	p = &replicator{cfg: cfg, log: log, process: status.Process{
		Version: build.Version, Commit: build.Commit, Started: time.Now(), LoadedAt: time.Now(), Cluster: cfg.Cluster,
		APIServer: at.String(),
	}}
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
	p.hasPipelines = true
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

// replicate runs all replicas until ctx ends. One that has to end ends alone, and is tried again. It returns an error
// if all have ended, unless pipelines go on.
func (p *replicator) replicate(ctx context.Context) error {
	all := make([]rerun.Runner, len(p.replicas))
	for i, r := range p.replicas {
		all[i] = r
	}
	return rerun.All(ctx, p.log, "replica", all, p.hasPipelines)
}

// listen opens the addresses of the process's servers.
func (p *replicator) listen(registry *prometheus.Registry) ([]endpointServer, error) {
	return listen(&p.cfg.Server, "server.listen", p.log, p.serve, func(mux *http.ServeMux) {
		mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
		mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok\n")) })
		mux.HandleFunc("GET /readyz", p.ready)
	})
}

// serve serves the status, and what guard makes of what changes something.
func (p *replicator) serve(mux *http.ServeMux, guard func(http.Handler) http.Handler) {
	handleStatus(mux, status.Config{Process: p.told, Replicas: p.states})
	p.serveReplicas(mux, guard)
}

// serveReplicas serves what tells of replicas and changes them. P may be nil.
func (p *replicator) serveReplicas(mux *http.ServeMux, guard func(http.Handler) http.Handler) {
	if p == nil {
		return
	}
	handler := guard(remote.Handler(p.replicas, p.note))
	mux.Handle(remote.Path, handler)
	mux.Handle(remote.ResumePath, handler)
}

// told is what a process that only replicates knows of itself.
func (p *replicator) told() status.Process {
	t := p.process
	t.Election = electionOf(p.candidate)
	return t
}

// states says how the replicas are. P may be nil.
func (p *replicator) states() status.Replicas {
	if p == nil {
		return status.Replicas{}
	}
	return status.Replicas{All: p.replicas, Election: electionOf(p.candidate)}
}

// ready answers whether the replicas follow their logs. A process that does not lead is ready.
func (p *replicator) ready(w http.ResponseWriter, _ *http.Request) {
	if why := p.unready(); why != "" {
		http.Error(w, why, http.StatusServiceUnavailable)
		return
	}
	_, _ = w.Write([]byte("ok\n"))
	if note := p.note(); note != "" {
		_, _ = fmt.Fprintln(w, inert.Line(note))
	}
}

// unready returns why a replica does not follow its log; empty if all do, or another process leads. P may be nil.
func (p *replicator) unready() string {
	if p == nil {
		return ""
	}
	for _, r := range (&status.Config{Process: p.told, Replicas: p.states}).Report().Replicas {
		if !r.Ready {
			return "replica " + r.Name + ": " + r.Reason
		}
	}
	return ""
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
