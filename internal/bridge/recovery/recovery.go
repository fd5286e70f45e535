// SPDX-License-Identifier: Apache-2.0

package recovery

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	"github.com/kube-eventbridge/kube-eventbridge/encode"
	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge/ledger"
	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge/spec"
	"github.com/kube-eventbridge/kube-eventbridge/internal/sequence"
	"github.com/kube-eventbridge/kube-eventbridge/sink"
	"github.com/kube-eventbridge/kube-eventbridge/source"
	"github.com/kube-eventbridge/kube-eventbridge/source/catalog"
)

// progressEvery is how often it is logged how much of the log was read.
const progressEvery = 10 * time.Second

// Input is what is compared, and what that takes. All fields are needed, but Siblings.
type Input struct {
	Pipeline string
	// Siblings are the names of the pipelines of the same file.
	Siblings []string
	Identity checkpoint.Identity
	Specs    []*spec.Stream
	// State is what the checkpoint has. It is brought up to date with the log.
	State *checkpoint.State
	Log   sink.Log
	// Epochs have observed those of the State. They observe those of the log, and give one out if one begins.
	Epochs *ledger.Epochs
	// Offers returns what is served. It may wait for that, and is called often.
	Offers func() *catalog.Offers
	Logger *slog.Logger
}

// Outcome is what was found.
type Outcome struct {
	// Batch has to be committed before anything else is. It is nil if the log has nothing of the pipeline.
	Batch *checkpoint.Batch
	// Known is what the checkpoint knows of the log from now on.
	Known checkpoint.Log
	// Ends and IDs are where each partition ends, and the ids of the messages there.
	Ends map[int32]uint64
	IDs  map[int32]string
	// Fenced says that the broker refuses what a replaced process publishes late.
	Fenced bool
	// Lost says that the log has lost events that it had acknowledged, so that all is published again.
	Lost bool
}

// Run compares a checkpoint with its log. It waits for the broker, and publishes and commits nothing. The error is
// ctx's, or says why the log cannot be used: a [CompetingError], or an [encode.OldFormatError].
func Run(ctx context.Context, in Input) (*Outcome, error) {
	r := recovery{Input: in, stored: newNames(in.State.Streams)}
	r.Known = in.State.Log
	if err := r.run(ctx); err != nil {
		return nil, err
	}
	return &r.Outcome, nil
}

// recovery is a comparison that runs.
type recovery struct {
	Input
	Outcome

	bounds sink.LogBounds
	// stored finds the streams of the state.
	stored *names
	// streams and rows are what is learned of the log, by the stream's name.
	streams map[string]checkpoint.Stream
	rows    map[string]map[string]checkpoint.Row
	// completed are the newest versions of snapshots that the log calls complete.
	completed map[string]string
	// replaces: the rows become what the log has, whatever the checkpoint has.
	replaces bool
	// republished: an event that was published again is the last of its object. It may be an older state than another
	// one that was not read.
	republished bool
	// read counts the pipeline's messages. Of those, seen is the greatest epoch, resyncs the greatest number of a
	// resync, and term the greatest one of a writer.
	read    int
	seen    uint64
	resyncs int64
	term    int64
	// markers are the subjects of markers that were read.
	markers map[string]struct{}
	// suspects are the objects, by the stream's name, that have no row and an event that the position covers.
	suspects map[string]map[string]struct{}
}

