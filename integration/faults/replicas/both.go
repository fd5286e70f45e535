// SPDX-License-Identifier: Apache-2.0

package replicas

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/kube-eventbridge/kube-eventbridge/integration/internal/pause"
)

// direction says which way a world replicates.
type direction struct {
	// source and target are the names of the clusters.
	source, target string
	// namespaces has the source's namespaces, with the target's.
	namespaces map[string]string
}

var (
	there = direction{"east", "west", map[string]string{"shop": "shop-copy", "plain": "plain"}}
	// What comes back from plain has the place of what was copied. What comes back from shop-copy has not: there each copy
	// of a copy shows.
	back = direction{"west", "east", map[string]string{"shop-copy": "shop-back", "plain": "plain"}}
)

func (d *direction) sources() []string { return slices.Sorted(maps.Keys(d.namespaces)) }

// mapping is what the replica's file says of namespaces.
func (d *direction) mapping() string {
	var pairs []string
	for _, from := range d.sources() {
		if to := d.namespaces[from]; to != from {
			pairs = append(pairs, from+": "+to)
		}
	}
	return "{" + strings.Join(pairs, ", ") + "}"
}

// isOurs reports whether an object of the target is the replica's.
func (d *direction) isOurs(k key, labels, annotations map[string]string) bool {
	return labels[label] == replicaName && annotations[origin] == d.originOf(k)
}

// originOf is the origin of an object of the source.
func (d *direction) originOf(k key) string {
	group := k.resource.Group
	if group == "" {
		group = "core"
	}
	return strings.Join([]string{d.source, group, k.resource.Resource, k.namespace, k.name}, "/")
}

// opposite is the world of the other direction, without what it borrows.
func (w *world) opposite() *world {
	return &world{
		direction: back, other: w, borrowed: true, o: w.o, dir: filepath.Join(w.dir, "back"), random: w.random,
		result: w.result,
	}
}

// directions are the worlds of a round: one, or two that replicate into each other.
func (w *world) directions() []*world {
	if w.other == nil {
		return []*world{w}
	}
	return []*world{w, w.other}
}

// main is the world that has the story and the result.
func (w *world) main() *world {
	if w.borrowed {
		return w.other
	}
	return w
}

// errCopied says that an object of the source was replicated into it.
var errCopied = errors.New("the other direction has made it")

const (
	// quietFor is how long nothing may change once both directions have done all.
	quietFor = 3 * time.Second
	// looks is how often it is looked whether nothing changes. What hands something back and forth does not come to an
	// end. An event that leaves a copy as it is may come late, and only its sequence is written then.
	looks = 3
)

// stays wants replicas that have done all to change nothing any more: otherwise they hand something back and forth.
func (w *world) stays(ctx context.Context) error {
	for look := 1; ; look++ {
		written, err := w.written(ctx)
		if err != nil || len(written) == 0 {
			return err
		}
		if look < looks {
			continue
		}
		for each, changes := range written {
			for _, c := range changes {
				each.violated("R7", "%s is written while all is quiet: %s", &c, c.after.text())
			}
		}
		return nil
	}
}

// written returns what replicas change within quietFor, of each direction that does.
func (w *world) written(ctx context.Context) (map[*world][]change, error) {
	before := map[*world]int{}
	for _, each := range w.directions() {
		changes, err := each.changes(ctx)
		if err != nil {
			return nil, err
		}
		before[each] = len(changes)
	}
	if err := pause.For(ctx, quietFor); err != nil {
		return nil, err
	}
	written := map[*world][]change{}
	for each, n := range before {
		changes, err := each.changes(ctx)
		if err != nil {
			return nil, err
		}
		for _, c := range changes[n:] {
			if c.by == replicator && c.before != nil {
				written[each] = append(written[each], c)
			}
		}
	}
	return written, nil
}

// text is what etcd has of an object; nil is none.
func (o *object) text() string {
	if o == nil {
		return "deleted"
	}
	return fmt.Sprint(o.raw)
}
