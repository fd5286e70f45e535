// SPDX-License-Identifier: Apache-2.0

package replicas

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/kube-eventbridge/kube-eventbridge/internal/sequence"
)

var (
	judged = key{configMaps, "shop", "a"}
	noon   = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
)

// state is an object of the target; one without a version is not the replica's.
func state(uid string, version uint64) *object {
	o := &object{}
	o.Metadata.UID = uid
	if version > 0 {
		o.Metadata.Labels = map[string]string{label: replicaName}
		o.Metadata.Annotations = map[string]string{
			origin: there.originOf(judged), uidNote: "source-uid", seqNote: sequence.Sequence{Epoch: 1, Version: version}.String(),
		}
	}
	return o
}

// made is a change by the replicator, some seconds after noon.
func made(before, after *object, second int, uid string) change {
	return change{key: judged, before: before, after: after, by: replicator, request: &request{
		StageTimestamp: noon.Add(time.Duration(second) * time.Second),
		RequestObject:  fmt.Appendf(nil, `{"preconditions":{"uid":%q}}`, uid),
	}}
}

func TestJudge_tells_what_each_promise_forbids(t *testing.T) {
	redactedOne := state("u", 7)
	redactedOne.raw = `{"spec":{"password":"[redacted]"}}`
	gone := entry{Sequence: sequence.Sequence{Epoch: 1, Version: 8}, op: "deleted", uid: "source-uid", recorded: noon}
	again := entry{Sequence: sequence.Sequence{Epoch: 1, Version: 9}, op: "added", uid: "another", recorded: noon}
	another := made(state("v", 7), nil, 2, "v")
	another.key.name = "b"
	another.before.Metadata.Annotations[origin] = there.originOf(another.key)
	unknown := made(state("u", 0), nil, 1, "")
	unknown.by = ""
	back := again
	back.recorded = noon.Add(1500 * time.Millisecond)
	for name, test := range map[string]struct {
		changes  []change
		log      []entry
		promises []string
	}{
		"a create, a change and a delete": {[]change{
			made(nil, state("u", 6), 1, ""), made(state("u", 6), state("u", 7), 2, ""), made(state("u", 7), nil, 3, "u"),
		}, []entry{gone}, nil},
		"somebody else's":              {[]change{unknown}, nil, nil},
		"a create without a label":     {[]change{made(nil, state("u", 0), 1, "")}, nil, []string{"R3"}},
		"a change of another's object": {[]change{made(state("u", 0), state("u", 7), 1, "")}, nil, []string{"R3"}},
		"a change that goes back":      {[]change{made(state("u", 7), state("u", 6), 1, "")}, nil, []string{"R2"}},
		"a redacted value":             {[]change{made(nil, redactedOne, 1, "")}, nil, []string{"R6"}},
		"a delete without its uid":     {[]change{made(state("u", 7), nil, 1, "")}, []entry{gone}, []string{"R3"}},
		"a delete of another's object": {[]change{made(state("u", 0), nil, 1, "u")}, []entry{gone}, []string{"R3"}},
		"a delete without an end":      {[]change{made(state("u", 7), nil, 1, "u")}, nil, []string{"R4"}},
		"a delete before its end":      {[]change{made(state("u", 7), nil, -1, "u")}, []entry{gone}, []string{"R4"}},
		"a delete of what was made anew": {
			[]change{made(state("u", 7), nil, 1, "u")}, []entry{again}, nil,
		},
		"a second delete above the limit": {
			[]change{made(state("u", 7), nil, 1, "u"), another}, []entry{gone}, []string{"R4"},
		},
		"a second delete after the first one came back in the source": {
			[]change{made(state("u", 7), nil, 1, "u"), another}, []entry{gone, back}, nil,
		},
		"a write out of a copy": {[]change{made(nil, state("u", 7), 1, "")}, []entry{
			{Sequence: sequence.Sequence{Epoch: 1, Version: 7}, op: "added", uid: "source-uid", copied: true},
		}, []string{"R7"}},
		"a write while it is held": {[]change{made(nil, state("u", 7), 60, "")}, nil, []string{"R4"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := &world{direction: there, limit: 1, holds: []hold{{noon.Add(time.Minute - time.Second), noon.Add(2 * time.Minute)}}}
			var res Result
			log := map[key][]entry{judged: test.log, another.key: {gone}}
			w.judge(test.changes, log, &res)
			var promises []string
			for p := range res.Violations {
				promises = append(promises, p)
			}
			assert.Equal(t, test.promises, promises, res.Told)
		})
	}
}
