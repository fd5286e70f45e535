// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	"github.com/kube-eventbridge/kube-eventbridge/encode"
	"github.com/kube-eventbridge/kube-eventbridge/sink"
	"github.com/kube-eventbridge/kube-eventbridge/source"
)

// rebuild makes the store what the log is now, after it lost what it had acknowledged: rows from the last message of each object, and
// positions from a time before the loss. The API server is then asked for everything since.
func (p *session) rebuild(ctx context.Context, log sink.Log, bounds sink.LogBounds, now checkpoint.Waypoint) error {
	oldest := p.oldest()
	found, err := p.reread(ctx, log, func(stream, version string) bool { return !after(version, oldest[stream]) }, func(*sink.Stored) {})
	if err != nil {
		return err
	}
	trail, err := p.trailTo(ctx, log, bounds, p.intact(found))
	if err != nil {
		return err
	}
	var way checkpoint.Waypoint
	if n := len(trail); n > 0 {
		way = trail[n-1]
	}
	b := &checkpoint.Batch{Streams: map[string]checkpoint.Stream{}, Put: found}
	now.Positions = map[string]string{}
	for name, saved := range p.state.Streams {
		b.Forget = append(b.Forget, name)
		b.Put[name] = p.kept(name, found[name], bounds)
		saved = rewound(saved, way.Positions[name], p.state.Rows[name])
		reach(&saved, b.Put[name])
		b.Streams[name] = saved
		if at := b.Streams[name].Position; at != "" {
			now.Positions[name] = at
		}
	}
	if err := p.hearAll(ctx, log, trail, b.Streams); err != nil {
		return err
	}
	what := p.state.Log
	what.ID, what.Marks, what.Trail = bounds.ID, now.Marks, checkpoint.Extend(trail, now)
	what.Losses++
	b.Log = &what
	p.log.Warn("the log has lost events that it had acknowledged: what was published since is published again",
		"has", now.Marks, "had", p.lastWaypoint().Marks, "known up to", way.Marks, "losses", b.Log.Losses)
	if err := p.store(ctx, b); err != nil {
		return err
	}
	if !p.counted {
		p.cfg.Metrics.losses.WithLabelValues(p.name).Inc()
	}
	state, err := p.load(ctx)
	if err != nil {
		return err
	}
	p.state, p.logged = state, state.Log
	return nil
}

// oldest returns the oldest position to which each stream can go back, by its name.
func (p *session) oldest() map[string]string {
	oldest := map[string]string{}
	for _, w := range slices.Backward(p.state.Log.Trail) {
		maps.Copy(oldest, w.Positions)
	}
	return oldest
}

// hearAll takes note of all markers from where the trail begins. What is announced behind the positions is not announced again; a position stays while its
// gap is announced and a list is published, so that the marker may be before its last waypoint.
func (p *session) hearAll(ctx context.Context, log sink.Log, trail []checkpoint.Waypoint, streams map[string]checkpoint.Stream) error {
	var first checkpoint.Waypoint
	if len(trail) > 0 {
		first = trail[0]
	}
	recovered, announced := map[string]place{}, map[string]place{}
	err := log.Read(ctx, sink.Query{After: first.Marks}, func(m *sink.Stored) error {
		p.hear(streams, m)
		p.hearOwed(recovered, announced, streams, m)
		return nil
	})
	if err != nil {
		return fmt.Errorf("read the log: %w", err)
	}
	for name, at := range recovered {
		if !at.after(announced[name]) {
			continue
		}
		saved := streams[name]
		saved.Owed = checkpoint.Owed{Version: at.version, Cause: "the log has lost the gap behind what was read back"}
		streams[name] = saved
	}
	return nil
}

// place is a version of a history.
type place struct {
	history int
	version string
}

func (p place) after(q place) bool {
	return q.version == "" || p.history > q.history || p.history == q.history && after(p.version, q.version)
}

// hearOwed takes note of the newest state that was read back, and of the newest gap that was announced, by the name of the stream. A gap ends behind all that
// was read back for it, and before what is for another one: a log that has lost the marker has states that no gap accounts for. In which order they
// are heard does not matter, as a log may be read one partition after the other.
func (p *session) hearOwed(recovered, announced map[string]place, streams map[string]checkpoint.Stream, m *sink.Stored) {
	note := func(newest map[string]place, name string, at place) {
		if at.after(newest[name]) {
			newest[name] = at
		}
	}
	st, err := encode.StateOf(m)
	switch {
	case err != nil:
	case st.UID == "":
		for name, saved := range streams {
			if saved.Announced == m.ID {
				note(announced, name, place{historyOf(m.ID), st.ResourceVersion})
			}
		}
	case st.Recovered:
		for name, said := range p.says(m) {
			if !said.row.Superseded {
				note(recovered, name, place{st.History, st.ResourceVersion})
			}
		}
	}
}

// historyOf returns the history in the id of a marker.
func historyOf(id string) int {
	for part := range strings.SplitSeq(id, ".") {
		if digits, ok := strings.CutPrefix(part, "h"); ok {
			if n, err := strconv.Atoi(digits); err == nil {
				return n
			}
		}
	}
	return 0
}

