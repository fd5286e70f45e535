// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"fmt"
	"time"

	"github.com/kube-eventbridge/kube-eventbridge/encode"
	"github.com/kube-eventbridge/kube-eventbridge/sink"
)

// lateFor is how long after its start a session may meet messages that the process before had under way.
const lateFor = time.Minute

// WriterError says that another process publishes as a pipeline.
type WriterError struct {
	Pipeline string
	// Object is one of which the other process has published an event, ID the event's.
	Object, ID string
}

// Error implements error.
func (e *WriterError) Error() string {
	return fmt.Sprintf("another kube-eventbridge publishes as pipeline %s: the log has event %s of %s, which this "+
		"process has not published",
		e.Pipeline, e.ID, e.Object)
}

// meetWriter takes note of another process if that has published what the log was seen to have last of an object.
func (p *session) meetWriter(o *object, has *encode.State, last *sink.Stored) {
	if !p.foreign(o, has, last) {
		return
	}
	err := &WriterError{Pipeline: p.name, Object: o.stream.name + " " + o.key, ID: has.ID}
	p.cfg.Metrics.Pipeline(p.name).Foreign.Inc()
	p.incidents.OtherWriter(err)
	p.sayingWriter.Do(func() {
		p.log.Warn("stop one of the two, or give both one checkpoint and set leaderElection", "err", err)
	})
}

// foreign reports whether another process must have published what the log was seen to have last of an object. With a
// lease that is a leader before. Else it is so if the epoch is not one of this pipeline's. If it is, an event of this
// process can be there that is not known: one of the process before, one that was late, or one that was published
// again.
func (p *session) foreign(o *object, has *encode.State, last *sink.Stored) bool {
	a := &o.attempt
	switch {
	case p.cfg.Term != nil:
		return false
	case has.Sequence.Epoch > p.epochs.Last():
		return true
	case o.stream.spec.Latest || a.delta.Again != 0 || a.message == nil || last.ID == a.message.ID:
		return false
	default:
		return time.Since(p.began) > lateFor && a.message.Previous != 0 && last.Sequence > a.message.Previous
	}
}
