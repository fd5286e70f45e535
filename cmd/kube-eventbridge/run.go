// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/rest"

	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge"
	"github.com/kube-eventbridge/kube-eventbridge/internal/config"
	"github.com/kube-eventbridge/kube-eventbridge/internal/resync"
	"github.com/kube-eventbridge/kube-eventbridge/internal/status"
	"github.com/kube-eventbridge/kube-eventbridge/sink/stdout"
	"github.com/kube-eventbridge/kube-eventbridge/source"
)

// runFlags are what the command line of run says.
type runFlags struct {
	file, kubeconfig, context string
	namespaces                []string
	selector                  string
	listen, broker, dataDir   string
	output                    string
	// read is what the file had.
	read []byte
}

func newRunCommand(s *streams) *cobra.Command {
	var flags runFlags
	cmd := &cobra.Command{
		Use:   "run [--config FILE | RESOURCE...]",
		Short: "Publish changes until a signal ends it",
		Long: "Publish every change of the configured resources. With resources instead of a file there is one pipeline\n" +
			"that publishes to an embedded NATS server on 127.0.0.1:4222; see it with: kube-eventbridge tail\n" +
			"A second one, or one for another cluster, needs addresses and a directory of its own:\n" +
			"--listen, --broker-listen, --data-dir.\n\n" +
			"With -o it prints events to its standard output instead, and starts no server, unless --listen names an address for metrics and\n" +
			"probes: wide has a line for a person, as tail -o wide, json a CloudEvent a line. It goes on where the last one that printed has ended. With a file, -o says how sinks stdout print.\n\n" +
			"The first SIGINT or SIGTERM stops reading and waits for what is under way; the second ends the process at once.",
		Example: "  kube-eventbridge run pods deployments.apps\n  kube-eventbridge run pods -n web,shop -l tier!=cache\n" +
			"  kube-eventbridge run pods -o wide\n" +
			"  kube-eventbridge run --config bridge.yaml",
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := flags.check(cmd.Flags().Changed); err != nil {
				return err
			}
			cfg, err := flags.load(s, args)
			if err != nil {
				return err
			}
			return run(cmd.Context(), s, cfg, &flags)
		},
	}
	cmd.Flags().StringVarP(&flags.file, "config", "c", "", "the configuration file")
	cmd.Flags().StringSliceVarP(&flags.namespaces, "namespace", "n", nil, "watch the resources named here in this namespace only; repeatable")
	cmd.Flags().StringVarP(&flags.selector, "selector", "l", "", "watch only those objects of the resources named here that have these labels")
	cmd.Flags().StringVar(&flags.listen, "listen", "", "`address` of metrics and probes, without --config (default 127.0.0.1:8080; with -o none)")
	cmd.Flags().StringVar(&flags.broker, "broker-listen", "", "`address` of the embedded server, without --config (default 127.0.0.1:4222)")
	cmd.Flags().StringVar(&flags.dataDir, "data-dir", "",
		"`directory` of positions and events, without --config (default: kube-eventbridge in $XDG_STATE_HOME or ~/.local/state)")
	cmd.Flags().StringVar(&flags.kubeconfig, "kubeconfig", "", "path of the kubeconfig (default: in-cluster, $KUBECONFIG, ~/.kube/config)")
	cmd.Flags().StringVar(&flags.context, "context", "", "context of the kubeconfig")
	cmd.Flags().StringVarP(&flags.output, "output", "o", "", "print events to standard output: wide (a line for a person) or json (CloudEvents, one a line)")
	_ = cmd.MarkFlagFilename("config", "yaml", "yml")
	_ = cmd.MarkFlagDirname("data-dir")
	complete(cmd, "output", func() []string { return []string{"json", "wide"} })
	completeResources(cmd, &flags.file)
	complete(cmd, "context", func() []string { return contextsIn(flags.kubeconfig) })
	return cmd
}

// check refuses flags that have no effect; given says which are on the command line.
func (f *runFlags) check(given func(string) bool) error {
	for _, of := range []struct{ flag, key string }{
		{"namespace", "namespaces to the resources"},
		{"selector", "labelSelector to the resources"},
		{"listen", "server.listen"},
		{"broker-listen", "pipelines[].sink.embedded.listen"},
		{"data-dir", "dataDir"},
	} {
		if f.file != "" && given(of.flag) {
			return usagef("--config and --%s exclude each other: write %s in %s", of.flag, of.key, f.file)
		}
	}
	for flag, value := range map[string]string{"listen": f.listen, "broker-listen": f.broker, "data-dir": f.dataDir} {
		if given(flag) && value == "" {
			return usagef("--%s is empty: give a value, or leave the flag out for the default", flag)
		}
	}
	if given("namespace") && len(f.namespaces) == 0 {
		return usagef("--namespace is empty: give the name of a namespace, or leave the flag out for all")
	}
	return f.checkOutput(given)
}

