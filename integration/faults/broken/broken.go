// SPDX-License-Identifier: Apache-2.0

// Package broken has bridges that are broken on purpose. The campaign has to find each one: they judge the judge.
package broken

import (
	"github.com/kube-eventbridge/kube-eventbridge/integration/faults/world"
	"github.com/kube-eventbridge/kube-eventbridge/integration/internal/edit"
)

// Bridge is a bridge that is broken on purpose, and how the campaign finds it.
type Bridge struct {
	Changes []edit.Change
	// Replicas, Checkpoint and Second are as in a planned round, and Faults are its faults.
	Replicas   int
	Checkpoint string
	Second     bool
	Faults     []string
	Broker     string
	// Latest says that the round has a stream in which changes are folded.
	Latest bool
	// Twice says that it gets a second chance: what a leader has in hand when it falls asleep is up to the machine.
	Twice bool
	// Kind is the violation that is expected, and What has to be said of it. An objection to the campaign has no kind.
	Kind, What string
}

const (
	handsFull = "leader asleep with its hands full, and what it had sent arrives late"
	arrives   = "killed, and what it had sent arrives late"
	killed    = "killed at random"
	restarted = "API server killed and restarted"
	away      = "API server restarted while the bridge is away"
	replaced  = "another stream in the place of the second pipeline's log"
)

// Bridges returns the bridges that are broken on purpose, by what is wrong with them.
func Bridges() map[string]Bridge {
	return map[string]Bridge{
		"a needless gap after a kill": {
			Changes: []edit.Change{{
				File: "internal/bridge/stream/opening.go", Old: "	s.Epochs.resume()\n",
				New: `	s.Epochs.resume()
	if o.Saved.Position != "" {
		s.Epochs.Again <- source.Why{Cause: source.CauseExpired, Message: "too old resource version: 1 (2)"}
	}
`,
			}},
			Faults: []string{killed},
			Kind:   "P6", What: "no fault may cause it",
		},
		"a history that is never read back": {
			Changes: []edit.Change{{
				File: "source/reader/recover.go", Old: "	if w.recovery.Reads <= 0 ||", New: "	if true ||",
			}},
			Faults: []string{away, away},
			What:   "states that were not read back",
		},
		"a gap from version 0": {
			Changes: []edit.Change{{
				File: "internal/bridge/stream/markers.go", Old: "	if err := s.announce(m).Wait(ctx); err != nil {\n",
				New: `	if gap {
		m.From = "0"
	}
	if err := s.announce(m).Wait(ctx); err != nil {
`,
			}},
			Faults: []string{restarted, restarted, restarted}, // a gap needs a stream that is behind
			Kind:   "P6", What: "it begins at version 0",
		},
		"a hang after the broker returns": {
			Changes: []edit.Change{{
				File: "sink/retry.go", Old: "	return pause.For(ctx, d) == nil\n",
				New: `	if d > r.policy.Initial {
		<-ctx.Done()
	}
	return pause.For(ctx, d) == nil
`,
			}},
			Faults: []string{"broker stopped for seconds"},
			Kind:   "unsettled", What: `after "broker stopped for seconds": the log lacks canary-1`,
		},
		"a wrong sampledrate": {
			Changes: []edit.Change{{
				File: "encode/event.go",
				Old:  `as.add("sampledrate", int32s(c.Count))`, New: `as.add("sampledrate", int32s(c.Count-1))`,
			}},
			Faults: []string{"broker stopped for seconds"},
			Latest: true,
			Kind:   "P3", What: "it stands for",
		},
		"a deletion with an older version": {
			Changes: []edit.Change{{
				File: "internal/bridge/stream/novelty.go",
				Old:  "		d.UID, d.ResourceVersion = row.UID, row.ResourceVersion\n",
				New: `		d.UID, d.ResourceVersion = row.UID, row.ResourceVersion
		if v, known := older.Load(o.Key + row.UID); known {
			d.ResourceVersion = v.(string)
		}
`,
			}, {
				File: "internal/bridge/stream/state.go", Old: "	s.Ledger.Put(key, ledger.Apply(known, exists, next))\n",
				New: `	if exists && known.UID == next.UID && known.ResourceVersion != next.ResourceVersion {
		older.Store(key+next.UID, known.ResourceVersion)
	}
	s.Ledger.Put(key, ledger.Apply(known, exists, next))
`,
			}, {
				File: "internal/bridge/stream/state.go",
				Old:  "// remember moves the ledger", New: "var older sync.Map\n\n// remember moves the ledger",
			}},
			Faults: []string{"etcd restored without a version bump", "etcd restored with a version bump"},
			Latest: true,
			Kind:   "P4", What: "a deletion that was found missing",
		},
		"an entry that is removed without a deletion": {
			Changes: []edit.Change{{
				File: "internal/bridge/retire_stream.go", Old: "	n := s.Lists.DeleteAll(reason)\n", New: "	n := 0\n	_ = reason\n",
			}},
			Faults: []string{"an entry removed and added"},
			Kind:   "P2", What: "is not in the log, and no gap covers it",
		},
		"an entry under another pipeline": {
			Changes: []edit.Change{{
				File: "encode/event.go", Old: `	as.add("pipeline", e.cfg.Pipeline)`,
				New: `	as.add("pipeline", e.cfg.Pipeline+"-2")`,
			}},
			Faults: []string{killed},
			Kind:   "P4", What: "it is of the pipeline",
		},
		"a body with a missing member": {
			Changes: []edit.Change{{
				File: "encode/scan.go", Old: `		case o.Is("creationTimestamp"):`,
				New: `		case o.Is("labels"):
			o.Drop(jsonscan.Skip(b, o.Value), &w.edits.Cuts)
		case o.Is("creationTimestamp"):`,
			}},
			Faults: []string{killed},
			Kind:   "P4", What: "its content is not that of the state",
		},
		"no fence on NATS with leaders": {
			Changes: []edit.Change{{
				File: "internal/bridge/stream/publication.go",
				Old:  "m.Verify, m.Previous = s.Env.Checks ||", New: "m.Verify, m.Previous = false ||",
			}},
			Replicas: 2, Checkpoint: world.CheckpointNATS, Faults: []string{handsFull}, Twice: true,
			Kind: "P5", What: "the same state a second time",
		},
		"no fence on NATS": {
			Changes: []edit.Change{{
				File: "internal/bridge/stream/publication.go",
				Old:  "m.Verify, m.Previous = s.Env.Checks ||", New: "m.Verify, m.Previous = false ||",
			}},
			Faults: []string{arrives},
			Kind:   "P5", What: "the same state a second time",
		},
		"no fence on Kafka with leaders": {
			Changes: []edit.Change{{
				File: "sink/kafka/writer.go",
				Old:  "w.client.InitProducer(ctx, w.cfg.transactionalID(), nil)", New: `w.client.InitProducer(ctx, "", nil)`,
			}},
			Replicas: 2, Checkpoint: world.CheckpointKafka, Faults: []string{handsFull}, Twice: true,
			Broker: world.Kafka,
			Kind:   "P5", What: "has published it, behind leader",
		},
		"a pipeline that ends the others": {
			Changes: []edit.Change{{
				File: "internal/app/fleetended.go", Old: "		ended = append(ended, m)\n", New: "		return m.err\n",
			}},
			Second: true, Faults: []string{replaced},
			Kind: "bridge ended", What: "SECOND",
		},
	}
}
