// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"testing"
	"time"

	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge"
	"github.com/kube-eventbridge/kube-eventbridge/internal/resync"
	"github.com/stretchr/testify/assert"
)

func TestResync_tells_how_far_it_is_from_time_to_time_and_what_became_of_it_at_once(t *testing.T) {
	var out bytes.Buffer
	tell := resyncTeller{to: &out, told: map[string]string{}}
	at := time.Unix(1_764_000_000, 0)
	pods := resync.Stream{Pipeline: "p", Stream: "pods.v1", State: bridge.ResyncQueued, Objects: 900}
	nodes := resync.Stream{Pipeline: "p", Stream: "nodes.v1", State: bridge.ResyncRefused, Problem: "it is listing"}
	for second := range 8 {
		pods.Listed, pods.Published = second*200, second*199
		switch second {
		case 1:
			pods.State = bridge.ResyncRunning
		case 7:
			pods.State, pods.Published = bridge.ResyncDone, 1
		}
		tell.tell([]resync.Stream{pods, nodes, {Pipeline: "p", Stream: "*.example.com", State: bridge.ResyncEmpty}}, at.Add(time.Duration(second)*time.Second))
	}
	const want = `pipeline p: pods.v1: asked for
pipeline p: nodes.v1: refused: it is listing
pipeline p: *.example.com: nothing to do, it selects nothing now
pipeline p: pods.v1: 1000 of 1000 objects, 995 published again
pipeline p: pods.v1: done, 1 object published again
`
	assert.Equal(t, want, out.String(), "it says\n%s", &out)
}

func TestResync_ends_with_an_error_where_something_is_not_published_again(t *testing.T) {
	done, queued := resync.Stream{State: bridge.ResyncDone}, resync.Stream{State: bridge.ResyncQueued}
	for want, all := range map[string][]resync.Stream{
		"": {done, queued, {State: bridge.ResyncEmpty}},
		"1 of 2 streams not published again; ask for that when /readyz of the bridge answers ok": {done, {State: bridge.ResyncRefused}},
		"1 of 1 stream not published again; ask for that when /readyz of the bridge answers ok":  {{State: bridge.ResyncFailed}},
	} {
		got := ""
		if err := resyncProblem(all); err != nil {
			got = err.Error()
		}
		assert.Equal(t, want, got, "%+v", all)
	}
}
