// SPDX-License-Identifier: Apache-2.0

package oracle

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Options say what to expect of a log. The zero value expects every state of every stream.
type Options struct {
	// Seed is what repeats the run; it is printed with each violation.
	Seed uint64
	// Partitions is how many the log has, in each of which the markers are; 0 says that it is one sequence.
	Partitions int
	// Elected says that leaders were elected: each event of an object says by which one, and none says so otherwise.
	Elected bool
	// Pipeline, if not empty, is the one whose log it is: entries of another one are violations.
	Pipeline string
	// Gaps returns why a gap is not justified, or nothing where it is. It is asked once for each gap of the log, and
	// its answer is a violation of P6. Nil allows none; [AnyGap] allows every gap that is well-formed.
	Gaps func(GapFigure) string
	// LogLost is when the log, or its end, was first taken away from the bridge, zero for never: then events may be
	// published again with the reason repair, and a gap that was announced later may begin below what the log had.
	LogLost time.Time
	// Forgot is when a checkpoint was first taken away, zero for never: a writer that starts later does not know which
	// epochs the log has.
	Forgot time.Time
	// Behind returns how long before a gap the log may have got what comes behind the gap's beginning: 5 s if it is
	// nil, or returns less. It is more where the bridge could not store its position.
	Behind func(GapFigure) time.Duration
	// Refused reports whether the broker may have refused an event; nil is never. A rejection may stand for it then,
	// and an event that says how many changes it stands for, or was found by a list, for all that was refused of the
	// object. How many they are is not checked then.
	Refused func(*Entry) bool
	// RefusedState reports whether the broker may have refused the event of a state; nil is never. An object that was
	// made in such a state may come and go without an event.
	RefusedState func(State) bool
	// Latest names the streams whose states may be folded.
	Latest map[Stream]bool
	// Prefix says that the log was cut off while the bridge was writing: no last state is demanded, and of each object
	// only what precedes its last entry.
	Prefix bool
	// Resync says that repetitions were asked for: a resync, or a rewind.
	Resync bool
	// Selected, if not nil, says that what the streams select has changed on the way, and reports whether an object is
	// selected at the end. Otherwise no event may have the reason deselected.
	Selected func(stream Stream, key string) bool
	// Audited says that an audit has run after the last restoration, when nothing was under way any more: then
	// consumers have to have the contents of all objects, also where versions do not show the restoration.
	Audited bool

	// BufferLimit and RSSLimit are in bytes; 0 is none. With one of them there have to be Samples.
	Samples               []Sample
	BufferLimit, RSSLimit int64
	// Canaries are searched in the entries, and in Texts: the bytes of whatever else the bridge has written, by name.
	Canaries *Canaries
	Texts    map[string][]byte
	// MaxPrinted bounds the violations of one promise in one stream; the last one says how many are left out. 0 means
	// 20.
	MaxPrinted int
}

// Sample is a measurement of the bridge, in bytes.
type Sample struct{ BufferedBytes, RSS int64 }

// Report is what a log was found to be.
type Report struct {
	Violations []Violation
	// Counts are the violations of each promise, also those that are not printed.
	Counts map[Promise]int
	// States counts what the truth has of the checked streams, Published those of them that the log has, Folded those
	// that a later one stands for, Hidden those that snapshots, gaps and holes account for, and Lost the others.
	States, Published, Folded, Hidden, Lost int
	// Recovered counts the entries that were read back from the history.
	Recovered int
	// Unknown counts entries that cannot be judged, because the truth has holes.
	Unknown int
	// Late counts entries of a leader that stand behind those of a later one, where they may.
	Late int
	// Alike counts those of Hidden that are excused for nothing but that a restored etcd came to the versions which the
	// log has: of the same objects, with other contents, and nothing else showed that it was restored. They are lost,
	// and versions cannot show it.
	Alike int
	// Unaudited counts the objects of which consumers need not have the true content, because only an audit finds it.
	Unaudited int
	// Undone counts those of Hidden that a restoration undid, and that the log does not have.
	Undone int
	// Avoidable is the sum of what the gaps have.
	Avoidable int
	Gaps      []GapFigure
}

// GapFigure says what one gap cost.
type GapFigure struct {
	Stream Stream
	// Place is that of the marker in the log.
	Place           uint64
	Epoch, From, To uint64
	Cause           Cause
	// Message says the cause for a person.
	Message string
	// At is when the list behind the gap was made, as the marker says.
	At time.Time
	// Hidden counts the states in its range that the log does not have, Recovered the entries before it that were read
	// back.
	Hidden, Recovered int
	// Avoidable counts those of Hidden that etcd still had when the gap was announced, see [Truth].
	Avoidable int
	// Behind is for how long the log had had something above From, and something behind that, when it got its last entry
	// before the gap: by so much the position from which the stream went on was older than the log. It is zero where the
	// entries do not say when they were stored.
	Behind time.Duration
}

