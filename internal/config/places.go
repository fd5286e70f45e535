// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/kube-eventbridge/kube-eventbridge/internal/config/rules"
	"github.com/kube-eventbridge/kube-eventbridge/internal/config/value"
)

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
func (c *Config) BufferShare(p *Pipeline) value.Size {
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
func (c *Config) SharedBuffer() value.Size {
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
func (c *Config) unclaimed() (rest, sharers value.Size) {
	rest = c.Buffer.MaxBytes
	for _, p := range c.Pipelines {
		rest -= p.Buffer.MaxBytes
		if p.Buffer.MaxBytes == 0 {
			sharers++
		}
	}
	return rest, sharers
}

// CheckpointServers returns the NATS servers that have the checkpoint of p, which is in NATS, and how they are told who
// we are.
func (p *Pipeline) CheckpointServers() ([]string, *NATSAccess) {
	if c := p.Checkpoint.NATS; len(c.Servers) > 0 || p.Sink.NATS == nil {
		return c.Servers, &c.NATSAccess
	}
	return p.Sink.NATS.Servers, &p.Sink.NATS.NATSAccess
}

// DifferentKeys returns the paths of the keys whose values differ from those of next.
func (c *Config) DifferentKeys(next *Config) []string { return rules.Differences(c, next, whole.Keys) }

// DifferentKeys returns the paths of the keys whose values differ from those of next, within the pipeline.
func (p *Pipeline) DifferentKeys(next *Pipeline) []string {
	return rules.Differences(p, next, mapping(pipelineKeys).Keys)
}
