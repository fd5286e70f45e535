// SPDX-License-Identifier: Apache-2.0

package campaign

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/kube-eventbridge/kube-eventbridge/integration/faults/drive"
	"github.com/kube-eventbridge/kube-eventbridge/integration/faults/oracle"
	"github.com/kube-eventbridge/kube-eventbridge/integration/faults/selection"
	"github.com/kube-eventbridge/kube-eventbridge/integration/faults/world"
	"github.com/kube-eventbridge/kube-eventbridge/integration/internal/rig"
)

const (
	// labelled is how many namespaces the second pipeline reads besides, in some rounds, by manyLabel.
	labelled  = 200
	manyLabel = "faults.example.com/many"
)

// newSecond returns a second pipeline that shares watches with the first. How it publishes is drawn.
func newSecond(random *rand.Rand) *world.Second {
	payload := []string{"", "change", "merge-patch", "json-patch"}[random.IntN(4)]
	maps := selection.Entry{Kind: drive.ConfigMaps, Namespaces: []string{whole}, Payload: payload}
	if random.IntN(3) == 0 {
		maps.NamespaceSelector = manyLabel + "=yes"
		for n := range labelled {
			maps.Namespaces = append(maps.Namespaces, fmt.Sprintf("many-%03d", n))
		}
	}
	return &world.Second{
		Selection: selection.Selection{
			maps,
			{Kind: drive.Secrets, Namespaces: []string{selected, whole}, Payload: payload},
			{Kind: drive.Widgets, Payload: payload},
		},
		Structured: random.IntN(2) == 0,
	}
}

// makeMany makes the namespaces that the second pipeline selects, if it selects any, with an object in each.
func (r *round) makeMany(ctx context.Context) error {
	if r.second == nil || r.second.Selection[0].NamespaceSelector == "" {
		return nil
	}
	c, err := kubernetes.NewForConfig(r.world.RESTConfig())
	if err != nil {
		return err
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(8)
	for _, name := range r.second.Selection[0].Namespaces {
		g.Go(func() error {
			if name == whole {
				patch := fmt.Appendf(nil, `{"metadata":{"labels":{%q:"yes"}}}`, manyLabel)
				_, err := c.CoreV1().Namespaces().Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{})
				return err
			}
			n := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{manyLabel: "yes"}}}
			if _, err := c.CoreV1().Namespaces().Create(ctx, n, metav1.CreateOptions{}); err != nil {
				return err
			}
			inside := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "inside"}}
			_, err := c.CoreV1().ConfigMaps(name).Create(ctx, inside, metav1.CreateOptions{})
			return err
		})
	}
	return g.Wait()
}

// judgeSecond compares the log of the second pipeline with the truth, and those that faults have taken away, up to
// where they were read.
func (r *round) judgeSecond(ctx context.Context) error {
	if r.second == nil {
		return nil
	}
	messages, err := r.world.ReadSecondLog(ctx)
	if err != nil {
		return err
	}
	streams := r.second.Selection.Streams(world.Cluster)
	truth, err := r.recorder.TruthOf(oracle.Schedule{{Selections: [][]oracle.Stream{streams}}}, streams...)
	if err != nil {
		return err
	}
	o := r.expectedSecond()
	judge := func(messages []rig.Message) error {
		if err := r.inMode(messages); err != nil {
			return err
		}
		log, err := entries(messages)
		if err != nil {
			return err
		}
		report := oracle.Judge(truth, log, o)
		r.result.SecondEntries += len(log)
		r.result.Unknown += report.Unknown
		r.result.Alike += report.Alike
		r.takeGaps("the second pipeline: ", report.Gaps)
		r.takeViolations("in the log of the second pipeline: ", report)
		return nil
	}
	err = judge(messages)
	o.Prefix = true
	for _, removed := range r.world.SecondRemoved() {
		err = errors.Join(err, judge(removed))
	}
	return err
}

