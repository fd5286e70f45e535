// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"context"
	"strings"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	"github.com/kube-eventbridge/kube-eventbridge/internal/pause"
	"github.com/kube-eventbridge/kube-eventbridge/source"
)

// peekEvery is how often the leader's checkpoint is looked at: as often as it commits.
const peekEvery = commitEvery

// StandBy has holds record, until ctx ends, what is newer than the positions that another process has committed of a pipeline with these streams. A checkpoint that
// cannot be read is tried again for ever, less and less often; meanwhile what is recorded stays. Told is called with why it cannot be read, each time, and with nil when it can.
func StandBy(ctx context.Context, specs []StreamSpec, peek checkpoint.Peeker, holds *source.Holds, told func(error)) {
	delay := peekEvery
	for {
		streams, err := peek.Peek(ctx)
		if ctx.Err() != nil {
			return
		}
		told(err)
		if err == nil {
			holds.Keep(positions(specs, streams))
			delay = peekEvery
		} else {
			delay = min(2*delay, maxCommitDelay)
		}
		if pause.For(ctx, delay) != nil {
			return
		}
	}
}

// positions returns from where those streams of a checkpoint are read on that one of specs reads. Others stay in a checkpoint where they are: what is recorded behind them would be given back by nobody. The
// names of streams do not tell their selectors, which are those of the first spec that has made such a stream.
func positions(specs []StreamSpec, streams map[string]checkpoint.Stream) map[source.Stream]source.From {
	at := map[source.Stream]source.From{}
	for name, saved := range streams {
		s, ok := source.ParseName(name)
		if !ok || saved.Kind == "" || saved.Position == "" {
			continue
		}
		s.Kind, s.Namespaced = saved.Kind, saved.Namespaced
		for i := range specs {
			s.LabelSelector, s.FieldSelector = specs[i].LabelSelector, specs[i].FieldSelector
			if s.Scope() == saved.Fingerprint && specs[i].covers(s, saved.Called) {
				at[s] = source.From{Version: saved.Position, History: saved.History}
				break
			}
		}
	}
	return at
}

// covers reports whether a spec reads a stream of a checkpoint that calls its resource as said, as far as can be told without the API server.
func (spec *StreamSpec) covers(at source.Stream, called string) bool {
	if spec.NamespaceSelector != nil && at.Namespace == "" || spec.NamespaceSelector == nil && at.Namespace != spec.Namespace {
		return false
	}
	if spec.Wildcard == nil {
		return means(spec.Resource, at.Resource) || called != "" && called == spec.Resource
	}
	served := &source.Served{Group: at.Group, Resource: at.Resource.Resource, Versions: []source.Resource{at.Resource}, Names: []string{strings.ToLower(at.Kind)}}
	return spec.Wildcard.names(served)
}
