// SPDX-License-Identifier: Apache-2.0

package campaign

import (
	"context"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/kube-eventbridge/kube-eventbridge/integration/faults/drive"
	"github.com/kube-eventbridge/kube-eventbridge/integration/faults/oracle"
	"github.com/kube-eventbridge/kube-eventbridge/integration/faults/selection"
	"github.com/kube-eventbridge/kube-eventbridge/integration/faults/world"
)

// The driver's namespaces.
const (
	selected = "drive-a" // ConfigMaps are watched here with a selector
	whole    = "drive-b"
)

// subject is what the bridge is asked to export in a round, in the words of each who has to know.
type subject struct {
	selection selection.Selection
	// streams are those that read it, and areas also what they read only for a while.
	streams, areas []oracle.Stream
	latest         map[oracle.Stream]bool
	resources      []oracle.Resource
}

// newSubject returns everything that the driver changes; in every second round Secrets are folded.
func newSubject(random *rand.Rand) subject {
	s := subject{latest: map[oracle.Stream]bool{}}
	for _, k := range append(drive.Kinds(), drive.Namespaces) {
		s.resources = append(s.resources, oracle.Resource{Resource: k.Resource, Namespaced: k.Namespaced})
	}
	secrets := selection.Entry{Kind: drive.Secrets, Namespaces: []string{selected, whole}, Latest: random.IntN(2) == 0}
	s.selection = selection.Selection{
		{Kind: drive.ConfigMaps, Namespaces: []string{selected}, LabelSelector: drive.Selector},
		{Kind: drive.ConfigMaps, Namespaces: []string{whole}},
		secrets,
		// What it fails for is published.
		{Kind: drive.Widgets, Filter: "size(object.spec.filling) > 700 || object.spec.missing == ''"},
		{Kind: drive.ClusterRoles},
	}
	s.streams = s.selection.Streams(world.Cluster)
	s.areas = append(slices.Clone(s.streams),
		oracle.Stream{Cluster: world.Cluster, Resource: drive.ConfigMaps.Resource, Namespace: "kube-system"},
		oracle.Stream{Cluster: world.Cluster, Resource: drive.Namespaces.Resource})
	for _, of := range s.streams {
		if secrets.Latest && of.Resource == drive.Secrets.Resource {
			s.latest[of] = true
		}
	}
	return s
}

// include adds the namespaces of another pipeline's ConfigMaps to the areas: the first one reads all for a while.
func (s *subject) include(other selection.Selection) {
	for _, of := range other.Streams(world.Cluster) {
		if of.Resource == drive.ConfigMaps.Resource && !slices.Contains(s.areas, of) {
			s.areas = append(s.areas, of)
		}
	}
}

// selects takes note of what the bridge may read from now on. What it reads certainly it has begun to read before.
func (r *round) selects(ctx context.Context, may ...selection.Selection) error {
	if len(may) == 1 {
		if err := r.recorder.Sync(ctx); err != nil {
			return err
		}
	}
	p := oracle.Phase{At: time.Now(), Place: r.recorder.Place()}
	for _, s := range may {
		p.Selections = append(p.Selections, s.Streams(world.Cluster))
	}
	r.scheduling.Lock()
	defer r.scheduling.Unlock()
	if last := &r.schedule[len(r.schedule)-1]; len(last.Selections) > 1 && len(may) > 1 {
		last.Selections = append(last.Selections, p.Selections...) // it is not certain yet what was read before
		return nil
	}
	r.schedule = append(r.schedule, p)
	return nil
}

// forgets takes note that checkpoint and log have become what they were at a time. What was selected since may have
// left no trace: the bridge goes on with what it selects now.
func (r *round) forgets(since time.Time) {
	r.scheduling.Lock()
	defer r.scheduling.Unlock()
	r.schedule = r.schedule.Forget(since)
}

// phases returns how many phases the schedule has.
func (r *round) phases() int {
	r.scheduling.Lock()
	defer r.scheduling.Unlock()
	return len(r.schedule)
}
