// SPDX-License-Identifier: Apache-2.0

package campaign

import (
	"cmp"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kube-eventbridge/kube-eventbridge/integration/controlplane"
	"github.com/kube-eventbridge/kube-eventbridge/integration/faults/world"
	"github.com/kube-eventbridge/kube-eventbridge/integration/internal/rig"
	"github.com/kube-eventbridge/kube-eventbridge/integration/kafkabroker"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
)

// change is a place of a file of the bridge, which has the old text once.
type change struct{ File, Old, New string }

// apply makes the change in the file's text, and in what was made of it before.
func (c change) apply(t *testing.T, files map[string]string) {
	t.Helper()
	if files[c.File] == "" {
		root := must.Get(controlplane.Root())(t)
		text := must.Get(os.ReadFile(filepath.Join(root, c.File)))(t)
		files[c.File] = string(text)
	}
	require.Equal(t, 1, strings.Count(files[c.File], c.Old), "%s has %q that often", c.File, c.Old)
	files[c.File] = strings.Replace(files[c.File], c.Old, c.New, 1)
}

// broken is a bridge that was broken on purpose, and how the campaign finds it.
type broken struct {
	changes []change
	world   Planned
	broker  string
	// latest says that the round has a stream in which changes are folded.
	latest bool
	// kind is the violation that is expected, and what has to be said of it. An objection to the campaign has no kind.
	kind, what string
}

const (
	handsFull = "leader asleep with its hands full, and what it had sent arrives late"
	arrives   = "killed, and what it had sent arrives late"
	killed    = "killed at random"
	restarted = "API server killed and restarted"
	away      = "API server restarted while the bridge is away"
	replaced  = "another stream in the place of the second pipeline's log"
)

var brokenBridges = map[string]broken{
	"a needless gap after a kill": {
		changes: []change{{
			File: "internal/bridge/open.go", Old: "	s.incidents = p.incidents.Stream(name)\n",
			New: `	s.incidents = p.incidents.Stream(name)
	if saved.Position != "" {
		s.again <- source.Why{Cause: source.CauseExpired, Message: "too old resource version: 1 (2)"}
	}
`,
		}},
		world: Planned{Faults: []string{killed}},
		kind:  "P6", what: "no fault may cause it",
	},
	"a history that is never read back": {
		changes: []change{{
			File: "source/recover.go", Old: "	if w.recovery.Reads <= 0 ||", New: "	if true ||",
		}},
		world: Planned{Faults: []string{away, away}},
		what:  "states that were not read back",
	},
	"a gap from version 0": {
		changes: []change{{
			File: "internal/bridge/list.go", Old: "	if err := s.announce(m).wait(ctx); err != nil {\n",
			New: `	if gap {
		m.From = "0"
	}
	if err := s.announce(m).wait(ctx); err != nil {
`,
		}},
		world: Planned{Faults: []string{restarted, restarted, restarted}}, // a gap needs a stream that is behind
		kind:  "P6", what: "it begins at version 0",
	},
	"a hang after the broker returns": {
		changes: []change{{
			File: "sink/retry.go", Old: "	return pause.For(ctx, d) == nil\n",
			New: `	if d > r.policy.Initial {
		<-ctx.Done()
	}
	return pause.For(ctx, d) == nil
`,
		}},
		world: Planned{Faults: []string{"broker stopped for seconds"}},
		kind:  unsettled, what: `after "broker stopped for seconds": canary-1 is not in the log`,
	},
	"a wrong sampledrate": {
		changes: []change{{
			File: "encode/event.go",
			Old:  `as.add("sampledrate", int32s(c.Count))`, New: `as.add("sampledrate", int32s(c.Count-1))`,
		}},
		world:  Planned{Faults: []string{"broker stopped for seconds"}},
		latest: true,
		kind:   "P3", what: "it stands for",
	},
	"a deletion with an older version": {
		changes: []change{{
			File: "internal/bridge/stream.go",
			Old:  "		d.UID, d.ResourceVersion = row.UID, row.ResourceVersion\n",
			New: `		d.UID, d.ResourceVersion = row.UID, row.ResourceVersion
		if v, known := older.Load(o.key + row.UID); known {
			d.ResourceVersion = v.(string)
		}
`,
		}, {
			File: "internal/bridge/stream.go", Old: "	s.ledger.Put(key, apply(known, exists, next))\n",
			New: `	if exists && known.UID == next.UID && known.ResourceVersion != next.ResourceVersion {
		older.Store(key+next.UID, known.ResourceVersion)
	}
	s.ledger.Put(key, apply(known, exists, next))
`,
		}, {
			File: "internal/bridge/stream.go",
			Old:  "// drop ends a change's life", New: "var older sync.Map\n\n// drop ends a change's life",
		}},
		world:  Planned{Faults: []string{"etcd restored without a version bump", "etcd restored with a version bump"}},
		latest: true,
		kind:   "P4", what: "a deletion that was found missing",
	},
	"an entry that is removed without a deletion": {
		changes: []change{{
			File: "internal/bridge/retire_stream.go", Old: "	n := s.deleteAll(reason)\n", New: "	n := 0\n	_ = reason\n",
		}},
		world: Planned{Faults: []string{"an entry removed and added"}},
		kind:  "P2", what: "is not in the log, and no gap covers it",
	},
	"an entry under another pipeline": {
		changes: []change{{
			File: "encode/event.go", Old: `	as.add("pipeline", e.cfg.Pipeline)`, New: `	as.add("pipeline", e.cfg.Pipeline+"-2")`,
		}},
		world: Planned{Faults: []string{killed}},
		kind:  "P4", what: "it is of the pipeline",
	},
	"a body with a missing member": {
		changes: []change{{
			File: "encode/scan.go", Old: `		case o.is("creationTimestamp"):`,
			New: `		case o.is("labels"):
			o.drop(skip(b, o.value), &w.cuts)
		case o.is("creationTimestamp"):`,
		}},
		world: Planned{Faults: []string{killed}},
		kind:  "P4", what: "its content is not that of the state",
	},
	"no fence on NATS with leaders": {
		changes: []change{{
			File: "internal/bridge/worker.go",
			Old:  "fenced := !s.session.cfg.Unfenced || s.session.cfg.Term != nil", New: "fenced := false",
		}},
		world: Planned{Replicas: 2, Checkpoint: world.CheckpointNATS, Faults: []string{handsFull}},
		kind:  "P5", what: "the same state a second time",
	},
	"no fence on NATS": {
		changes: []change{{
			File: "internal/bridge/worker.go",
			Old:  "fenced := !s.session.cfg.Unfenced || s.session.cfg.Term != nil", New: "fenced := false",
		}},
		world: Planned{Faults: []string{arrives}},
		kind:  "P5", what: "the same state a second time",
	},
	"no fence on Kafka with leaders": {
		changes: []change{{
			File: "sink/kafka/fence.go",
			Old:  "s.client.InitProducer(ctx, s.cfg.transactionalID(), nil)", New: `s.client.InitProducer(ctx, "", nil)`,
		}},
		world:  Planned{Replicas: 2, Checkpoint: world.CheckpointKafka, Faults: []string{handsFull}},
		broker: world.Kafka,
		kind:   "P5", what: "has published it, behind leader",
	},
	"a pipeline that ends the others": {
		changes: []change{{
			File: "cmd/kube-eventbridge/fleetended.go", Old: "		ended = append(ended, m)\n", New: "		return m.err\n",
		}},
		world: Planned{Second: true, Faults: []string{replaced}},
		kind:  ended, what: "SECOND",
	},
}

