// SPDX-License-Identifier: Apache-2.0

package config

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/kube-eventbridge/kube-eventbridge/encode"
)

// Default returns what an empty file means. It has no pipeline, so it is not valid as it is.
func Default() *Config {
	return &Config{
		Buffer: Buffer{MaxBytes: 256 << 20},
		Server: Server{Listen: "127.0.0.1:8080"},
		Log:    Log{Level: LevelInfo, Format: FormatAuto},
	}
}

// defaulter is what a type implements whose values in a list or behind a pointer start with defaults.
type defaulter interface{ setDefaults() }

func (p *Pipeline) setDefaults() {
	p.Encoding.Mode, p.Encoding.Profile, p.OnReject = Binary, ProfileOwn, OnRejectPublish
	p.Oversize = OversizeReject
	p.Recovery = Recovery{Enabled: true, MaxReads: 10_000, MaxTime: time.Minute}
	p.Audit = Audit{Interval: 24 * time.Hour}
}

func (r *Resource) setDefaults() {
	r.Operations = []Operation{Added, Updated, Deleted}
	r.Delivery, r.Payload, r.Snapshot, r.OnFilterError = Every, PayloadObject, SnapshotInitial, OnFilterErrorPublish
}

func (j *JetStream) setDefaults() {
	j.Stream, j.Subject, j.Fence, j.DuplicateWindow = "KUBERNETES", encode.DefaultSubject, true, 2*time.Minute
}

func (n *NATS) setDefaults() {
	n.JetStream.setDefaults()
	n.Servers, n.Replicas = []string{"nats://localhost:4222"}, 1
}

func (e *Embedded) setDefaults() {
	e.JetStream.setDefaults()
	e.Listen = "127.0.0.1:4222"
}

func (k *Kafka) setDefaults() { k.Topic, k.Compression = encode.DefaultTopic, None }

func (c *CheckpointKafka) setDefaults() { c.Topic = "kube-eventbridge-checkpoints" }

func (c *CheckpointNATS) setDefaults() { c.Bucket, c.Replicas = "kube-eventbridge-checkpoints", 1 }

// complete gives a pipeline without a sink the embedded server.
func (c *Config) complete() {
	for i := range c.Pipelines {
		if s := &c.Pipelines[i].Sink; *s == (Sink{}) {
			s.Embedded = new(Embedded)
			s.Embedded.setDefaults()
		}
	}
}

// Args is what a command line says instead of a file.
type Args struct {
	Resources []string
	// Namespaces and LabelSelector hold for each resource; empty means all.
	Namespaces    []string
	LabelSelector string
	// Listen is where metrics and health are served, BrokerListen where the embedded server listens, and DataDir where
	// state is kept; empty means the defaults. A relative DataDir is relative to the working directory.
	Listen, BrokerListen, DataDir string
	// Stdout publishes to the standard output instead of the embedded server.
	Stdout bool
}

// FromArgs returns the configuration of "run pods deployments.apps": one pipeline named default, with the embedded
// server as its sink; or one named stdout, whose checkpoint is another: what one of the two has told, the other one has
// not. An error is a [Problems], whose paths are argument 1, argument 2, --namespace, --selector, --listen,
// --broker-listen and --data-dir.
func FromArgs(args Args) (*Config, error) {
	if len(args.Resources) == 0 {
		return nil, Problems{{Message: "name at least one resource, such as pods or deployments.apps"}}
	}
	p := Pipeline{Name: "default", Resources: make([]Resource, len(args.Resources))}
	p.setDefaults()
	if args.Stdout {
		p.Name, p.Sink.Stdout = "stdout", &Stdout{}
	}
	var problems Problems
	for i, arg := range args.Resources {
		r := &p.Resources[i]
		r.setDefaults()
		r.Namespaces, r.LabelSelector = slices.Clone(args.Namespaces), args.LabelSelector
		if ext := filepath.Ext(arg); ext == ".yaml" || ext == ".yml" || ext == ".json" {
			problems = append(problems, Problem{
				Path:    argument(i),
				Message: fmt.Sprintf("%q is a file and not a resource; write --config %s", arg, arg),
			})
			continue
		}
		if err := r.Resource.UnmarshalText([]byte(arg)); err != nil {
			problems = append(problems, Problem{Path: argument(i), Message: oneLine(err.Error())})
		}
	}
	c := Default()
	c.Pipelines = []Pipeline{p}
	c.complete()
	if err := c.place(args); err != nil {
		problems = append(problems, Problem{Path: "--data-dir", Message: oneLine(err.Error())})
	}
	found, _ := c.check()
	for _, issue := range found {
		if path, told := c.argument(issue); !told {
			problems = append(problems, Problem{Path: path, Message: oneLine(issue.message)})
		}
	}
	if problems != nil {
		return nil, problems
	}
	return c, nil
}

