// SPDX-License-Identifier: Apache-2.0

package campaign

import (
	"cmp"
	"errors"
	"fmt"
	"hash/fnv"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/kube-eventbridge/kube-eventbridge/integration/faults/oracle"
	"github.com/kube-eventbridge/kube-eventbridge/integration/faults/world"
)

// Planned is a round that injects certain faults, in their order, each by itself.
type Planned struct {
	// Replicas and Checkpoint are as in [world.Config].
	Replicas   int
	Checkpoint string
	// Second says that the bridge has a second pipeline.
	Second bool
	Faults []string
}

// together is between the names of two faults that were injected at the same time.
const together = " + "

// plannedCost is about how long the faults of a planned round may take, by what they say they cost at most.
const plannedCost = 100 * time.Second

// EachOnce plans each fault of the catalogue once: all on NATS, and on Kafka those that concern brokers. Faults that
// need replicas get two or three. Faults of which no gap may come have rounds of their own, and so have those that
// concern custom resources only, and those that take the log away: there no other gap has an excuse.
func EachOnce(broker string) (plan []Planned) {
	type group struct {
		Planned
		cost time.Duration
	}
	var rounds []*group
	open := map[string]*group{}
	for _, f := range world.Catalogue(broker, true, true) {
		if broker == world.Kafka && f.Parts&world.Broker == 0 {
			continue
		}
		p, gaps := worldFor(f, broker), gapsOf(f)
		key := fmt.Sprint(p, gaps)
		g := open[key]
		if g == nil || g.cost+f.Cost > plannedCost {
			g = &group{Planned: p}
			open[key], rounds = g, append(rounds, g)
		}
		g.Faults, g.cost = append(g.Faults, f.Name), g.cost+f.Cost
	}
	// The longest rounds come first, so that none of them is left to the end.
	slices.SortStableFunc(rounds, func(a, b *group) int { return cmp.Compare(b.cost, a.cost) })
	for _, g := range rounds {
		plan = append(plan, g.Planned)
	}
	return plan
}

// Together plans each action of users twice more: while the broker is away, and while etcd is restored.
func Together(broker string) (plan []Planned) {
	away := "broker stopped for longer than any window"
	if broker == world.Kafka {
		away = "all brokers stopped for seconds"
	}
	faults := catalogue(broker)
	for _, with := range []string{away, "etcd restored without a version bump"} {
		for _, f := range world.Catalogue(broker, true, false) {
			if f.Action && f.Fits(faults[with]) {
				plan = append(plan, Planned{Checkpoint: world.CheckpointFile, Faults: []string{f.Name + together + with}})
			}
		}
	}
	return plan
}

// worldFor returns what a round is that a fault can be injected in.
func worldFor(f world.Fault, broker string) Planned {
	p := Planned{Checkpoint: f.Checkpoint, Second: f.Parts&world.SecondServer != 0}
	switch {
	case f.Together && broker == world.Kafka:
		p.Replicas = 3
	case f.Together:
		p.Replicas = 2
	}
	if p.Checkpoint == "" && (f.Together || f.Parts&world.Process != 0 && len(f.Gaps) == 0) {
		p.Checkpoint = cmp.Or(broker, world.NATS)
	}
	p.Checkpoint = cmp.Or(p.Checkpoint, world.CheckpointFile)
	return p
}

// gapsOf names the gaps that a fault may cause, roughly.
func gapsOf(f world.Fault) string {
	switch {
	case len(f.Gaps) == 0:
		return "none"
	case f.Gaps[0].Custom || lost(f) || f.Gaps[0].Cause == oracle.Selection || f.Gaps[0].Cause == oracle.CheckpointLost:
		return fmt.Sprint(f.Gaps[0])
	default:
		return "some"
	}
}

// lost reports whether a fault may cause the gap of a lost log.
func lost(f world.Fault) bool {
	return slices.ContainsFunc(f.Gaps, func(g world.MayGap) bool { return g.Cause == oracle.LogLost })
}

// hashPlan tells plans apart; it is empty for none.
func hashPlan(plan []Planned) string {
	if len(plan) == 0 {
		return ""
	}
	h := fnv.New64a()
	_, _ = fmt.Fprint(h, plan)
	return fmt.Sprintf("%x", h.Sum64())
}

// matching leaves out of a plan what the options do not name.
func (o Options) matching(plan []Planned) (selected []Planned) {
	for _, p := range plan {
		p.Faults = slices.DeleteFunc(slices.Clone(p.Faults), func(name string) bool { return !o.named(name) })
		if len(p.Faults) > 0 {
			selected = append(selected, p)
		}
	}
	return selected
}

// named reports whether faults of a name are to be injected.
func (o Options) named(name string) bool { return o.Only == nil || o.Only.MatchString(name) }

// one returns the world's fault of a name, or of two, and why it cannot be injected.
func (r *round) one(name string) (world.Fault, error) {
	if first, second, two := strings.Cut(name, together); two {
		f, err := r.one(first)
		g, also := r.one(second)
		return f.With(g), errors.Join(err, also)
	}
	for _, f := range r.world.Faults() {
		switch {
		case f.Name != name:
		case f.Cost > r.options.Longest:
			return f, fmt.Errorf("up to %s, and no fault may take longer than %s", f.Cost, r.options.Longest)
		default:
			return f, f.Available()
		}
	}
	return world.Fault{}, fmt.Errorf("there is no fault %q", name)
}

// catalogue has all faults of a broker by their names, or those of both.
func catalogue(broker string) map[string]world.Fault {
	faults := map[string]world.Fault{}
	for _, f := range world.Catalogue(broker, true, true) {
		faults[f.Name] = f
	}
	return faults
}

// names lists faults for a person.
func names(faults []world.Fault) string {
	var all []string
	for _, f := range faults {
		all = append(all, f.Name)
	}
	return strings.Join(all, separator)
}

const separator = "; "

// Known is a violation that the bridge is known to commit. It is counted and printed, and fails no campaign.
type Known struct {
	// Name says which one it is: a number in the list of breaches, or a few words.
	Name string
	// Kind is the promise, or what else is violated.
	Kind string
	// Fault, Stream and What match the name of a fault of the round, the stream, and what is said. A nil one matches
	// all.
	Fault, Stream, What *regexp.Regexp
}

// KnownViolations are those of the present bridge. An entry that does not occur in the plan and the fixed seeds of CI
// fails CI: then it is mended, and goes.
func KnownViolations() []Known { return nil }

func (k Known) matches(kind, stream, what string, faults []string) bool {
	matches := func(r *regexp.Regexp, s string) bool { return r == nil || r.MatchString(s) }
	if k.Kind != kind || !matches(k.Stream, stream) || !matches(k.What, what) {
		return false
	}
	return k.Fault == nil || slices.ContainsFunc(faults, k.Fault.MatchString)
}
