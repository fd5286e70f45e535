// SPDX-License-Identifier: Apache-2.0

package checkpointcmd

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	"github.com/kube-eventbridge/kube-eventbridge/internal/checkpoints"
	"github.com/kube-eventbridge/kube-eventbridge/internal/cli/cmdutil"
	"github.com/kube-eventbridge/kube-eventbridge/internal/config"
	"github.com/kube-eventbridge/kube-eventbridge/internal/exit"
	"github.com/kube-eventbridge/kube-eventbridge/internal/wiring"
	"github.com/kube-eventbridge/kube-eventbridge/source/kube"
)

// checkpointFlags say where checkpoints are.
type checkpointFlags struct {
	*cmdutil.Streams
	file, dataDir, kubeconfig, context string
}

// place is where the checkpoint of a pipeline is.
type place struct {
	pipeline string
	checkpoints.Place
}

// onePipeline wants the name of one.
func (f *checkpointFlags) onePipeline(verb string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) == 1 {
			return nil
		}
		names := "kube-eventbridge checkpoint list shows them"
		if all := f.pipelines(); len(all) > 0 {
			names = "of " + strings.Join(all, ", ")
		}
		return exit.Usagef("give the name of one pipeline: checkpoint %s PIPELINE; %s", verb, names)
	}
}

// completePipeline makes a shell offer the names of pipelines.
func (f *checkpointFlags) completePipeline(cmd *cobra.Command) {
	cmdutil.CompleteArgs(cmd, func(string) []string { return f.pipelines() })
}

// selecting gives cmd the flag for streams.
func (f *checkpointFlags) selecting(cmd *cobra.Command, names *[]string) {
	cmd.Flags().StringSliceVar(names, "stream", nil,
		"only this `stream`, as checkpoint show names it; repeatable (default: all of the pipeline)")
	_ = cmd.RegisterFlagCompletionFunc("stream", cobra.NoFileCompletions)
	f.completePipeline(cmd)
}

// pipelines are the names that there are, as far as files tell.
func (f *checkpointFlags) pipelines() []string {
	if f.file != "" {
		return cmdutil.PipelinesIn(f.file)
	}
	_, names, _ := f.stored()
	return names
}

// stored returns the data directory, and the pipelines of which it has checkpoint files.
func (f *checkpointFlags) stored() (dir string, names []string, err error) {
	if dir, err = (&config.Config{DataDir: f.dataDir}).StateDir(); err != nil {
		return "", nil, err
	}
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		if name, is := strings.CutSuffix(e.Name(), ".db"); is && !e.IsDir() {
			names = append(names, name)
		}
	}
	return dir, names, err
}

// place returns where the checkpoint of a pipeline is.
func (f *checkpointFlags) place(cmd *cobra.Command, pipeline string) (place, error) {
	found, err := f.places(cmd, pipeline)
	if err != nil {
		return place{}, err
	}
	return found[0], nil
}

// places returns where the checkpoint of a pipeline is, or without a name those of all.
func (f *checkpointFlags) places(cmd *cobra.Command, pipeline string) ([]place, error) {
	if given := cmd.Flags().Changed; f.file == "" {
		if given("kubeconfig") || given("context") {
			return nil,
				exit.Usagef("--kubeconfig and --context find checkpoints in Kafka or NATS, and those of --data-dir are files: " +
					"leave them out, or give --config too")
		}
		return f.files(pipeline)
	} else if given("data-dir") {
		return nil, exit.Usagef("--config and --data-dir exclude each other: %s says where its checkpoints are", f.file)
	}
	cfg, _, err := config.Load(f.file)
	if err != nil {
		return nil, err
	}
	cfg.Kubernetes.Kubeconfig = cmp.Or(f.kubeconfig, cfg.Kubernetes.Kubeconfig)
	cfg.Kubernetes.Context = cmp.Or(f.context, cfg.Kubernetes.Context)
	var found []place
	var names []string
	for i := range cfg.Pipelines {
		p := &cfg.Pipelines[i]
		names = append(names, p.Name)
		if pipeline != "" && p.Name != pipeline {
			continue
		}
		at, err := f.checkpointOf(cmd, cfg, p)
		if err != nil {
			return nil, err
		}
		found = append(found, place{p.Name, at})
	}
	if len(found) == 0 {
		return nil, &exit.InputError{Err: fmt.Errorf("%s has no pipeline %q; it has %s", f.file, pipeline,
			strings.Join(names, ", "))}
	}
	return found, nil
}

// files returns the checkpoints in the data directory.
func (f *checkpointFlags) files(pipeline string) ([]place, error) {
	dir, names, err := f.stored()
	if err != nil {
		return nil,
			&exit.InputError{Err: fmt.Errorf(
				"find checkpoints: %w; name a directory with --data-dir, or a configuration file with --config", err)}
	}
	if pipeline != "" {
		if !slices.Contains(names, pipeline) {
			return nil, &exit.InputError{Err: fmt.Errorf("%s has no checkpoint of a pipeline %q; it has %s", dir, pipeline,
				cmp.Or(strings.Join(names, ", "), "none"))}
		}
		names = []string{pipeline}
	}
	var found []place
	for _, name := range names {
		found = append(found, place{name, checkpoints.File(filepath.Join(dir, name+".db"))})
	}
	return found, nil
}

// checkpointOf returns where the checkpoint of p is. It reads the files of secrets.
func (f *checkpointFlags) checkpointOf(
	cmd *cobra.Command, cfg *config.Config, p *config.Pipeline,
) (checkpoints.Place, error) {
	switch {
	case p.Checkpoint.Kafka != nil:
		at, err := wiring.KafkaCheckpoint(p)
		if err != nil {
			return nil, &exit.InputError{Err: fmt.Errorf("pipeline %s: %w", p.Name, err)}
		}
		at.Patience = 0 // it is not tried again
		id, err := f.namesOf(cmd, cfg, p)
		return checkpoints.Topic{Config: at, ID: id}, err
	case p.Checkpoint.NATS != nil:
		at, err := wiring.NATSCheckpoint(p)
		if err != nil {
			return nil, &exit.InputError{Err: fmt.Errorf("pipeline %s: %w", p.Name, err)}
		}
		at.Patience = 0
		id, err := f.namesOf(cmd, cfg, p)
		return checkpoints.Bucket{Config: at, ID: id}, err
	default:
		path, err := cfg.CheckpointPath(p)
		return checkpoints.File(path), err
	}
}

// namesOf returns the names under which a broker has the checkpoint of p.
func (f *checkpointFlags) namesOf(
	cmd *cobra.Command, cfg *config.Config, p *config.Pipeline,
) (checkpoint.Identity, error) {
	id := checkpoint.Identity{Cluster: cfg.Cluster, Pipeline: p.Name}
	if id.Cluster != "" {
		return id, nil
	}
	uid, err := f.clusterUID(cmd, cfg.Kubernetes)
	if err != nil {
		return id,
			fmt.Errorf("pipeline %s: find its checkpoint at the broker by the uid of namespace kube-system, as the file names "+
				"no cluster: %w", p.Name, err)
	}
	id.Cluster = uid
	return id, nil
}

// clusterUID asks the API server once.
func (f *checkpointFlags) clusterUID(cmd *cobra.Command, k config.Kubernetes) (string, error) {
	at, err := f.RestConfig(k)
	if err != nil {
		return "", err
	}
	client, err := kube.NewClient(at)
	if err != nil {
		return "", err
	}
	defer client.CloseIdleConnections()
	return client.ClusterUID(cmd.Context())
}