// expectedSecond is what the log of the second pipeline is judged by.
func (r *round) expectedSecond() oracle.Options {
	o := r.expected()
	o.Partitions, o.Pipeline, o.Latest, o.Forgot = 0, world.SecondPipeline, nil, time.Time{}
	o.Gaps, o.LogLost, o.Behind = r.unjustifiedSecond, r.world.SecondLost(), r.behind(world.SecondServer)
	o.Resync = o.Audited || !o.LogLost.IsZero() ||
		slices.ContainsFunc(r.acts, func(a act) bool { return a.Resyncs && a.Loses == world.Note })
	if refused := r.refused(); refused != nil {
		events := r.world.Events()
		o.Refused = func(e *oracle.Entry) bool {
			return slices.ContainsFunc(refused, func(s span) bool { return s.has(e) })
		}
		o.RefusedState = func(st oracle.State) bool {
			return slices.ContainsFunc(refused, func(s span) bool { return s.bears(st, events) })
		}
	}
	return o
}

// inMode returns an error if a message is not in the mode that the second pipeline publishes in.
func (r *round) inMode(messages []rig.Message) error {
	for i := range messages {
		if is := messages[i].Structured(); is != r.second.Structured {
			return fmt.Errorf("%w: message %d is in structured mode: %t", errUnreadable, messages[i].Sequence, is)
		}
	}
	return nil
}

// unjustifiedSecond is [round.unjustified] for the second pipeline, of which the selection never changes, and the
// checkpoint is never lost.
func (r *round) unjustifiedSecond(g oracle.GapFigure) string {
	lost := r.world.SecondLost()
	began := !lost.IsZero() && (r.jumped() || !lost.After(g.At.Add(early)))
	switch {
	case began && (g.Cause == oracle.LogLost || g.Cause == oracle.Expired && g.From > 0):
		return ""
	case slices.Contains([]oracle.Cause{oracle.LogLost, oracle.CheckpointLost, oracle.Selection}, g.Cause):
		return fmt.Sprintf("%s: %s: nothing of that happened to the second pipeline", g.Cause, g.Message)
	default:
		return r.unjustifiedBy(g, slices.DeleteFunc(slices.Clone(r.acts), ofFirst))
	}
}

// ofFirst reports whether something was done to what only the first pipeline has.
func ofFirst(a act) bool {
	return a.Parts&(world.Broker|world.Disk) != 0 && a.Parts&world.API == 0 || a.Loses == world.CheckpointLost
}

// refused returns when the second pipeline's server refused events.
func (r *round) refused() (all []span) {
	for _, a := range r.acts {
		switch {
		case !a.Refuses:
		case r.jumped():
			all = append(all, span{})
		default:
			all = append(all, span{a.began.Add(-before), a.ended.Add(before)})
		}
	}
	return all
}

// span is a time; of the zero one nothing is known.
type span struct{ from, to time.Time }

// has reports whether an event may have been refused in that time, by when it was recorded.
func (s span) has(e *oracle.Entry) bool {
	return s == span{} || !e.Recorded.Before(s.from) && !e.Recorded.After(s.to)
}

// bears reports whether a state may have come to be in that time, by what the faults tell of etcd's revisions.
func (s span) bears(st oracle.State, events []world.Event) bool {
	if s == (span{}) {
		return true
	}
	low, high := int64(0), int64(math.MaxInt64)
	for _, e := range events {
		switch {
		case e.Revision == 0:
		case !e.At.After(s.from):
			low = e.Revision
		case !e.At.Before(s.to):
			high = min(high, e.Revision)
		}
	}
	version := int64(st.Version)                           //nolint:gosec // revisions are small
	return low > high || low <= version && version <= high // a restored etcd begins below
}

// before is how long before a fault what was refused may have been read, and how long after its end.
const before = 10 * time.Second

// secondRSS is what a bridge may take besides because of the second pipeline. A stream takes about 200 KB.
func (r *round) secondRSS() int64 {
	if r.second == nil {
		return 0
	}
	return int64(len(r.second.Selection.Streams(world.Cluster))) * 512 << 10
}