// ArgumentWarnings returns which resources of a configuration that [FromArgs] has made are probably misspelt.
func (c *Config) ArgumentWarnings() (warnings Problems) {
	_, found := c.check()
	for i := range c.Pipelines[0].Resources {
		for _, w := range found {
			if w.path == fmt.Sprintf("pipelines[0].resources[%d].resource", i) {
				warnings = append(warnings, Problem{Path: argument(i), Message: oneLine(w.message)})
			}
		}
	}
	return warnings
}

// place puts the servers and the state where args say.
func (c *Config) place(args Args) (err error) {
	c.Server.Listen = cmp.Or(args.Listen, c.Server.Listen)
	if broker := c.Pipelines[0].Sink.Embedded; broker != nil {
		broker.Listen = cmp.Or(args.BrokerListen, broker.Listen)
	}
	if strings.HasPrefix(args.DataDir, "~") {
		return fmt.Errorf("%q "+homeless, args.DataDir)
	}
	if args.DataDir != "" {
		c.DataDir, err = filepath.Abs(args.DataDir)
	}
	return err
}

func argument(i int) string { return fmt.Sprintf("argument %d", i+1) }

// argument returns which part of the command line an issue is about, and whether it is told already.
func (c *Config) argument(found issue) (path string, told bool) {
	switch found.path {
	case "server.listen":
		return "--listen", false
	case "pipelines[0].sink.embedded.listen":
		return "--broker-listen", false
	}
	var i int
	var key string
	if _, err := fmt.Sscanf(found.path, "pipelines[0].resources[%d].%s", &i, &key); err != nil {
		panic("BUG: arguments give a bad configuration: " + found.path + ": " + found.message)
	}
	switch key, _, _ = strings.Cut(key, "["); key {
	case "resource":
		return argument(i), c.Pipelines[0].Resources[i].Resource == (ResourceName{})
	case "namespaces":
		return "--namespace", i > 0
	case "labelSelector":
		return "--selector", i > 0
	default:
		panic("BUG: arguments give a bad configuration: " + found.path + ": " + found.message)
	}
}

// StateDir returns DataDir, or where it is empty kube-eventbridge in $XDG_STATE_HOME, or in ~/.local/state.
func (c *Config) StateDir() (string, error) {
	if c.DataDir != "" {
		return c.DataDir, nil
	}
	if dir := os.Getenv("XDG_STATE_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "kube-eventbridge"), nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", fmt.Errorf("find a directory for state: %w; set dataDir", err)
	}
	return filepath.Join(home, ".local", "state", "kube-eventbridge"), nil
}

// KeepsState reports whether something is kept in [Config.StateDir].
func (c *Config) KeepsState() bool {
	return slices.ContainsFunc(c.Pipelines, func(p Pipeline) bool {
		remote := p.Checkpoint.Kafka != nil || p.Checkpoint.NATS != nil
		return !remote && p.Checkpoint.File.Path == "" || p.Sink.Embedded != nil && p.Sink.Embedded.StoreDir == ""
	})
}

// CheckpointPath returns the file that holds the positions of p; where none is given, p's name and .db in
// [Config.StateDir].
func (c *Config) CheckpointPath(p *Pipeline) (string, error) {
	if p.Checkpoint.File.Path != "" {
		return p.Checkpoint.File.Path, nil
	}
	dir, err := c.StateDir()
	return filepath.Join(dir, p.Name+".db"), err
}

// StoreDir returns where the embedded server e keeps its streams.
func (c *Config) StoreDir(e *Embedded) (string, error) {
	if e.StoreDir != "" {
		return e.StoreDir, nil
	}
	dir, err := c.StateDir()
	return filepath.Join(dir, "nats"), err
}

// BufferShare returns p's part of the common buffer: what it asks for, else an equal part of what the others that
// ask, and [Config.SharedBuffer], leave.
func (c *Config) BufferShare(p *Pipeline) Size {
	share := p.Buffer.MaxBytes
	if share == 0 {
		rest, n := c.unclaimed()
		share = (rest - min(c.SharedBuffer(), rest/2)) / max(n, 1)
	}
	return share
}

// minShared is what may wait for streams that share a watch even where pipelines ask for all of the buffer.
const minShared = 1 << 20

// SharedBuffer returns the part of the common buffer for what waits for streams that are behind others with which they
// share a watch: a sixteenth; 0 where there is nothing to share.
func (c *Config) SharedBuffer() Size {
	shares := len(c.Pipelines) > 1
	for _, p := range c.Pipelines {
		for _, r := range p.Resources {
			shares = shares || len(r.Namespaces) > 1 || r.NamespaceSelector != ""
		}
	}
	if !shares {
		return 0
	}
	return max(c.Buffer.MaxBytes/16, minShared)
}

// unclaimed returns the buffer that no pipeline asks for, and how many pipelines share it.
func (c *Config) unclaimed() (rest, sharers Size) {
	rest = c.Buffer.MaxBytes
	for _, p := range c.Pipelines {
		rest -= p.Buffer.MaxBytes
		if p.Buffer.MaxBytes == 0 {
			sharers++
		}
	}
	return rest, sharers
}
