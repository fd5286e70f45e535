// SPDX-License-Identifier: Apache-2.0

package config

import (
	"cmp"
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
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
	setDefaults(reflect.ValueOf(p).Elem(), pipelineKeys)
	p.Name, p.Resources = "default", make([]Resource, len(args.Resources))
	if args.Stdout {
		p.Name, p.Sink.Stdout = "stdout", &Stdout{}
	}
	c.complete()
	if p.Sink.Embedded != nil {
		p.Sink.Embedded.Listen = cmp.Or(args.BrokerListen, p.Sink.Embedded.Listen)
	}
	c.Server.Listen, c.DataDir = cmp.Or(args.Listen, c.Server.Listen), args.DataDir
	var found []issue
	for i, arg := range args.Resources {
		r := &p.Resources[i]
		setDefaults(reflect.ValueOf(r).Elem(), resourceKeys)
		r.Namespaces, r.LabelSelector = slices.Clone(args.Namespaces), args.LabelSelector
		err := r.Resource.UnmarshalText([]byte(arg))
		if ext := filepath.Ext(arg); ext == ".yaml" || ext == ".yml" || ext == ".json" {
			err = fmt.Errorf("%q is a file and not a resource; write --config %s", arg, arg)
		}
		if err != nil {
			found = append(found, issue{path: fmt.Sprintf("pipelines[0].resources[%d].resource", i), message: err.Error()})
		}
	}
	more, _ := c.check()
	if problems := arguments(append(found, more...)); problems != nil {
		return nil, problems
	}
	if c.DataDir == "" {
		return c, nil
	}
	dir, err := filepath.Abs(c.DataDir)
	if err != nil {
		return nil, Problems{{Path: "--data-dir", Message: oneLine(err.Error())}}
	}
	c.DataDir = dir
	return c, nil
}

// ArgumentWarnings returns which resources of a configuration that [FromArgs] has made are probably misspelt.
func (c *Config) ArgumentWarnings() Problems {
	_, found := c.check()
	return arguments(slices.DeleteFunc(found, func(w issue) bool { return !strings.HasSuffix(w.path, ".resource") }))
}

// arguments gives issues the parts of the command line that they are about. Of each resource the first is told, and of
// what holds for all resources each one once.
func arguments(found []issue) (all Problems) {
	seen := map[string]bool{}
	for _, i := range found {
		p := Problem{Message: oneLine(i.message)}
		var n int
		_, err := fmt.Sscanf(i.path, "pipelines[0].resources[%d]", &n)
		once := ""
		switch {
		case i.path == "dataDir":
			p.Path = "--data-dir"
		case i.path == "server.listen":
			p.Path = "--listen"
		case i.path == "pipelines[0].sink.embedded.listen":
			p.Path = "--broker-listen"
		case err != nil:
			panic("BUG: arguments give a bad configuration: " + i.path + ": " + i.message)
		case strings.Contains(i.path, "].namespaces"):
			p.Path, once = "--namespace", i.message
		case strings.HasSuffix(i.path, "].labelSelector"):
			p.Path, once = "--selector", i.message
		default:
			p.Path = fmt.Sprintf("argument %d", n+1)
			once = p.Path
		}
		if !seen[once] || once == "" {
			all = append(all, p)
		}
		seen[once] = true
	}
	return all
}
