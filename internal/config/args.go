// SPDX-License-Identifier: Apache-2.0

package config

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/kube-eventbridge/kube-eventbridge/internal/config/rules"
)

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
	// Flags are the names of the flags in the order of the command line, which is that of problems.
	Flags []string
}

// FromArgs returns the configuration of "run pods deployments.apps": one pipeline named default, with the embedded
// server as its sink; or one named stdout, whose checkpoint is another: what one of the two has told, the other one has
// not. An error is a [Problems], whose paths are argument 1, argument 2, --namespace, --selector, --listen,
// --broker-listen and --data-dir.
func FromArgs(args Args) (*Config, error) {
	if len(args.Resources) == 0 {
		return nil, Problems{{Message: "name at least one resource, such as pods or deployments.apps"}}
	}
	c := Default()
	c.Pipelines = make([]Pipeline, 1)
	p := &c.Pipelines[0]
	rules.SetDefaults(p, mapping(pipelineKeys).Keys)
	p.Name, p.Resources = "default", make([]Resource, len(args.Resources))
	if args.Stdout {
		p.Name, p.Sink.Stdout = "stdout", &Stdout{}
	}
	c.complete()
	if p.Sink.Embedded != nil {
		p.Sink.Embedded.Listen = cmp.Or(args.BrokerListen, p.Sink.Embedded.Listen)
	}
	c.Server.Listen, c.DataDir = cmp.Or(args.Listen, c.Server.Listen), args.DataDir
	var found Problems
	for i, arg := range args.Resources {
		r := &p.Resources[i]
		rules.SetDefaults(r, mapping(resourceKeys).Keys)
		r.Namespaces, r.LabelSelector = slices.Clone(args.Namespaces), args.LabelSelector
		err := r.Resource.UnmarshalText([]byte(arg))
		if ext := filepath.Ext(arg); ext == ".yaml" || ext == ".yml" || ext == ".json" {
			err = fmt.Errorf("%q is a file and not a resource; write --config %s", arg, arg)
		}
		if err != nil {
			found = append(found, Problem{
				Path: fmt.Sprintf("pipelines[0].resources[%d].resource", i), Message: err.Error(),
			})
		}
	}
	if problems := arguments(append(found, c.check().Problems...), args.Flags); problems != nil {
		return nil, problems
	}
	if c.DataDir == "" {
		return c, nil
	}
	dir, err := filepath.Abs(c.DataDir)
	if err != nil {
		return nil, Problems{{Path: "--data-dir", Message: rules.OneLine(err.Error())}}
	}
	c.DataDir = dir
	return c, nil
}

// ArgumentWarnings returns which resources of a configuration that [FromArgs] has made are probably misspelt.
func (c *Config) ArgumentWarnings() Problems {
	return arguments(slices.DeleteFunc(c.check().Warnings, func(w Problem) bool {
		return !strings.HasSuffix(w.Path, ".resource")
	}), nil)
}

// arguments gives issues the parts of the command line that they are about. Of each resource the first is told, and of
// what holds for all resources each one once. Resources come first, and flags in their order.
func arguments(found Problems, flags []string) (all Problems) {
	place := map[string][3]int{}
	seen := map[string]bool{}
	for _, i := range found {
		p := Problem{Message: rules.OneLine(i.Message)}
		var n int
		_, err := fmt.Sscanf(i.Path, "pipelines[0].resources[%d]", &n)
		once := ""
		switch {
		case i.Path == "dataDir":
			p.Path = "--data-dir"
		case i.Path == "server.listen":
			p.Path = "--listen"
		case i.Path == "pipelines[0].sink.embedded.listen":
			p.Path = "--broker-listen"
		case err != nil:
			panic("BUG: arguments give a bad configuration: " + i.Path + ": " + i.Message)
		case strings.Contains(i.Path, "].namespaces"):
			p.Path, once = "--namespace", i.Message
		case strings.HasSuffix(i.Path, "].labelSelector"):
			p.Path, once = "--selector", i.Message
		default:
			p.Path = fmt.Sprintf("argument %d", n+1)
			once = p.Path
		}
		if !seen[once] || once == "" {
			place[p.String()] = [3]int{slices.Index(flags, strings.TrimPrefix(p.Path, "--")), n, indexIn(i.Path)}
			all = append(all, p)
		}
		seen[once] = true
	}
	slices.SortStableFunc(all, func(a, b Problem) int {
		x, y := place[a.String()], place[b.String()]
		return slices.Compare(x[:], y[:])
	})
	return all
}

// indexIn returns the index at the end of the path of an item; -1 of what is no item.
func indexIn(path string) int {
	n, err := strconv.Atoi(strings.TrimSuffix(path[strings.LastIndexByte(path, '[')+1:], "]"))
	if err != nil {
		return -1
	}
	return n
}