// load returns the configuration of the file or of the arguments; flags win over the file.
func (f *runFlags) load(s *streams, args []string) (*config.Config, error) {
	var cfg *config.Config
	var err error
	switch {
	case f.file != "" && len(args) > 0:
		return nil, usagef("--config and resources as arguments exclude each other: put the resources into %s", f.file)
	case f.file != "":
		if f.read, err = config.Read(f.file); err != nil {
			return nil, err
		}
		var warnings config.Problems
		if cfg, warnings, err = f.parse(f.read); err != nil {
			return nil, reported(err, warnings)
		}
		printWarnings(s.Err, warnings)
		return cfg, nil
	case len(args) > 0:
		cfg, err = config.FromArgs(config.Args{
			Resources: args, Namespaces: f.namespaces, LabelSelector: f.selector,
			Listen: f.listen, BrokerListen: f.broker, DataDir: f.dataDir, Stdout: f.output != "",
		})
	default:
		return nil, usagef("nothing to watch: give resources (run pods deployments.apps) or --config FILE")
	}
	if err != nil {
		return nil, err
	}
	f.override(cfg)
	return cfg, nil
}

// parse returns the configuration that the file has if it has data.
func (f *runFlags) parse(data []byte) (*config.Config, config.Problems, error) {
	cfg, warnings, err := config.LoadRead(f.file, data)
	if err != nil {
		return nil, warnings, err
	}
	f.override(cfg)
	return cfg, warnings, f.prints(cfg)
}

// override has flags win over the file.
func (f *runFlags) override(cfg *config.Config) {
	cfg.Kubernetes.Kubeconfig = cmp.Or(f.kubeconfig, cfg.Kubernetes.Kubeconfig)
	cfg.Kubernetes.Context = cmp.Or(f.context, cfg.Kubernetes.Context)
}

// process is what one run consists of, besides its pipelines.
type process struct {
	// cfg is what the process has begun with: of what cannot change it is right.
	cfg   *config.Config
	flags *runFlags
	// fromArgs: there is no file, so errors name flags.
	fromArgs  bool
	format    stdout.Format // of what is printed
	host      string        // of the API server
	apiServer string        // its URL, without a user
	out       *streams
	log       *slog.Logger
	level     *slog.LevelVar
	api       *rest.Config
	client    *source.Client
	discovery *source.Discovery
	catalog   *source.Catalog
	// namespaces run from when something selects by them: then selects has closed selecting.
	namespaces *source.Namespaces
	selecting  chan struct{}
	selects    func()
	registry   *prometheus.Registry
	metrics    *bridge.Metrics
	// watches is nil where there is nothing to share, and will not be.
	watches *source.Watches
	// reloads is nil where there is no file that can be read again.
	reloads *reloads

	// turn is held while something begins, ends, or goes by another configuration, and guards current, by which what begins next goes, and fleet, which is what runs, or nil.
	turn    sync.Mutex
	current *config.Config
	fleet   *fleet

	mu        sync.Mutex
	pipelines []*bridge.Pipeline
	// standing is nil where no other process can lead.
	standing  *standing
	unstarted error // what the API server last refused, or nil
	// uid is the cluster's, once the API server has told it.
	uid string
	// started is when the process was, and file the path of its configuration, if it has one.
	started time.Time
	file    string
}

func run(ctx context.Context, s *streams, cfg *config.Config, f *runFlags) error {
	p := &process{
		cfg: cfg, current: cfg, flags: f, fromArgs: f.file == "", format: f.format(s), out: s, level: &slog.LevelVar{}, registry: prometheus.NewRegistry(), selecting: make(chan struct{}),
		started: time.Now(), file: f.file,
	}
	p.level.Set(level(cfg.Log.Level))
	p.log, p.selects = newLogger(s.Err, cfg.Log, p.level), sync.OnceFunc(func() { close(p.selecting) })
	if s.Klog != nil {
		s.Klog(slog.New(quiet{p.log.Handler()}))
	}
	memory := newMemoryLimit(p.log)
	memory.apply()
	if err := p.reach(); err != nil {
		return err
	}
	defer p.client.CloseIdleConnections()
	p.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	registerClientMetrics(p.registry)
	registerBuildInfo(p.registry, build())
	p.metrics = bridge.NewMetrics(p.registry)
	if f.file != "" && lasts(f.file) {
		p.reloads = newReloads(p, f.file, f.read)
	}
	p.need(cfg)
	if hold := p.cfg.SharedBuffer(); hold > 0 || p.reloads != nil {
		p.watches = source.NewWatches(p.client, int64(hold))
		p.metrics.Watches(p.registry, p.watches)
	}

	g, serving := errgroup.WithContext(context.WithoutCancel(ctx))
	if f.serves() {
		listener, err := p.listen()
		if err != nil {
			return err
		}
		g.Go(func() error { return serve(serving, listener, p.handler()) })
	}
	work, stop := context.WithCancel(ctx)
	defer stop()
	stopped := context.AfterFunc(serving, stop)
	defer stopped()
	g.Go(func() error {
		giveBack(serving)
		return nil
	})
	g.Go(func() error {
		memory.follow(serving)
		return nil
	})
	err := p.heed(work, s.Hangups, p.publish)
	g.Go(func() error { return errDone })
	if served := g.Wait(); err == nil && !errors.Is(served, errDone) {
		err = served
	}
	if err == nil {
		p.log.Info("stopped")
	}
	return err
}

