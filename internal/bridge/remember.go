// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"cmp"
	"context"
	"strings"
	"time"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	"github.com/kube-eventbridge/kube-eventbridge/encode"
	"github.com/kube-eventbridge/kube-eventbridge/sink"
)

// remember gives a store that has nothing what the log has: a checkpoint was lost, or moved away. What the log has as it is now is not published again, and what
// it has alive and is no more is deleted. Of what happened between the last message and the list that follows nothing is known: that is a gap, from the last
// snapshot that is called complete. A log that has nothing of the pipeline leaves the store as it is.
func (p *session) remember(ctx context.Context, log sink.Log, bounds sink.LogBounds, now checkpoint.Waypoint) error {
	began := time.Now()
	var complete []encode.State
	// The list that follows is newer than every deletion.
	found, err := p.reread(ctx, log, func(string, string) bool { return true }, func(m *sink.Stored) {
		if st, err := encode.StateOf(m); err == nil && st.Pipeline == p.name && st.Type == encode.TypeSnapshotCompleted {
			complete = append(complete, st)
		}
	})
	if err != nil || len(p.state.Streams) == 0 {
		return err
	}
	b := &checkpoint.Batch{Streams: map[string]checkpoint.Stream{}, Put: map[string]map[string]checkpoint.Row{}}
	objects, from := 0, p.completed(complete)
	for name, saved := range p.state.Streams {
		saved.Repair = "" // nothing was lost of the log
		saved.Gap = checkpoint.Gap{From: cmp.Or(from[name], "0"), Cause: "the checkpoint was lost; what the log has was read from there"}
		b.Streams[name], b.Put[name] = saved, found[name]
		objects += len(found[name])
	}
	what := p.state.Log
	what.ID, what.Marks, what.Trail = bounds.ID, now.Marks, nil
	b.Log = &what
	p.log.Warn("there is no checkpoint, and the log has events of this pipeline: what it has was read from there", "streams", len(b.Streams), "objects", objects,
		"took", time.Since(began).Round(time.Millisecond).String())
	if err := p.store(ctx, b); err != nil {
		return err
	}
	state, err := p.load(ctx)
	if err != nil {
		return err
	}
	p.state, p.logged = state, state.Log
	return nil
}

// completed returns the versions of the snapshots that markers call complete, by the name of the stream, of the streams' present histories.
func (p *session) completed(markers []encode.State) map[string]string {
	versions := map[string]string{}
	for _, m := range markers {
		resource, ok := encode.ResourceOf(m.Source, p.cfg.Identity.Cluster)
		if !ok {
			continue
		}
		for _, at := range p.scopes(resource) {
			saved, known := p.state.Streams[at.Name()]
			if known && strings.Contains(m.ID, "."+at.Scope()+".") && historyOf(m.ID) == saved.History {
				versions[at.Name()] = m.ResourceVersion
			}
		}
	}
	return versions
}
