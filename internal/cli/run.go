// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"cmp"
	"os"

	"github.com/spf13/cobra"

	"github.com/kube-eventbridge/kube-eventbridge/internal/app"
	"github.com/kube-eventbridge/kube-eventbridge/internal/cli/cmdutil"
	"github.com/kube-eventbridge/kube-eventbridge/internal/config"
	"github.com/kube-eventbridge/kube-eventbridge/internal/exit"
)

// runFlags are what the command line of run says.
type runFlags struct {
	file, kubeconfig, context string
	namespaces                []string
	selector                  string
	listen, broker, dataDir   string
	output                    string
	// given are the names of the flags on the command line, in their order there.
	given []string
	// read is what the file had.
	read []byte
	// replicas: a file with nothing but replicas is of use.
	replicas bool
}

func newRunCommand(s *cmdutil.Streams) *cobra.Command {
	var flags runFlags
	cmd := &cobra.Command{
		Use:   "run [--config FILE | RESOURCE...]",
		Short: "Publish changes until a signal ends it",
		Long: "Publish every change of the configured resources. With resources instead of a file there is one pipeline\n" +
			"that publishes to an embedded NATS server on 127.0.0.1:4222; see it with: kube-eventbridge tail\n" +
			"A second one, or one for another cluster, needs addresses and a directory of its own:\n" +
			"--listen, --broker-listen, --data-dir.\n\n" +
			"With -o it prints events to its standard output instead, and starts no server, unless --listen names an address " +
			"for metrics and\nprobes: wide has a line for a person, as tail -o wide, json a CloudEvent a line. It goes on " +
			"where the last one that printed has ended. With a file, -o says how sinks stdout print.\n\nThe first SIGINT or " +
			"SIGTERM stops reading and waits for what is under way; the second ends the process at once.",
		Example: "  kube-eventbridge run pods deployments.apps\n  kube-eventbridge run pods -n web,shop -l tier!=cache\n" +
			"  kube-eventbridge run pods -o wide\n" +
			"  kube-eventbridge run --config bridge.yaml",
		RunE: func(cmd *cobra.Command, args []string) error {
			flags.given = cmdutil.Given(cmd)
			if err := flags.check(); err != nil {
				return err
			}
			hangups, stop := flags.hangups(s)
			defer stop()
			cfg, err := flags.load(s, args)
			if err != nil {
				return err
			}
			return app.Run(cmd.Context(), app.Options{
				Config: cfg, File: flags.file, Data: flags.read, Parse: flags.parse, Serves: flags.serves(),
				Out: s.Out, Err: s.Err, Format: flags.format(s), Klog: s.Klog, Hangups: hangups, Build: s.Build,
			})
		},
	}
	cmd.Flags().StringVarP(&flags.file, "config", "c", "", "the configuration file")
	cmd.Flags().StringSliceVarP(&flags.namespaces, "namespace", "n", nil,
		"watch the resources named here in this namespace only; repeatable")
	cmd.Flags().StringVarP(&flags.selector, "selector", "l", "",
		"watch only those objects of the resources named here that have these labels")
	cmd.Flags().StringVar(&flags.listen, "listen", "",
		"`address` of metrics and probes, without --config (default 127.0.0.1:8080; with -o none)")
	cmd.Flags().StringVar(&flags.broker, "broker-listen", "",
		"`address` of the embedded server, without --config (default 127.0.0.1:4222)")
	cmd.Flags().StringVar(&flags.dataDir, "data-dir", "",
		"`directory` of positions and events, without --config (default: kube-eventbridge in $XDG_STATE_HOME or "+
			"~/.local/state)")
	cmd.Flags().StringVar(&flags.kubeconfig, "kubeconfig", "",
		"path of the kubeconfig (default: in-cluster, $KUBECONFIG, ~/.kube/config)")
	cmd.Flags().StringVar(&flags.context, "context", "", "context of the kubeconfig")
	cmd.Flags().StringVarP(&flags.output, "output", "o", "",
		"print events to standard output: wide (a line for a person) or json (CloudEvents, one a line)")
	_ = cmd.MarkFlagFilename("config", "yaml", "yml")
	_ = cmd.MarkFlagDirname("data-dir")
	cmdutil.Complete(cmd, "output", func() []string { return []string{"json", "wide"} })
	cmdutil.CompleteResources(cmd, &flags.file)
	cmdutil.Complete(cmd, "context", func() []string { return cmdutil.ContextsIn(flags.kubeconfig) })
	return cmd
}