// Bridges that were broken on purpose are found, each for what it does. Who judges the judge, judges with these. What a
// leader has in hand when it falls asleep is up to the machine, so that a bridge without a fence has a second chance.
func TestCampaign_finds_broken_bridges(t *testing.T) {
	controlplane.BinariesForTest(t)
	t.Parallel()
	for name, c := range brokenBridges {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if c.broker == world.Kafka {
				kafkabroker.InstallForTest(t)
			}
			build := rig.Build{Version: "broken", Commit: "broken", Replace: map[string]string{}}
			for _, change := range c.changes {
				change.apply(t, build.Replace)
			}
			binary := must.Get(build.Program(t.Context(), os.Stderr))(t)
			c.world.Checkpoint = cmp.Or(c.world.Checkpoint, world.CheckpointFile)
			o := Options{Binary: binary, Broker: c.broker, Plan: []Planned{c.world}, Seed: seedWhere(c.latest)}
			said := regexp.MustCompile(regexp.QuoteMeta(c.kind) + "(?s:.*)" + regexp.QuoteMeta(c.what))
			found := func() bool {
				s, results := playAll(t, o)
				told := s.Objections(o)
				for _, r := range results {
					told = append(told, r.Told...)
				}
				return slices.ContainsFunc(told, said.MatchString)
			}
			asleep := slices.Contains(c.world.Faults, handsFull)
			assert.True(t, found() || asleep && found(), "no violation of %s says %q", c.kind, c.what)
		})
	}
}

// seedWhere returns the seed of a campaign whose first round has, or has not, a stream in which changes are folded.
func seedWhere(latest bool) (seed uint64) {
	for seed = 1; ; seed++ {
		if s := newSubject(newRandom(seedOf(seed, 0))); len(s.latest) > 0 == latest {
			return seed
		}
	}
}