// relearn is learn for a log that is read from its beginning. What was deleted before anything that will be watched is left out: a log has many more of
// such objects than there are.
func (p *session) relearn(rows map[string]map[string]checkpoint.Row, m *sink.Stored, settled func(stream, version string) bool) {
	for name, said := range p.says(m) {
		if before, exists := rows[name][said.key]; exists && !follows(before, said.row) {
			continue
		}
		if said.row.Deleted && (said.row.Superseded || settled(name, said.row.ResourceVersion)) {
			delete(rows[name], said.key)
		} else {
			add(rows, name, said)
		}
	}
}

// sharesSubjects: objects do not each have a subject of their own.
func (p *session) sharesSubjects() bool {
	return slices.ContainsFunc(p.specs(), func(s *StreamSpec) bool { return s.Encoding.Subject != nil && !s.Encoding.Subject.PerObject() })
}

// intact returns up to where the log is known to be what it was: the last messages that are where the rows have them.
func (p *session) intact(found map[string]map[string]checkpoint.Row) map[int32]uint64 {
	ends := map[int32]uint64{}
	for name, rows := range p.state.Rows {
		for key, row := range rows {
			at := found[name][key]
			same := at.Sequence == row.Sequence && at.Partition == row.Partition && at.UID == row.UID &&
				at.ResourceVersion == row.ResourceVersion && at.Deleted == row.Deleted
			if same {
				ends[row.Partition] = max(ends[row.Partition], row.Sequence)
			}
		}
	}
	return ends
}

// trailTo returns the waypoints of the part of the log that is what it was.
func (p *session) trailTo(ctx context.Context, log sink.Log, bounds sink.LogBounds, intact map[int32]uint64) ([]checkpoint.Waypoint, error) {
	if p.replaced(bounds) {
		return nil, nil // of another log nothing is known
	}
	trail := p.state.Log.Trail
	for n := len(trail); n > 0; n-- {
		w := trail[n-1]
		if _, ok := checkpoint.Before([]checkpoint.Waypoint{w}, intact); ok {
			return trail[:n], nil
		}
		same, err := passes(ctx, log, bounds, w)
		if err != nil || same {
			return trail[:n], err
		}
	}
	return nil, nil
}

// passes reports whether the log has the messages of a waypoint, or had them: older ones may have been removed since.
func passes(ctx context.Context, log sink.Log, bounds sink.LogBounds, w checkpoint.Waypoint) (bool, error) {
	for partition, mark := range w.Marks {
		b := bounds.Partitions[partition]
		if mark < b.First {
			continue
		}
		if mark > b.Last || w.IDs[partition] == "" {
			return false, nil
		}
		m, err := log.At(ctx, partition, mark)
		if err != nil || m == nil || m.ID != w.IDs[partition] {
			return false, err
		}
	}
	return len(w.Marks) > 0, nil
}

// kept adds to what was found of a stream what the log need not have: objects that were never published, and those whose events
// are older than the log, if it is the same one. Found becomes the result.
func (p *session) kept(name string, found map[string]checkpoint.Row, bounds sink.LogBounds) map[string]checkpoint.Row {
	rows := found
	if rows == nil {
		rows = map[string]checkpoint.Row{}
	}
	for key, row := range p.state.Rows[name] {
		first := bounds.Partitions[row.Partition].First
		if p.replaced(bounds) {
			first = 0
		}
		if _, ok := rows[key]; !ok && row.Sequence < max(1, first) {
			rows[key] = row
		}
	}
	return rows
}

// replaced reports whether the log is not the one that was published to.
func (p *session) replaced(bounds sink.LogBounds) bool {
	return p.state.Log.ID != "" && p.state.Log.ID != bounds.ID
}

// rewound returns the state of a stream that goes back to position, or to a list where it is empty.
func rewound(saved checkpoint.Stream, position string, rows map[string]checkpoint.Row) checkpoint.Stream {
	saved.Announced, saved.Unannounced = "", checkpoint.Snapshot{} // of that list the log need not have anything
	if saved.Position == "" {
		if saved.Gap.From != "" {
			saved.Gap.From = cmp.Or(position, "0") // what came before the gap is lost too
		}
		return saved // its list begins again in any case
	}
	if saved.Repair == "" || after(saved.Position, saved.Repair) {
		saved.Repair = saved.Position
	}
	for _, row := range rows {
		if !row.Superseded && after(row.ResourceVersion, saved.Repair) {
			saved.Repair = row.ResourceVersion
		}
	}
	saved.Position = position
	if position == "" {
		saved.Gap = checkpoint.Gap{From: "0", Cause: "the log has lost events that it had acknowledged"}
	}
	return saved
}

// repair marks a change that the log may have had before it lost it; the caller holds mu.
func (s *stream) repair(c *source.Change) {
	if s.saved.Repair == "" || after(c.ResourceVersion, s.saved.Repair) {
		return
	}
	c.IDSuffix += fmt.Sprintf(".r%d", s.losses)
	if c.Reason != source.ReasonRecovered {
		c.Reason = source.ReasonRepair
	}
}