// hangups returns where each SIGHUP is told from now on, and what ends that. Without a file there is nothing to be
// loaded again, and a terminal that closes ends the process.
func (f *runFlags) hangups(s *cmdutil.Streams) (<-chan os.Signal, func()) {
	if s.Hangups == nil || f.file == "" {
		return nil, func() {}
	}
	return s.Hangups()
}

// check refuses flags that have no effect.
func (f *runFlags) check() error {
	inFile := map[string]string{
		"namespace": "namespaces to the resources", "selector": "labelSelector to the resources", "listen": "server.listen",
		"broker-listen": "pipelines[].sink.embedded.listen", "data-dir": "dataDir",
	}
	values := map[string]string{"listen": f.listen, "broker-listen": f.broker, "data-dir": f.dataDir}
	for _, flag := range f.given {
		key, excluded := inFile[flag]
		value, needed := values[flag]
		switch {
		case f.file != "" && excluded:
			return exit.Usagef("--config and --%s exclude each other: write %s in %s", flag, key, f.file)
		case needed && value == "":
			return exit.Usagef("--%s is empty: give a value, or leave the flag out for the default", flag)
		case flag == "namespace" && len(f.namespaces) == 0:
			return exit.Usagef("--namespace is empty: give the name of a namespace, or leave the flag out for all")
		}
	}
	return f.checkOutput()
}

// load returns the configuration of the file or of the arguments; flags win over the file.
func (f *runFlags) load(s *cmdutil.Streams, args []string) (*config.Config, error) {
	var cfg *config.Config
	var err error
	switch {
	case f.file != "" && len(args) > 0:
		return nil, exit.Usagef("--config and resources as arguments exclude each other: put the resources into %s", f.file)
	case f.file != "":
		if f.read, err = config.Read(f.file); err != nil {
			return nil, err
		}
		var warnings config.Problems
		if cfg, warnings, err = f.parse(f.read); err != nil {
			return nil, cmdutil.Reported(err, warnings)
		}
		cmdutil.PrintWarnings(s.Err, warnings)
		return cfg, nil
	case len(args) > 0:
		cfg, err = config.FromArgs(config.Args{
			Resources: args, Namespaces: f.namespaces, LabelSelector: f.selector,
			Listen: f.listen, BrokerListen: f.broker, DataDir: f.dataDir, Stdout: f.output != "",
			Flags: f.given,
		})
	default:
		return nil, exit.Usagef("nothing to watch: give resources (run pods deployments.apps) or --config FILE")
	}
	if err != nil {
		return nil, err
	}
	cmdutil.PrintWarnings(s.Err, cfg.ArgumentWarnings())
	f.override(cfg)
	return cfg, nil
}

// parse returns the configuration that the file has if it has data.
func (f *runFlags) parse(data []byte) (*config.Config, config.Problems, error) {
	cfg, warnings, err := config.LoadRead(f.file, data)
	if err != nil {
		return nil, warnings, err
	}
	if !f.replicas {
		if err := needsPipelines(cfg, f.file); err != nil {
			return nil, warnings, err
		}
	}
	f.override(cfg)
	return cfg, warnings, f.prints(cfg)
}

// needsPipelines refuses a file without pipelines.
func needsPipelines(cfg *config.Config, file string) error {
	if len(cfg.Pipelines) == 0 {
		return exit.Usagef("%s has replicas and no pipelines, so there is nothing to publish; run it with: "+
			"kube-eventbridge replicate --config %s", file, file)
	}
	return nil
}

// override has flags win over the file.
func (f *runFlags) override(cfg *config.Config) {
	cfg.Kubernetes.Kubeconfig = cmp.Or(f.kubeconfig, cfg.Kubernetes.Kubeconfig)
	cfg.Kubernetes.Context = cmp.Or(f.context, cfg.Kubernetes.Context)
}

// serves reports whether there is a server for metrics and probes. What prints to a terminal has none unless it is
// asked for, so that it runs beside a bridge.
func (f *runFlags) serves() bool { return f.file != "" || f.output == "" || f.listen != "" }