func (r *recovery) run(ctx context.Context) error {
	var err error
	if r.bounds, err = r.Log.Bounds(ctx, r.State.Log.Ends); err != nil {
		return err
	}
	r.Known.ID, r.Fenced = r.bounds.ID, r.bounds.Fenced
	if r.Ends, r.IDs, err = ends(ctx, r.Log, r.bounds); err != nil {
		return err
	}
	found, err := r.find(ctx)
	if err != nil {
		return err
	}
	how := found.Decide()
	if how == sequence.Resume {
		if err := r.readTail(ctx); err != nil {
			return err
		}
		found.Seen = r.seen
		how = found.Decide()
	}
	switch how {
	case sequence.LogLost:
		return r.repair(ctx)
	case sequence.CheckpointLost:
		return r.rebuild(ctx, found.Trimmed())
	default:
		r.store()
		return nil
	}
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

// find compares what the checkpoint knows of the log with its bounds.
func (r *recovery) find(ctx context.Context) (sequence.Found, error) {
	had := r.State.Log
	f := sequence.Found{
		Checkpoint: len(had.Marks) > 0, OtherLog: had.ID != "" && had.ID != r.bounds.ID, Given: r.Epochs.Last(),
	}
	for partition, b := range r.bounds.Partitions {
		at := sequence.Partition{Mark: had.Marks[partition], First: b.First, Last: b.Last}
		if end := had.Ends[partition]; end > b.Last {
			at.Changed = true // what was acknowledged last is not there any more
		} else if id := had.IDs[partition]; id != "" && end >= b.First && !f.OtherLog {
			m, err := r.Log.At(ctx, partition, end)
			if err != nil {
				return f, err
			}
			at.Changed = m != nil && m.ID != id
		}
		f.Partitions = append(f.Partitions, at)
	}
	return f, nil
}

// readTail reads what the log has behind the marks: what a process published that did not come to save it.
func (r *recovery) readTail(ctx context.Context) error {
	r.begin()
	err := r.Log.Read(ctx, sink.Query{After: r.State.Log.Marks}, func(m *sink.Stored) error {
		return r.learnMessage(m, !r.bounds.Fenced)
	})
	if err != nil {
		return fmt.Errorf("read the end of the log: %w", err)
	}
	for name, keys := range r.suspects {
		for key := range keys {
			// The row of an object that has ended goes when the position has passed the end.
			if row := r.rows[name][key]; !row.Deleted {
				r.oweList(name, row.Last().Sequence)
			}
		}
	}
	r.Logger.Info("read the end of the log", "messages", r.read, "streams", len(r.rows))
	return nil
}

// readAll reads the whole log. Where it can select them, only the last message of each object, and all markers: those
// of several streams have one subject.
func (r *recovery) readAll(ctx context.Context) error {
	r.begin()
	began, told := time.Now(), time.Now()
	learn := func(m *sink.Stored) error {
		r.recallStreams(m)
		if time.Since(told) > progressEvery {
			told = time.Now()
			r.Logger.Info("reading the log", "messages", r.read, "of at most", r.messages(),
				"for", time.Since(began).Round(time.Second).String())
		}
		return r.learnMessage(m, false)
	}
	selects := r.bounds.Indexed && !r.sharesSubjects()
	err := r.Log.Read(ctx, sink.Query{LastOfKey: !r.sharesSubjects(), Data: !selects}, learn)
	if markers := slices.Sorted(maps.Keys(r.markers)); err == nil && selects && len(markers) > 0 {
		err = r.Log.Read(ctx, sink.Query{Subjects: markers, Data: true}, learn)
	}
	if err != nil {
		return fmt.Errorf("read the log: %w", err)
	}
	return nil
}

// messages is how many the log has, others' included.
func (r *recovery) messages() (n uint64) {
	for _, b := range r.bounds.Partitions {
		n += b.Last + 1 - b.First
	}
	return n
}

func (r *recovery) begin() {
	r.read, r.republished, r.streams = 0, false, map[string]checkpoint.Stream{}
	r.rows, r.completed = map[string]map[string]checkpoint.Row{}, map[string]string{}
	r.suspects, r.markers = map[string]map[string]struct{}{}, map[string]struct{}{}
}

// learnMessage learns what one message says. Late: what the position says is known, and is news all the same, is of a
// process that was replaced.
func (r *recovery) learnMessage(m *sink.Stored, late bool) error {
	st, err := encode.StateOf(m)
	var old *encode.OldFormatError
	switch {
	case errors.As(err, &old):
		return err
	case err != nil:
		return nil
	case !encode.IsOfCluster(st.Source, r.Identity.Cluster):
		return nil // clusters may share a log, and have pipelines of one name
	case st.Pipeline != r.Pipeline:
		return r.compete(m, &st)
	}
	r.seen, r.term = max(r.seen, st.Sequence.Epoch, m.Epoch), max(r.term, st.WriterTerm)
	if !r.isOfResource(&st) {
		return nil // a writer has started
	}
	r.read++
	if st.Sequence == (sequence.Sequence{}) {
		d := encode.MarkerOf(m)
		r.seen, r.resyncs = max(r.seen, d.Epoch), max(r.resyncs, d.N)
		r.markers[m.Subject] = struct{}{}
		r.learnMarker(m, &st)
		return nil
	}
	r.republished = r.republished || st.Reason == source.ReasonResync
	for name := range r.names(&st) {
		r.learnEvent(name, m, &st, late)
	}
	return nil
}

func (r *recovery) isOfResource(st *encode.State) bool {
	_, ok := encode.ResourceOf(st.Source, r.Identity.Cluster)
	return ok
}

// names yields the stored streams that may have an event's object.
func (r *recovery) names(st *encode.State) iter.Seq[string] {
	return func(yield func(string) bool) {
		resource, ok := encode.ResourceOf(st.Source, r.Identity.Cluster)
		if !ok {
			return
		}
		for _, namespace := range []string{"", st.Namespace} {
			name, ok := r.stored.find(source.Stream{Resource: resource, Namespace: namespace})
			if ok && !yield(name) || st.Namespace == "" {
				return
			}
		}
	}
}

// learnEvent moves a row to an event.
func (r *recovery) learnEvent(name string, m *sink.Stored, st *encode.State, late bool) {
	key := st.Key()
	known, exists := r.rows[name][key]
	if !exists && !r.replaces {
		known, exists = r.State.Rows[name][key]
	}
	if exists && known.Partition == m.Partition && m.Sequence <= known.Sequence && !known.Behind {
		return // the row has it already
	}
	next := ledger.RowOfState(st)
	next.Sequence, next.Partition = m.Sequence, m.Partition
	row := ledger.Apply(known, exists, next)
	if r.rows[name] == nil {
		r.rows[name] = map[string]checkpoint.Row{}
	}
	r.rows[name][key] = row
	_, had := r.State.Rows[name][key]
	switch last := known.Last(); {
	case !late || st.Reason == source.ReasonResync || r.refused(name, key) || endsLast(st, &last):
	case !had:
		if r.suspects[name] == nil {
			r.suspects[name] = map[string]struct{}{}
		}
		r.suspects[name][key] = struct{}{}
	case st.Sequence.After(last.Sequence):
		r.oweList(name, st.Sequence)
	}
}

// endsLast reports whether an event only ends the state that is known, of an object that is gone for good. Such an end
// has the version of that state whenever it is published, so that a position may cover it.
func endsLast(st *encode.State, last *sequence.Row) bool {
	return st.Deleted && st.Reason != source.ReasonDeselected && st.UID == last.UID && st.Sequence.Version == last.Version
}

// refused reports whether an object is recorded as refused. What the log lacks of it is published behind the position,
// and the object is tried again.
func (r *recovery) refused(name, key string) bool {
	_, is := slices.BinarySearchFunc(r.State.Streams[name].Refused, key, ledger.ByKey)
	return is
}

// oweList makes a stream owe a list where an event that the position covers is news: the object may be gone.
func (r *recovery) oweList(name string, found sequence.Sequence) {
	saved, ok := r.stream(name)
	order := sequence.Stream{Epoch: saved.Epoch, Position: ledger.Numeric(saved.Position)}
	if !ok || saved.Owes.List != sequence.Nothing || !order.Late(found) {
		return
	}
	saved.Owes = checkpoint.Owes{
		List: sequence.Relist, From: saved.Position, Version: saved.Position, Cause: string(source.CauseExpired),
		Message: "a process that was replaced has published late",
	}
	r.streams[name] = saved
}

// stream returns what is to be saved of a stream, or what was.
func (r *recovery) stream(name string) (saved checkpoint.Stream, ok bool) {
	if saved, ok = r.streams[name]; !ok {
		saved, ok = r.State.Streams[name]
	}
	return saved, ok
}

// learnMarker takes note of the marker of a list that began, or of a snapshot that is complete. It is that of a stored
// stream, which no entry may select now: one may again before the stream has ended.
func (r *recovery) learnMarker(m *sink.Stored, st *encode.State) {
	resource, ok := encode.ResourceOf(st.Source, r.Identity.Cluster)
	if !ok {
		return
	}
	for _, name := range r.stored.marked(resource, st.ID) {
		saved, _ := r.stream(name)
		switch st.Type {
		case encode.TypeGap, encode.TypeSnapshotStarted:
			saved.Announced = m.ID
		case encode.TypeSnapshotCompleted:
			r.completed[name] = st.ResourceVersion
			if !strings.HasSuffix(st.ID, fmt.Sprintf(".%d.%s", saved.Epoch, saved.Unannounced.ResourceVersion)) {
				continue
			}
			saved.Unannounced = checkpoint.Snapshot{}
		default:
			continue
		}
		r.streams[name] = saved
	}
}

// store brings the state up to date with what was learned, and with where the log ends.
func (r *recovery) store() {
	if !r.has() && len(r.rows)+len(r.streams) == 0 {
		return // nothing was published yet
	}
	for name, rows := range r.rows {
		if r.State.Rows[name] == nil {
			r.State.Rows[name] = map[string]checkpoint.Row{}
		}
		maps.Copy(r.State.Rows[name], rows)
	}
	maps.Copy(r.State.Streams, r.streams)
	r.Epochs.Observe(r.seen)
	known := &r.Known
	known.Marks, known.Ends, known.IDs = r.Ends, r.Ends, r.IDs
	known.Given, known.Resyncs = r.Epochs.Last(), max(known.Resyncs, r.resyncs)
	known.Term = max(known.Term, r.term)
	r.Batch = &checkpoint.Batch{Identity: r.Identity, Streams: r.streams, Put: r.rows, Log: known}
}

// has reports whether the checkpoint knows the log.
func (r *recovery) has() bool { return len(r.State.Log.Marks) > 0 }

// rebuild goes on from the log where the checkpoint was lost, or is an older one. What the log has is not published
// again. No position holds: each stream lists behind a gap, from the last snapshot that is called complete. Where the
// log may lack the last event of an object, a resync follows.
func (r *recovery) rebuild(ctx context.Context, trimmed bool) error {
	began := time.Now()
	if err := r.readAll(ctx); err != nil {
		return err
	}
	r.Known.ResyncNew = r.Known.ResyncNew || trimmed
	if r.read == 0 && !r.has() {
		return nil // the log has nothing of this pipeline
	}
	r.Epochs.Observe(r.seen)
	objects, epoch := 0, r.Epochs.Next()
	for name := range r.State.Streams {
		saved, _ := r.stream(name)
		from := cmp.Or(saved.Position, saved.Owes.From, r.completed[name], "0")
		saved.Epoch, saved.Position, saved.Announced = epoch, "", ""
		saved.Unannounced, saved.Replay = checkpoint.Snapshot{}, checkpoint.Replay{}
		saved.ResyncDue = saved.ResyncDue || trimmed || r.republished
		if saved.Owes.List < sequence.Republish {
			saved.Owes = checkpoint.Owes{
				List: sequence.Reselect, From: from, Cause: string(source.CauseCheckpointLost),
				Message: "the checkpoint was lost, is older than the log, or another process publishes as this pipeline; what " +
					"the log has was read from there",
			}
		}
		r.streams[name] = saved
		objects += len(r.rows[name])
	}
	r.Logger.Warn("the checkpoint does not know what the log has: it was read from the log", "streams",
		len(r.State.Streams),
		"objects", objects, "messages", r.read, "took", time.Since(began).Round(time.Millisecond).String())
	r.store()
	return nil
}

// repair begins an epoch in which everything is published again, because the log has lost what it had acknowledged. The
// rows become what the log has. A row that the log has nothing of stays, so that the end of its object can be told.
func (r *recovery) repair(ctx context.Context) error {
	had := r.State.Log
	r.replaces = true
	if err := r.readAll(ctx); err != nil {
		return err
	}
	r.Epochs.Observe(r.seen)
	if len(r.State.Streams) == 0 {
		r.store() // the checkpoint was reset, and the log is another one
		return nil
	}
	epoch := r.Epochs.Next()
	for name := range r.State.Streams {
		saved, _ := r.stream(name)
		why := source.Why{Cause: source.CauseLogLost, Message: "the log has lost events that it had acknowledged"}
		// Between the last snapshot that the log has and its end it may lack anything.
		ledger.BeginEpoch(&saved, epoch, cmp.Or(r.completed[name], "0"), why)
		saved.Position, saved.Owes.List = "", sequence.Repair
		r.streams[name] = saved
		r.unlearn(name)
	}
	r.Logger.Warn("the log has lost events that it had acknowledged: everything is published again between resync markers",
		"has", r.Ends, "had", had.Ends, "epoch", epoch)
	r.store()
	r.Lost = true
	return nil
}

// unlearn marks the rows of a stream that the log has nothing of. If the log has an older end of an object that came
// back since, the end has to be told again: who has read what was lost holds the object.
func (r *recovery) unlearn(name string) {
	if r.rows[name] == nil {
		r.rows[name] = map[string]checkpoint.Row{}
	}
	for key, row := range r.State.Rows[name] {
		has, is := r.rows[name][key]
		switch {
		case !is && row.Sequence > 0:
			row.Behind, row.Sequence, row.Fresh = true, 0, false
			r.rows[name][key] = row
		case is && has.Deleted && !row.Deleted && row.Last().After(has.Last().Sequence):
			row.Deleted, row.Behind, row.Sequence, row.Partition, row.Fresh = true, true, has.Sequence, has.Partition, false
			r.rows[name][key] = row
		}
	}
}

// sharesSubjects: objects do not each have a subject of their own.
func (r *recovery) sharesSubjects() bool {
	return slices.ContainsFunc(r.Specs, func(s *spec.Stream) bool {
		return s.Encoding.Subject != nil && !s.Encoding.Subject.PerObject()
	})
}
