// SPDX-License-Identifier: Apache-2.0

package campaign

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/kube-eventbridge/kube-eventbridge/integration/faults/drive"
	"github.com/kube-eventbridge/kube-eventbridge/integration/faults/oracle"
	"github.com/kube-eventbridge/kube-eventbridge/integration/faults/world"
)

// act is something that a fault did, and when the fault began and ended.
type act struct {
	world.Fault
	kind         world.Kind
	began, ended time.Time // ended is zero of one that is not over
}

// actsOf returns what faults did. One that found no occasion may have done something before.
func actsOf(broker string, events []world.Event) (all []act) {
	faults, begun := catalogue(broker), map[string]time.Time{}
	for _, e := range events {
		switch e.Kind {
		case world.Begun:
			begun[e.Fault] = e.At
		case world.Missed:
		case world.Over:
			for n := range all {
				if all[n].Name == e.Fault && all[n].ended.IsZero() {
					all[n].ended = e.At
				}
			}
		default:
			all = append(all, act{Fault: faults[e.Fault], kind: e.Kind, began: begun[e.Fault]})
		}
	}
	return all
}

// jumped reports whether the bridge's clock was moved: then the times that it says mean nothing.
func (r *round) jumped() bool {
	return slices.ContainsFunc(r.tried, func(f world.Fault) bool { return f.Clock })
}

// trimmed reports whether the oldest records of the log were deleted.
func (r *round) trimmed() bool {
	return slices.ContainsFunc(r.tried, func(f world.Fault) bool {
		return strings.Contains(f.Name,
			world.OldRecordsDeleted)
	})
}

// logLost is when the log, or its end, was first taken away, zero if it was not.
func (r *round) logLost() time.Time { return r.began(world.LogRewound, world.LogDeleted) }

// began is when the first act of one of these kinds began, zero if there was none.
func (r *round) began(kinds ...world.Kind) time.Time {
	n := slices.IndexFunc(r.acts, func(a act) bool { return slices.Contains(kinds, a.kind) })
	switch {
	case n < 0:
		return time.Time{}
	case r.jumped():
		return time.Unix(0, 0)
	default:
		return r.acts[n].began
	}
}

// behind returns how far a gap may reach below the log, by faults of parts in which a position is stored. It cannot be
// stored while a broker is away or a disk is full, and some time after it: brokers start slowly on a busy machine. What
// Kafka has was stored by the bridge's clock. A bridge that is killed again and again, or whose watches are slow,
// stores none either.
func (r *round) behind(parts world.Part) func(oracle.GapFigure) time.Duration {
	return func(g oracle.GapFigure) (longest time.Duration) {
		if r.options.Broker == world.Kafka && r.jumped() {
			return 1000 * time.Hour
		}
		var slow time.Duration
		for _, a := range r.acts {
			lasted := a.ended.Sub(a.began)
			switch {
			case !r.jumped() && (a.began.After(g.At.Add(early)) || a.ended.Add(remembered).Before(g.At)):
			case a.Parts&parts != 0:
				longest = max(longest, 30*time.Second, lasted+10*time.Second)
			case a.Parts&(world.Process|world.API) != 0 && lasted > 0:
				slow += lasted
			}
		}
		if slow > 0 {
			longest = max(longest, 5*time.Second+slow)
		}
		return longest
	}
}

// remembered is for how long after a fault a gap may begin where that kept a position from being stored.
const remembered = time.Minute

// beginning reports whether log and checkpoint were removed so shortly before that the first list may not be complete.
func (r *round) beginning(at time.Time) bool {
	return slices.ContainsFunc(r.acts, func(a act) bool {
		return a.kind == world.Fresh && (r.jumped() || !a.began.After(at.Add(early)) && !a.ended.Add(remembered).Before(at))
	})
}

// early is by how much a gap may seem older than the fault that causes it.
const early = time.Second

// refilled reports whether the API server has filled the watch cache of a gap's resource from etcd, by itself, between
// the bridge's start and the gap. It then refuses watches from before, as after its start.
func (r *round) refilled(g oracle.GapFigure) bool {
	return g.Cause == oracle.Expired && slices.ContainsFunc(r.caches, func(c world.CacheFilled) bool {
		return c.Resource == g.Stream.Resource.GroupResource() && c.At.After(r.bridged) && !c.At.After(g.At.Add(early))
	})
}

// unjustified returns why a gap is not one that a fault of the round may cause; empty if it is one. A lost log or
// checkpoint has gaps from version 0. Where the list behind one shows a restored etcd, another gap begins there, too;
// and where the selection changes before the first list behind it is complete.
func (r *round) unjustified(g oracle.GapFigure) string { return r.unjustifiedBy(g, r.acts) }

// unjustifiedBy is [round.unjustified] of some acts.
func (r *round) unjustifiedBy(g oracle.GapFigure, acts []act) string {
	custom := g.Stream.Resource == drive.Widgets.Resource
	may := func(cause oracle.Cause) bool {
		return slices.ContainsFunc(acts, func(a act) bool {
			return (r.jumped() || !a.began.After(g.At.Add(early))) && slices.ContainsFunc(a.Gaps, func(may world.MayGap) bool {
				return may.Cause == cause && (custom || !may.Custom)
			})
		})
	}
	lost := g.Cause == oracle.LogLost || g.Cause == oracle.CheckpointLost ||
		(g.Cause == oracle.Restored || g.Cause == oracle.Rebuilt) && may(oracle.CheckpointLost) ||
		g.Cause == oracle.Selection && (may(oracle.CheckpointLost) || may(oracle.LogLost) || r.beginning(g.At))
	switch {
	case !may(g.Cause) && !r.refilled(g):
		return fmt.Sprintf("%s: %s: no fault may cause it that began before, of: %s", g.Cause, g.Message, names(r.tried))
	case g.From == 0 && !lost:
		return "it begins at version 0"
	}
	return ""
}