// lostAt reports whether the log was taken away at a time or before.
func (o *Options) lostAt(t time.Time) bool { return !o.LogLost.IsZero() && !t.Before(o.LogLost) }

// noGaps is what nil means in [Options.Gaps].
func noGaps(GapFigure) string { return "nothing happened that may cause a gap" }

// AnyGap is for [Options.Gaps]: the caller judges the gaps of the report.
func AnyGap(GapFigure) string { return "" }

// OnlyGaps is for [Options.Gaps]: it allows gaps of these causes.
func OnlyGaps(causes ...Cause) func(GapFigure) string {
	return func(g GapFigure) string {
		if slices.Contains(causes, g.Cause) {
			return ""
		}
		return fmt.Sprintf("%s: %s: only these may cause it: %v", g.Cause, g.Message, causes)
	}
}

// Check returns how a log breaks the promises, given the truth. It changes neither.
func Check(t *Truth, log []Entry, o Options) []Violation { return Judge(t, log, o).Violations }

// Judge is [Check] with figures.
func Judge(t *Truth, log []Entry, o Options) Report {
	j := &judge{truth: t, options: o, counts: map[string]int{}}
	if j.options.MaxPrinted == 0 {
		j.options.MaxPrinted = 20
	}
	if j.options.Gaps == nil {
		j.options.Gaps = noGaps
	}
	j.divide(log)
	for _, s := range j.streams {
		s.check()
	}
	j.checkConsumers()
	j.checkSamples()
	j.checkCanaries(log)
	j.summarise()
	return j.report
}

// selected reports whether a stream selects an object at the end.
func (j *judge) selected(stream Stream, key string) bool {
	return j.options.Selected == nil || j.options.Selected(stream, key)
}

type judge struct {
	truth   *Truth
	options Options
	streams []*streamJudge
	parts   [][]*Entry // what a consumer reads, by partition
	report  Report
	counts  map[string]int
}

// divide gives each entry to its stream, in the order of the log, and checks what concerns the log as a whole.
func (j *judge) divide(log []Entry) {
	scopes := map[string]map[string]*streamJudge{}
	for _, s := range slices.SortedFunc(maps.Keys(j.truth.Streams),
		func(a, b Stream) int { return cmp.Compare(a.Source()+a.String(), b.Source()+b.String()) }) {
		judge := newStreamJudge(j, s)
		j.streams = append(j.streams, judge)
		if scopes[s.Source()] == nil {
			scopes[s.Source()] = map[string]*streamJudge{}
		}
		scopes[s.Source()][s.Namespace] = judge
	}
	var own, writers []*Entry
	for i, sorted := 0, slices.SortedStableFunc(slices.Values(log), inOrder); i < len(sorted); i++ {
		e := &sorted[i]
		switch {
		case j.options.Pipeline != "" && e.Pipeline != j.options.Pipeline:
			j.violateRecord(P4, e, fmt.Sprintf("it is of the pipeline %q", e.Pipeline))
		case e.Type != typeWriter && !checked(e):
			j.violateRecord(P4, e, "the type is not one that the bridge publishes")
		default:
			own = append(own, e)
		}
	}
	j.parts = divideParts(own)
	for _, part := range j.parts {
		for _, problem := range applyPatches(part) {
			j.violate(Violation{Promise: P9, What: problem})
		}
	}
	if j.options.Partitions > 0 {
		j.checkPartitions(own)
		own = j.completed(own)
	}
	j.checkIDs(own)
	lanes := map[*streamJudge][]*Entry{}
	sources := j.sources()
	for _, e := range own {
		of := sources[e.Source]
		in := scopes[of.Source()]
		s := in[namespaceOf(e)]
		if s == nil {
			s = in[""]
		}
		if e.mark() && namespaceOf(e) == "" && s == nil { // it is about each of its namespaces
			for _, namespace := range sortedKeys(in) {
				if s != nil {
					lanes[in[namespace]] = append(lanes[in[namespace]], new(*e))
					continue
				}
				s = in[namespace]
			}
		}
		switch {
		case e.Type == typeWriter:
			writers = append(writers, e)
		case s == nil:
			j.violate(Violation{
				Promise: P4, Stream: e.Source, Key: e.key(), What: "an entry of no stream that was watched",
				Log: []string{e.String()},
			})
		default:
			for _, problem := range []string{s.stream.addressProblem(e), e.attributeProblem()} {
				if problem != "" {
					j.violateRecord(P4, e, problem)
				}
			}
			lanes[s] = append(lanes[s], e)
		}
	}
	for _, s := range j.streams {
		if j.options.Partitions > 0 {
			lanes[s] = j.merge(lanes[s], writers)
		}
		for _, e := range lanes[s] {
			s.take(e)
		}
	}
}

