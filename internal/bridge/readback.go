// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"strings"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	"github.com/kube-eventbridge/kube-eventbridge/encode"
	"github.com/kube-eventbridge/kube-eventbridge/sink"
	"github.com/kube-eventbridge/kube-eventbridge/source"
)

// meetLog finds out what the log has that the checkpoint does not know, or has no more. It waits for the broker; the
// error is ctx's, or says why the log cannot be used.
func (p *session) meetLog(ctx context.Context) error {
	log, ok := p.sink.(sink.Log)
	if !ok {
		return nil
	}
	last := p.lastWaypoint()
	bounds, err := log.Bounds(ctx, last.Marks)
	if err != nil {
		return err
	}
	now := checkpoint.Waypoint{}
	if now.Marks, now.IDs, err = ends(ctx, log, bounds); err != nil {
		return err
	}
	switch {
	case len(p.state.Log.Marks) > 0:
		lost, err := p.hasLost(ctx, log, bounds, last)
		switch {
		case err != nil:
			return err
		case lost:
			err = p.rebuild(ctx, log, bounds, now)
		default:
			err = p.readTail(ctx, log, bounds, now)
		}
		if err != nil {
			return err
		}
	case p.state.Identity == checkpoint.Identity{} && bounds.Indexed && !p.sharesSubjects():
		if err := p.remember(ctx, log, bounds, now); err != nil {
			return err
		}
	}
	p.logged.ID = bounds.ID
	p.marks.start(now.Marks, now.IDs)
	p.trail = p.logged.Trail
	return nil
}

// lastWaypoint returns where the log ended when the checkpoint was saved.
func (p *session) lastWaypoint() checkpoint.Waypoint {
	if n := len(p.state.Log.Trail); n > 0 {
		return p.state.Log.Trail[n-1]
	}
	return checkpoint.Waypoint{Marks: p.state.Log.Marks}
}

// ends returns where each partition ends, and the ids of the messages there.
func ends(ctx context.Context, log sink.Log, bounds sink.LogBounds) (map[int32]uint64, map[int32]string, error) {
	ends, ids := map[int32]uint64{}, map[int32]string{}
	for partition, b := range bounds.Partitions {
		ends[partition] = b.Last
		if b.Last < b.First {
			continue
		}
		m, err := log.At(ctx, partition, b.Last)
		if err != nil {
			return nil, nil, err
		}
		if m != nil {
			ids[partition] = m.ID
		}
	}
	return ends, ids, nil
}

// hasLost reports whether the log is another one, ends before what it had acknowledged, or has something else in the place of the last
// message that it had acknowledged.
func (p *session) hasLost(ctx context.Context, log sink.Log, bounds sink.LogBounds, last checkpoint.Waypoint) (bool, error) {
	if p.replaced(bounds) {
		return true, nil
	}
	for partition, mark := range last.Marks {
		b := bounds.Partitions[partition]
		switch {
		case mark > b.Last:
			return true, nil
		case mark < b.First || last.IDs[partition] == "":
			continue
		}
		m, err := log.At(ctx, partition, mark)
		if err != nil {
			return false, err
		}
		if m != nil && m.ID != last.IDs[partition] {
			return true, nil
		}
	}
	return false, nil
}

// readTail brings the store up to what the log has after its marks: what a process published that did not come to save it.
func (p *session) readTail(ctx context.Context, log sink.Log, bounds sink.LogBounds, now checkpoint.Waypoint) error {
	read, learned, streams := 0, map[string]map[string]checkpoint.Row{}, map[string]checkpoint.Stream{}
	err := log.Read(ctx, sink.Query{After: p.state.Log.Marks}, func(m *sink.Stored) error {
		read++
		p.hear(streams, m)
		p.learn(learned, m, p.state.Rows)
		return nil
	})
	if err != nil {
		return fmt.Errorf("read the end of the log: %w", err)
	}
	for name, rows := range learned {
		if p.state.Rows[name] == nil {
			p.state.Rows[name] = map[string]checkpoint.Row{}
		}
		maps.Copy(p.state.Rows[name], rows)
		if saved, ok := p.heard(streams, name); ok && reach(&saved, rows) {
			streams[name] = saved
		}
	}
	p.log.Info("read the end of the log", "messages", read, "streams", len(learned))
	maps.Copy(p.state.Streams, streams)
	now.Positions = p.unopened(nil)
	p.logged.ID, p.logged.Marks, p.logged.Trail = bounds.ID, now.Marks, checkpoint.Extend(p.state.Log.Trail, now)
	return p.store(ctx, &checkpoint.Batch{Streams: streams, Put: learned, Log: &p.logged})
}

// heard returns what is to be saved of a stream, or what was.
func (p *session) heard(streams map[string]checkpoint.Stream, name string) (saved checkpoint.Stream, ok bool) {
	if saved, ok = streams[name]; !ok {
		saved, ok = p.state.Streams[name]
	}
	return saved, ok
}

