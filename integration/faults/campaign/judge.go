// SPDX-License-Identifier: Apache-2.0

package campaign

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/kube-eventbridge/kube-eventbridge/integration/faults/oracle"
	"github.com/kube-eventbridge/kube-eventbridge/integration/faults/world"
	"github.com/kube-eventbridge/kube-eventbridge/integration/internal/rig"
)

// What the bridge did that it must not, besides breaking a promise; it is counted beside P1 to P9.
const (
	unsettled  = "unsettled"
	ended      = "bridge ended"
	used       = "damaged checkpoint used"
	shared     = "term of two leaders"
	slow       = "takeover grossly late"
	unreadable = "log unreadable"
	raced      = "data race"
)

var errUnreadable = errors.New("the log has what is no event")

// kindOf says what of it an error is; empty if it is one of the round itself.
func kindOf(err error) string {
	for _, k := range []struct {
		err  error
		kind string
	}{
		{world.ErrUsed, used},
		{world.ErrEnded, ended},
		{world.ErrUnsettled, unsettled},
		{errUnreadable, unreadable},
		{world.ErrAstray, unreadable},
	} {
		if errors.Is(err, k.err) {
			return k.kind
		}
	}
	return ""
}

// kinds are all that is counted beside P1 to P9.
var kinds = []string{unsettled, ended, used, unreadable, shared, slow, raced}

// judge stops the bridge, reads the log and whatever else the bridge has written, and compares it with the truth.
func (r *round) judge(ctx context.Context) error {
	defer r.spend("judge")()
	texts, err := r.world.Texts(ctx)
	if err != nil {
		return err
	}
	r.judgeTerms(texts)
	messages, err := r.world.ReadLog(ctx)
	if err != nil {
		return err
	}
	o := r.expected()
	o.Texts, o.BufferLimit, o.RSSLimit = texts, bufferLimit, rssLimit+r.secondRSS()
	if r.options.Race {
		o.RSSLimit *= raceTimes
	}
	peak, times := r.world.Peak()
	if times > 0 {
		o.Samples = []oracle.Sample{{BufferedBytes: peak.BufferedBytes, RSS: peak.RSS}}
	}
	r.result.RSS, r.result.Buffered = peak.RSS, peak.BufferedBytes
	if err := r.compare(ctx, messages, o); err != nil {
		return err
	}
	return r.judgeSecond(ctx)
}

// raceTimes is how many times more memory a bridge takes that looks for races.
const raceTimes = 10

// judgeRaces looks for what the race detector has found.
func (r *round) judgeRaces() error {
	for _, file := range r.world.StderrFiles() {
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		if _, race, found := strings.Cut(string(text), "WARNING: DATA RACE"); found {
			r.violated("", raced, "", race[:min(len(race), 4000)])
		}
	}
	return nil
}

// rest is for how long what a round that is broken has left is looked at.
const rest = time.Minute

// judgeRest compares what there is of the log, in a round that the bridge did not see through. What cannot be read then
// is told, and no error.
func (r *round) judgeRest(ctx context.Context) error {
	if err := r.world.KillBridge(); err != nil {
		return err
	}
	r.result.Changes = r.driver.Counts().Changes()
	bounded, cancel := context.WithTimeout(ctx, rest)
	defer cancel()
	messages, err := r.world.ReadLog(bounded)
	if err == nil {
		o := r.expected()
		o.Prefix = true
		err = r.compare(bounded, messages, o)
	}
	if err != nil && ctx.Err() == nil {
		r.result.Told = append(r.result.Told, fmt.Sprintf("the rest of the round was not judged: %v", err))
		return nil
	}
	return err
}

// expected is what a log of this round is judged by.
func (r *round) expected() oracle.Options {
	partitions := 0
	if r.options.Broker == world.Kafka {
		partitions = world.Partitions
	}
	r.acts, r.caches = actsOf(r.options.Broker, r.world.Events()), r.world.CachesFilled()
	return oracle.Options{
		Partitions: partitions, Elected: r.replicas > 0, Seed: r.options.Seed,
		Pipeline: world.Pipeline, Latest: r.subject.latest,
		Canaries: oracle.NewCanaries(r.driver.Canaries()...), MaxPrinted: manyPrinted, Gaps: r.unjustified,
		LogLost: r.logLost(), Forgot: r.began(world.CheckpointLost), Behind: r.behind(world.Broker | world.Disk),
		Resync:  r.result.Audited > 0 || slices.ContainsFunc(r.acts, func(a act) bool { return a.Resyncs }),
		Audited: r.result.Audited > 0,
	}
}

// compare judges the log that there is at the end, and those that faults have taken away, up to where they were read.
func (r *round) compare(ctx context.Context, messages []rig.Message, o oracle.Options) error {
	if err := r.recorder.Sync(ctx); err != nil {
		return err
	}
	truth, err := r.recorder.TruthOf(r.schedule, r.subject.areas...)
	if err != nil {
		return err
	}
	log, err := entries(messages)
	if err != nil {
		return err
	}
	r.result.Entries = len(log)
	r.take(oracle.Judge(truth, log, o))
	for _, h := range truth.Holes {
		r.result.Holes++
		r.result.Blind += int(h.To - h.From) //nolint:gosec // a campaign has few revisions
	}
	o = r.expected()
	o.Prefix = true
	for n, removed := range r.world.Removed() {
		if log, err = entries(removed.Messages); err != nil {
			return err
		}
		r.result.Removed++
		r.result.RemovedEntries += len(log)
		r.add(fmt.Sprintf("in log %d that was taken away (%s): ", n+1, removed.Kind), oracle.Judge(truth, log, o))
	}
	return r.judgeRaces()
}

// manyPrinted is so much that what two judgements found is compared, and not how many more there were.
const manyPrinted = 1000

func entries(messages []rig.Message) ([]oracle.Entry, error) {
	log, err := rig.Entries(messages)
	if err != nil {
		err = fmt.Errorf("%w: %w", errUnreadable, err)
	}
	return log, err
}
