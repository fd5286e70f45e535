// SPDX-License-Identifier: Apache-2.0

// Package app is the process: it publishes, leads or stands by, goes by its file, and tells how it is doing.
package app

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/rest"

	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge"
	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge/health"
	"github.com/kube-eventbridge/kube-eventbridge/internal/config"
	"github.com/kube-eventbridge/kube-eventbridge/internal/exit"
	"github.com/kube-eventbridge/kube-eventbridge/internal/kubemetrics"
	"github.com/kube-eventbridge/kube-eventbridge/internal/memory"
	"github.com/kube-eventbridge/kube-eventbridge/internal/metric"
	"github.com/kube-eventbridge/kube-eventbridge/internal/wiring"
	"github.com/kube-eventbridge/kube-eventbridge/sink/stdout"
	"github.com/kube-eventbridge/kube-eventbridge/source/catalog"
	"github.com/kube-eventbridge/kube-eventbridge/source/kube"
	"github.com/kube-eventbridge/kube-eventbridge/source/sharing"
)

// process is what one run consists of, besides its pipelines.
type process struct {
	builder
	report
	parse    func(data []byte) (*config.Config, config.Problems, error)
	level    *slog.LevelVar
	registry *prometheus.Registry
	// replicator is nil where the configuration has no replicas.
	replicator *replicator
	// reloads is nil where there is no file that can be read again.
	reloads *reloads

	// turn is held while something begins, ends, or goes by another configuration, and guards current, by which what
	// begins next goes, and fleet, which is what runs, or nil.
	turn    sync.Mutex
	current *config.Config
	fleet   *fleet
}

// builder makes what a configuration names: pipelines, checkpoints, the embedded server.
type builder struct {
	keys
	cluster
	// cfg is what the process has begun with: of what cannot change it is right.
	cfg     *config.Config
	format  stdout.Format // of what is printed
	out     io.Writer
	log     *slog.Logger
	metrics *health.Metrics
	// watches is nil where there is nothing to share, and will not be.
	watches *sharing.Watches
}

// cluster is the API server, and what tells of its resources and namespaces.
type cluster struct {
	host      string // of the API server
	apiServer string // its URL, without a user
	api       *rest.Config
	client    *kube.Client
	catalog   *catalog.Catalog
	// namespaces run from when something selects by them: then selects has closed selecting.
	namespaces *catalog.Namespaces
	selecting  chan struct{}
	selects    func()
}

// report is what a process tells of itself.
type report struct {
	// started is when the process was, and file the path of its configuration, if it has one.
	started time.Time
	file    string
	build   Build

	mu        sync.Mutex
	pipelines []*bridge.Pipeline
	// standing is nil where no other process can lead.
	standing  *standing
	unstarted error // what the API server last refused, or nil
	// uid is the cluster's, once the API server has told it.
	uid string
}

// Options say what a run consists of.
type Options struct {
	Config *config.Config
	// File is the path of the configuration, and Data what it had. File is empty if arguments are the configuration:
	// then errors name flags.
	File string
	Data []byte
	// Parse returns the configuration that File has if it has data.
	Parse func(data []byte) (*config.Config, config.Problems, error)
	// Serves says that there is a server for metrics and probes.
	Serves bool
	// Out takes what the sink stdout prints, as Format has it. Err takes the log.
	Out, Err io.Writer
	Format   stdout.Format
	// Klog, if not nil, is told where what client-go logs goes. There is one such place in a process.
	Klog func(*slog.Logger)
	// Hangups tells of each SIGHUP. It may be nil.
	Hangups <-chan os.Signal
	Build   Build
}