// hear takes note of the marker of a list that began, or of a snapshot that is complete, in the states of its streams.
func (p *session) hear(streams map[string]checkpoint.Stream, m *sink.Stored) {
	st, err := encode.StateOf(m)
	if err != nil || st.Pipeline != p.name || st.UID != "" {
		return
	}
	resource, ok := encode.ResourceOf(st.Source, p.cfg.Identity.Cluster)
	if !ok {
		return
	}
	for spec, at := range p.scopes(resource) {
		saved, ok := p.heard(streams, at.Name())
		if !ok || !strings.Contains(st.ID, "."+at.Scope()+".") {
			continue
		}
		switch st.Type {
		case encode.TypeGap, encode.TypeSnapshotStarted:
			saved.Announced = m.ID
		case encode.TypeSnapshotCompleted:
			due := source.Marker{Kind: source.MarkerSnapshotCompleted, To: saved.Unannounced.ResourceVersion}
			if m.ID != markerID(spec.encoder(at, saved.History), due) {
				continue
			}
			saved.Unannounced = checkpoint.Snapshot{}
		}
		streams[at.Name()] = saved
	}
}

// scopes yields in which streams the specs may read a resource.
func (p *session) scopes(r source.Resource) iter.Seq2[*StreamSpec, source.Stream] {
	return func(yield func(*StreamSpec, source.Stream) bool) {
		for _, spec := range p.specs() {
			if spec.NamespaceSelector == nil {
				if !yield(spec, spec.stream(r)) {
					return
				}
				continue
			}
			for name := range p.state.Streams {
				namespace, ok := strings.CutPrefix(name, r.String()+"/")
				at := spec.stream(r)
				at.Namespace = namespace
				if ok && !yield(spec, at) {
					return
				}
			}
		}
	}
}

// learn adds what a message says to rows, if it is an event of this pipeline about an object of which it is newer than what is
// known.
func (p *session) learn(rows map[string]map[string]checkpoint.Row, m *sink.Stored, known map[string]map[string]checkpoint.Row) {
	for name, said := range p.says(m) {
		before, exists := rows[name][said.key]
		if !exists {
			before, exists = known[name][said.key]
		}
		if !exists || follows(before, said.row) {
			add(rows, name, said)
		}
	}
}

// follows reports whether the log has row behind before, both of one object. In a topic that got more partitions an object's events are in two, one
// of which is read after the other: then versions tell.
func follows(before, row checkpoint.Row) bool {
	switch {
	case before.Partition == row.Partition:
		return before.Sequence < row.Sequence
	case before.Superseded != row.Superseded:
		return before.Superseded
	case before.Again != row.Again:
		return before.Again // the other is of the replay
	default:
		return checkpoint.Newer(before, row.ResourceVersion, row.Deleted)
	}
}

// said is what the log has of an object.
type said struct {
	key string
	row checkpoint.Row
}

func add(rows map[string]map[string]checkpoint.Row, name string, s said) {
	if rows[name] == nil {
		rows[name] = map[string]checkpoint.Row{}
	}
	rows[name][s.key] = s.row
}

// says yields what a message says, by the name of the stream, if it is an event of this pipeline about an object.
func (p *session) says(m *sink.Stored) iter.Seq2[string, said] {
	return func(yield func(string, said) bool) {
		st, err := encode.StateOf(m)
		if err != nil || st.Pipeline != p.name || st.UID == "" {
			return
		}
		resource, ok := encode.ResourceOf(st.Source, p.cfg.Identity.Cluster)
		if !ok {
			return
		}
		for _, namespace := range []string{"", st.Namespace} {
			name, saved, ok := p.storedAs(source.Stream{Resource: resource, Namespace: namespace})
			row := checkpoint.Row{
				UID: st.UID, ResourceVersion: st.ResourceVersion, Deleted: st.Deleted, Superseded: st.History < saved.History,
				Sequence: m.Sequence, Partition: m.Partition, Again: before(&saved, st.ID),
			}
			if ok && !yield(name, said{st.Key(), row}) {
				return
			}
			if st.Namespace == "" {
				return
			}
		}
	}
}

// storedAs returns what the store has of a stream, if need be under the name of another version: versions are the same objects.
func (p *session) storedAs(at source.Stream) (name string, saved checkpoint.Stream, ok bool) {
	name = at.Name()
	if saved, ok = p.state.Streams[name]; ok {
		return name, saved, true
	}
	for name, saved := range p.state.Streams {
		o, ok := source.ParseName(name)
		if ok && o.Group == at.Group && o.Resource.Resource == at.Resource.Resource && o.Namespace == at.Namespace {
			return name, saved, true
		}
	}
	return "", saved, false
}

// store commits what was learned of the log, however often that takes. The error is ctx's, or permanent.
func (p *session) store(ctx context.Context, b *checkpoint.Batch) error {
	b.Identity = p.cfg.Identity
	return p.insist(ctx, func() error { return p.cfg.Store.Commit(ctx, b) })
}
