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
	"github.com/kube-eventbridge/kube-eventbridge/source"
)

// lostCheckpoint is the cause of a gap behind a checkpoint that was lost.
const lostCheckpoint = "the checkpoint was lost; what the log has was read from there"

// remember gives a store that has nothing what the log has: a checkpoint was lost, or moved away. What the log has as it is now is not published again, and what
// it has alive and is no more is deleted. Of what happened between the last message and the list that follows nothing is known: that is a gap, from the last
// snapshot that is called complete. A log that has nothing of the pipeline leaves the store as it is.
func (p *session) remember(ctx context.Context, log sink.Log, bounds sink.LogBounds, now checkpoint.Waypoint) error {
	began := time.Now()
	var complete []encode.State
	past := histories{newest: map[string]int{}, of: map[string]map[string]int{}}
	// The list that follows is newer than every deletion.
	found, err := p.reread(ctx, log, func(string, string) bool { return true }, func(m *sink.Stored) {
		st, err := encode.StateOf(m)
		if err != nil || st.Pipeline != p.name {
			return
		}
		if st.Type == encode.TypeSnapshotCompleted {
			complete = append(complete, st)
		}
		p.dates(&past, m, &st)
	})
	if err != nil {
		return err
	}
	p.recallRead(complete, p.offered(ctx))
	p.outdate(&past, found)
	if len(p.state.Streams) == 0 {
		return nil
	}
	b := &checkpoint.Batch{Streams: map[string]checkpoint.Stream{}, Put: map[string]map[string]checkpoint.Row{}}
	objects, from := 0, p.completed(complete)
	for name, saved := range p.state.Streams {
		saved.Repair = "" // nothing was lost of the log
		saved.Gap = checkpoint.Gap{From: cmp.Or(from[name], "0"), Cause: lostCheckpoint}
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

// recallRead makes streams stored ones that were read, as markers tell, and of which the log has nothing alive.
func (p *session) recallRead(markers []encode.State, offers *source.Offers) {
	for _, m := range markers {
		r, ok := encode.ResourceOf(m.Source, p.cfg.Identity.Cluster)
		if !ok {
			continue
		}
		r.Kind = m.Kind
		for _, spec := range p.specs() {
			at := spec.stream(r)
			if spec.NamespaceSelector != nil || !strings.Contains(m.ID, "."+at.Scope()+".") || !spec.meant(r, offers) {
				continue
			}
			if _, _, known := p.storedAs(at); !known {
				p.state.Streams[at.Name()] = checkpoint.Stream{Kind: r.Kind}
			}
		}
	}
}

// histories are those in which the log has what it has: rows do not tell.
type histories struct {
	// newest are by resource, of by stream and object; 0 is left out.
	newest map[string]int
	of     map[string]map[string]int
}

// dates takes note of the history that a message is of.
func (p *session) dates(past *histories, m *sink.Stored, st *encode.State) {
	r, ok := encode.ResourceOf(st.Source, p.cfg.Identity.Cluster)
	history := max(st.History, historyOf(st.ID))
	if !ok || history == 0 {
		return
	}
	past.newest[r.Group+"/"+r.Resource] = max(past.newest[r.Group+"/"+r.Resource], history)
	if tells(source.Stream{Resource: r}) {
		p.state.Log.Histories = max(p.state.Log.Histories, history)
		p.logged.Histories = p.state.Log.Histories
	}
	for name, said := range p.says(m) {
		if past.of[name] == nil {
			past.of[name] = map[string]int{}
		}
		past.of[name][said.key] = history
	}
}

// outdate makes the histories of the streams those that the log has last, and what was found of older ones superseded.
func (p *session) outdate(past *histories, found map[string]map[string]checkpoint.Row) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for name, saved := range p.state.Streams {
		at, _ := source.ParseName(name)
		saved.History = max(saved.History, past.newest[at.Group+"/"+at.Resource.Resource], p.firstHistory(at))
		p.state.Streams[name] = saved
		for key, row := range found[name] {
			row.Superseded = past.of[name][key] < saved.History
			found[name][key] = row
		}
	}
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