// serves reports whether there is a server for metrics and probes. What prints to a terminal has none unless it is asked for, so that it runs beside a bridge.
func (f *runFlags) serves() bool { return f.file != "" || f.output == "" || f.listen != "" }

// listen opens the address of metrics and probes.
func (p *process) listen() (net.Listener, error) {
	listener, err := net.Listen("tcp", p.cfg.Server.Listen)
	if err != nil {
		free := "an address of this machine"
		if errors.Is(err, syscall.EADDRINUSE) {
			free = "a free address"
		}
		return nil, fmt.Errorf("listen for metrics and health: %w; set %s to %s", err, p.listenKey(), free)
	}
	p.log.Info("serving / /api/status /metrics /livez /readyz /resync", "address", listener.Addr().String(), "version", build().Version)
	return listener, nil
}

// handler serves what the process tells, and takes what it is asked for.
func (p *process) handler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle(resync.Path, resync.Handler(p.cfg.Server.Listen, p.running))
	page := status.Handler(p.statusConfig())
	mux.Handle("/{$}", page)
	mux.Handle(status.Path, page)
	if p.cfg.Server.Profiling {
		handleProfiles(mux)
	}
	mux.Handle("/", bridge.Handler(p.registry, p.running, p.idle))
	return p.noting(mux)
}

// noting adds to what /readyz tells of the pipelines how the process stands to its file, where that is not as it should be.
func (p *process) noting(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.ServeHTTP(w, r)
		if note := p.reloads.now().note(); note != "" && r.URL.Path == "/readyz" {
			_, _ = fmt.Fprintln(w, note)
		}
	})
}

// reach makes the clients of the API server.
func (p *process) reach() error {
	api, err := restConfig(p.cfg.Kubernetes)
	if err != nil {
		return err
	}
	at, _, err := rest.DefaultServerUrlFor(api)
	if err != nil {
		return fmt.Errorf("address of the API server: %w", err)
	}
	p.api, p.host, at.User = api, at.Host, nil
	p.apiServer = at.String()
	if p.discovery, err = source.NewDiscovery(api); err != nil {
		return err
	}
	if p.client, err = source.NewClient(api); err != nil {
		return err
	}
	if p.namespaces, err = source.NewNamespaces(api); err != nil {
		return err
	}
	p.catalog, err = source.NewCatalog(api, p.client, source.CatalogConfig{Log: p.log})
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

// running returns the pipelines; none before all have started, so that a process is not called ready for the first of them.
func (p *process) running() []*bridge.Pipeline {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.pipelines)
}

func (p *process) setPipelines(all []*bridge.Pipeline) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.pipelines = all
}

// standingBy returns what records while another process leads; nil where none can, or nothing has begun.
func (p *process) standingBy() *standby {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.standing == nil {
		return nil
	}
	return p.standing.by
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
func (p *process) heed(ctx context.Context, listen func() (<-chan os.Signal, func()), work func(context.Context) error) error {
	var hangups <-chan os.Signal
	if listen != nil && p.flags.file != "" { // without a file a terminal that closes ends the process
		signals, stop := listen()
		defer stop()
		hangups = signals
	}
	heeding, stop := context.WithCancel(ctx)
	var reloading sync.WaitGroup
	reloading.Go(func() { p.reload(heeding, hangups) })
	err := work(ctx)
	stop()
	reloading.Wait()
	return err
}

// idle says why there are no pipelines, and whether that is as it should be.
func (p *process) idle() (line string, ready bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.standing != nil:
		return p.standing.idle()
	case p.unstarted != nil:
		return "starting: " + p.unstarted.Error(), false
	default:
		return "starting: the API server has not answered yet", false
	}
}

func (p *process) setStartError(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.unstarted = err
}

// errDone ends the HTTP server when the pipelines have ended.
var errDone = fmt.Errorf("done")

// serve answers until ctx ends.
func serve(ctx context.Context, l net.Listener, h http.Handler) error {
	server := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second}
	ended := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer ended()
	if err := server.Serve(l); ctx.Err() == nil {
		return fmt.Errorf("serve metrics and health: %w", err)
	}
	return nil
}
