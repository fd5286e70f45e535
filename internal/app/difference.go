// SPDX-License-Identifier: Apache-2.0

package app

import (
	"fmt"
	"reflect"
	"slices"

	"github.com/kube-eventbridge/kube-eventbridge/internal/config"
)

// difference is what has to be done in a process for another configuration to hold. Pipelines are named in the order of
// the configuration that they are in.
type difference struct {
	// Fixed are those differences that no process can have while it runs, without places. Where there are any, the rest
	// does not count.
	Fixed config.Problems
	// Added and Removed are pipelines; of those in Resources nothing else is different than what they read, and of
	// those in Changed more than that.
	Added, Removed, Resources, Changed []string
	// Others are keys beside pipelines that are different.
	Others []string
}

// none reports whether there is none.
func (d *difference) none() bool {
	return len(d.Fixed)+len(d.Added)+len(d.Removed)+len(d.Resources)+len(d.Changed)+len(d.Others) == 0
}

// compare returns how next differs from c. Both are valid.
func compare(c, next *config.Config) difference {
	d := difference{}
	now, then := *c, *next
	for _, one := range []*config.Config{&now, &then} { // what a process can change
		one.Pipelines, one.Buffer, one.Log.Level = nil, config.Buffer{}, ""
	}
	for _, path := range now.DifferentKeys(&then) {
		d.fix(path, "cannot change while the process runs")
	}
	if c.Buffer != next.Buffer {
		d.Others = append(d.Others, "buffer")
	}
	if c.Log.Level != next.Log.Level {
		d.Others = append(d.Others, "log.level")
	}
	for i := range next.Pipelines {
		d.pipeline(c, next, i)
	}
	for i := range c.Pipelines {
		if name := c.Pipelines[i].Name; pipelineNamed(next, name) == nil {
			d.Removed = append(d.Removed, name)
		}
	}
	return d
}

func (d *difference) fix(path, why string) {
	d.Fixed = append(d.Fixed, config.Problem{Path: path, Message: why + "; restart the process to change it"})
}

// pipeline says how pipeline i of next differs from that of its name.
func (d *difference) pipeline(now, next *config.Config, i int) {
	at, p := fmt.Sprintf("pipelines[%d]", i), &next.Pipelines[i]
	for j := range now.Pipelines {
		o := &now.Pipelines[j]
		if x, y := o.Sink.Embedded, p.Sink.Embedded; x != nil && y != nil &&
			(x.Listen != y.Listen || x.StoreDir != y.StoreDir) && len(d.Fixed) == 0 {
			d.fix(at+".sink.embedded",
				"has another listen or storeDir than the server that runs in this process, which cannot change while it runs")
		}
		if o.Name != p.Name && sameFile(now, o, next, p) {
			d.fix(at+".checkpoint.file.path", fmt.Sprintf("is the checkpoint of pipeline %q, which has it open", o.Name))
		}
	}
	before := pipelineNamed(now, p.Name)
	if before == nil {
		d.Added = append(d.Added, p.Name)
		return
	}
	keys := before.DifferentKeys(p)
	is := func(key string) func(string) bool { return func(path string) bool { return path == key } }
	switch keys = slices.DeleteFunc(keys, is("buffer.maxBytes")); {
	case len(keys) == 0 && before.Buffer != p.Buffer:
		d.Others = append(d.Others, at+".buffer")
	case len(keys) == 0:
	case len(slices.DeleteFunc(keys, is("resources"))) == 0:
		d.Resources = append(d.Resources, p.Name)
	default:
		d.Changed = append(d.Changed, p.Name)
	}
}

// pipelineNamed returns the one of a name, or nil.
func pipelineNamed(c *config.Config, name string) *config.Pipeline {
	for i := range c.Pipelines {
		if c.Pipelines[i].Name == name {
			return &c.Pipelines[i]
		}
	}
	return nil
}

// sameFile reports whether two pipelines keep their positions in one file.
func sameFile(c *config.Config, p *config.Pipeline, other *config.Config, o *config.Pipeline) bool {
	file := func(p *config.Pipeline) bool { return p.Checkpoint.Kafka == nil && p.Checkpoint.NATS == nil }
	if !file(p) || !file(o) {
		return false
	}
	a, errA := c.CheckpointPath(p)
	b, errB := other.CheckpointPath(o)
	return errA == nil && errB == nil && a == b
}

// sameCheckpoint reports whether p keeps its positions where o does.
func sameCheckpoint(p, o *config.Pipeline) bool {
	same := reflect.DeepEqual(p.Checkpoint, o.Checkpoint)
	if p.Checkpoint.Kafka == nil && p.Checkpoint.NATS == nil {
		return same
	}
	return same && reflect.DeepEqual(p.Sink, o.Sink) // which says where the brokers are, and is asked first
}