// Run publishes until ctx ends, and then returns nil. It returns an error if it cannot begin, or must not go on. The
// errors that a user mends are marked as in package exit, or are [config.Problems]. Run may be called once in a
// process.
func Run(ctx context.Context, o Options) error {
	cfg := o.Config
	p := &process{
		builder: builder{keys: keys{fromArgs: o.File == ""}, cfg: cfg, format: o.Format, out: o.Out},
		report:  report{started: time.Now(), file: o.File, build: o.Build},
		current: cfg, parse: o.Parse, level: &slog.LevelVar{}, registry: prometheus.NewRegistry(),
	}
	p.level.Set(level(cfg.Log.Level))
	p.log = newLogger(o.Err, cfg.Log, p.level)
	if o.Klog != nil {
		o.Klog(slog.New(quiet{p.log.Handler()}))
	}
	limit := memory.NewLimit(p.log)
	limit.Apply()
	err := p.reach()
	if err != nil {
		return err
	}
	defer p.client.CloseIdleConnections()
	p.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	kubemetrics.Register(p.registry)
	p.registry.MustRegister(metric.NewBuildInfo(p.build.Commit, p.build.Go, p.build.Version))
	p.metrics = health.NewMetrics(p.registry)
	if o.File != "" && lasts(o.File) {
		p.reloads = newReloads(p, o.File, o.Data)
	}
	p.need(cfg)
	if p.replicator, err = newReplicator(cfg, p.build, p.log); err != nil {
		return err
	}
	if p.replicator != nil {
		p.replicator.note = func() string { return p.reloads.now().note() }
	}
	if hold := p.cfg.SharedBuffer(); hold > 0 || p.reloads != nil {
		p.watches = sharing.NewWatches(p.client, int64(hold))
		registerWatches(p.registry, p.watches)
	}

	g, serving := errgroup.WithContext(context.WithoutCancel(ctx))
	if o.Serves {
		servers, err := p.listen()
		if err != nil {
			return err
		}
		for _, s := range servers {
			g.Go(func() error { return s.serve(serving) })
		}
	}
	work, stop := context.WithCancel(ctx)
	defer stop()
	g.Go(func() error { return p.replicator.beside(work, p.registry) })
	stopped := context.AfterFunc(serving, stop)
	defer stopped()
	g.Go(func() error {
		memory.GiveBack(serving)
		return nil
	})
	g.Go(func() error {
		limit.Follow(serving)
		return nil
	})
	err = p.heed(work, o.Hangups, p.publish)
	stop()
	g.Go(func() error { return errDone })
	if served := g.Wait(); err == nil && !errors.Is(served, errDone) {
		err = served
	}
	if p.fromArgs && exit.ReaderGone(err) {
		p.log.Info("the reader of the standard output has ended")
		err = nil
	}
	if err == nil {
		p.log.Info("stopped")
	}
	return err
}

// reach makes the clients of the API server.
func (p *process) reach() error {
	api, err := wiring.RestConfig(p.cfg.Kubernetes, p.build.UserAgent())
	if err != nil {
		return err
	}
	at, err := wiring.AddressOf(api)
	if err != nil {
		return err
	}
	p.host, p.apiServer = at.Host, at.String()
	p.selecting = make(chan struct{})
	p.selects = sync.OnceFunc(func() { close(p.selecting) })
	if p.client, err = kube.NewClient(api); err != nil {
		return err
	}
	p.api = p.client.Config()
	if p.namespaces, err = catalog.NewNamespaces(p.api); err != nil {
		return err
	}
	p.catalog, err = catalog.New(p.api, p.client, catalog.Config{Log: p.log})
	return err
}

// hasWildcards reports whether it depends on the cluster how many resources are read.
func hasWildcards(c *config.Config) bool {
	return anyResource(c, func(r *config.Resource) bool { return r.Resource.Wildcard() })
}

// selectsNamespaces reports whether it depends on labels of namespaces what is read.
func selectsNamespaces(c *config.Config) bool {
	return anyResource(c, func(r *config.Resource) bool { return r.NamespaceSelector != "" })
}

func anyResource(c *config.Config, is func(*config.Resource) bool) bool {
	return slices.ContainsFunc(c.Pipelines, func(p config.Pipeline) bool {
		return slices.ContainsFunc(p.Resources, func(r config.Resource) bool { return is(&r) })
	})
}

// running returns the pipelines; none before all have started, so that a process is not called ready for the first of
// them.
func (r *report) running() []*bridge.Pipeline {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.pipelines)
}

func (r *report) setPipelines(all []*bridge.Pipeline) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pipelines = all
}

// launch makes a fleet of the configuration that holds now; from then on the fleet is told of others.
func (p *process) launch(open func(*config.Config) (*fleet, error)) (*fleet, error) {
	p.turn.Lock()
	defer p.turn.Unlock()
	f, err := open(p.current)
	if err == nil {
		p.fleet = f
	}
	return f, err
}

// heed does work, and meanwhile what signals and the file ask for.
func (p *process) heed(ctx context.Context, hangups <-chan os.Signal, work func(context.Context) error) error {
	heeding, stop := context.WithCancel(ctx)
	var reloading sync.WaitGroup
	reloading.Go(func() { p.reloads.follow(heeding, hangups, p.log) })
	err := work(ctx)
	stop()
	reloading.Wait()
	return err
}

// idle says why there are no pipelines, and whether that is as it should be.
func (r *report) idle() (line string, ready bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.standing != nil:
		return r.standing.idle()
	case r.unstarted != nil:
		return "starting: " + r.unstarted.Error(), false
	default:
		return "starting: the API server has not answered yet", false
	}
}

func (r *report) setStartError(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.unstarted = err
}

// registerWatches registers metrics of watches that are shared.
func registerWatches(reg prometheus.Registerer, w *sharing.Watches) {
	reg.MustRegister(
		metric.NewGauge("shared_watches", func() float64 { return float64(w.Shared()) }),
		metric.NewGauge("shared_bytes", func() float64 { return float64(w.Held()) }),
	)
}