// inOrder is the order of the log, and of a partition.
func inOrder(a, b Entry) int {
	return cmp.Or(cmp.Compare(a.Partition, b.Partition), cmp.Compare(a.Offset, b.Offset), cmp.Compare(a.Place, b.Place))
}

// checkIDs checks that no id is there twice: of what is everywhere, in no partition.
func (j *judge) checkIDs(log []*Entry) {
	ids, messages := map[string]*Entry{}, map[string]*Entry{}
	for _, e := range log {
		place := ""
		if j.options.Partitions > 0 && e.everywhere() {
			place = fmt.Sprint(e.Partition)
		}
		j.repeated(ids, e.ID, e.Pipeline+" "+e.Source+" "+e.ID+" "+place, e)
		j.repeated(messages, e.MsgID, e.MsgID, e)
	}
}

func checked(e *Entry) bool {
	return strings.HasPrefix(e.Type, typeResource) || e.mark()
}

func (j *judge) repeated(seen map[string]*Entry, id, place string, e *Entry) {
	if id == "" {
		return
	}
	if first := seen[place]; first != nil {
		j.violate(Violation{
			Promise: P5, Stream: e.Source, Key: e.key(), What: "the id " + id + " is there twice",
			Log: []string{first.String(), e.String()},
		})
		return
	}
	seen[place] = e
}

func (j *judge) violate(v Violation) {
	v.Seed = j.options.Seed
	place := string(v.Promise) + " " + v.Stream
	j.counts[place]++
	if j.counts[place] <= j.options.MaxPrinted {
		j.report.Violations = append(j.report.Violations, v)
	}
}

// summarise says what was left out.
func (j *judge) summarise() {
	j.report.Counts = map[Promise]int{}
	for _, place := range slices.Sorted(maps.Keys(j.counts)) {
		promise, _, _ := strings.Cut(place, " ")
		j.report.Counts[Promise(promise)] += j.counts[place]
		if more := j.counts[place] - j.options.MaxPrinted; more > 0 {
			promise, stream, _ := strings.Cut(place, " ")
			j.report.Violations = append(j.report.Violations, Violation{
				Promise: Promise(promise), Stream: stream, Seed: j.options.Seed, What: fmt.Sprintf("and %d more of its kind", more),
			})
		}
	}
}

func (j *judge) checkSamples() {
	for _, of := range []struct {
		what  string
		limit int64
		value func(Sample) int64
	}{
		{"buffered bytes", j.options.BufferLimit, func(s Sample) int64 { return s.BufferedBytes }},
		{"resident bytes", j.options.RSSLimit, func(s Sample) int64 { return s.RSS }},
	} {
		if of.limit > 0 && len(j.options.Samples) == 0 {
			j.violate(Violation{Promise: P7, What: of.what + " were not measured"})
		}
		over, most := 0, int64(0)
		for _, s := range j.options.Samples {
			if v := of.value(s); of.limit > 0 && v > of.limit {
				over, most = over+1, max(most, v)
			}
		}
		if over > 0 {
			j.violate(Violation{Promise: P7, What: fmt.Sprintf("%s over the limit of %d in %d of %d samples, at most %d",
				of.what, of.limit, over, len(j.options.Samples), most)})
		}
	}
}

func (j *judge) checkCanaries(log []Entry) {
	c := j.options.Canaries
	if c == nil {
		return
	}
	for i := range log {
		e := &log[i]
		for _, part := range append(e.texts(), text{"data", string(e.Data)}) {
			for _, found := range c.Find([]byte(part.content)) {
				j.violate(Violation{Promise: P8, What: fmt.Sprintf("%s in the %s of entry %d", found, part.name, e.Place)})
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(j.options.Texts)) {
		for _, found := range c.Find(j.options.Texts[name]) {
			j.violate(Violation{Promise: P8, What: fmt.Sprintf("%s in %s", found, name)})
		}
	}
}

type text struct{ name, content string }

func (e *Entry) texts() []text {
	var all []text
	for name, values := range e.Headers {
		all = append(all, text{"name of a header", name})
		for _, v := range values {
			all = append(all, text{"value of a header", v})
		}
	}
	return append(all, text{"id", e.ID}, text{"message id", e.MsgID}, text{"subject", e.Subject})
}
