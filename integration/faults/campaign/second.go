// SPDX-License-Identifier: Apache-2.0

package campaign

import (
	"context"
	"fmt"
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

// makeMany makes the namespaces that the second pipeline selects, if it selects any.
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
			_, err := c.CoreV1().Namespaces().Create(ctx, n, metav1.CreateOptions{})
			return err
		})
	}
	return g.Wait()
}

// judgeSecond compares the log of the second pipeline with the truth.
func (r *round) judgeSecond(ctx context.Context) error {
	if r.second == nil {
		return nil
	}
	messages, err := r.world.ReadSecondLog(ctx)
	if err != nil {
		return err
	}
	log, err := rig.Entries(messages)
	if err != nil {
		return fmt.Errorf("%w: %w", errUnreadable, err)
	}
	streams := r.second.Selection.Streams(world.Cluster)
	truth, err := r.recorder.TruthOf(oracle.Schedule{{Selections: [][]oracle.Stream{streams}}}, streams...)
	if err != nil {
		return err
	}
	o := r.expected()
	o.Partitions, o.Pipeline, o.Latest = 0, world.SecondPipeline, nil
	o.Gaps, o.LogLost, o.Forgot, o.Behind = r.unjustifiedSecond, r.world.SecondLost(), time.Time{}, 30*time.Second
	o.Resync = o.Resync || !o.LogLost.IsZero()
	o.Refused = slices.ContainsFunc(r.acts, func(a act) bool { return a.Refuses })
	report := oracle.Judge(truth, log, o)
	r.result.SecondEntries, r.result.Unknown, r.result.Alike = len(log), r.result.Unknown+report.Unknown, r.result.Alike+report.Alike
	r.takeViolations("in the log of the second pipeline: ", report)
	return nil
}

// unjustifiedSecond is [round.unjustified] for the second pipeline, of which the selection never changes, and the
// checkpoint is never lost.
func (r *round) unjustifiedSecond(g oracle.GapFigure) string {
	lost := r.world.SecondLost()
	switch {
	case slices.Contains([]oracle.Cause{oracle.LogLost, oracle.Expired}, g.Cause) && !lost.IsZero() && (r.jumped() || !lost.After(g.At.Add(early))):
		return ""
	case slices.Contains([]oracle.Cause{oracle.LogLost, oracle.CheckpointLost, oracle.Selection}, g.Cause):
		return fmt.Sprintf("%s: %s: nothing of that happened to the second pipeline", g.Cause, g.Message)
	default:
		return r.unjustified(g)
	}
}
