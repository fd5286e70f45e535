// SPDX-License-Identifier: Apache-2.0

package delivery

import (
	"fmt"
	"time"

	"golang.org/x/time/rate"

	"github.com/kube-eventbridge/kube-eventbridge/encode"
	"github.com/kube-eventbridge/kube-eventbridge/sink"
)

// LateFor is how long after its start a session may meet messages that the process before had under way.
const LateFor = time.Minute

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

// writers are the other processes that publish as the pipeline.
type writers struct {
	config *Config
	began  time.Time
	// saying limits how often it is said that there is one.
	saying rate.Sometimes
}

// meet takes note of another process if that has published what the log was seen to have last of an object.
func (w *writers) meet(o *Object, has *encode.State, last *sink.Stored) {
	if !w.foreign(o, has, last) {
		return
	}
	err := &WriterError{Pipeline: w.config.Pipeline, Object: o.Stream.Account().Name + " " + o.Key, ID: has.ID}
	w.config.Metrics.Foreign.Inc()
	w.config.Incidents.OtherWriter(err)
	w.saying.Do(func() {
		w.config.Log.Warn("stop one of the two, or give both one checkpoint and set leaderElection", "err", err)
	})
}

// foreign reports whether another process must have published what the log was seen to have last of an object. With a
// lease that is a leader before. Else it is so if the epoch is not one of this pipeline's. If it is, an event of this
// process can be there that is not known: one of the process before, one that was late, or one that was published
// again.
func (w *writers) foreign(o *Object, has *encode.State, last *sink.Stored) bool {
	a := &o.Attempt
	switch {
	case w.config.Leased:
		return false
	case has.Sequence.Epoch > w.config.Epochs.Last():
		return true
	case o.Stream.Account().Latest || a.Delta.Again != 0 || a.Message == nil || last.ID == a.Message.ID:
		return false
	default:
		return time.Since(w.began) > LateFor && a.Message.Previous != 0 && last.Sequence > a.Message.Previous
	}
}

// overtakenError says that a writer of a later term has published: this one leads no more.
type overtakenError struct {
	object    string
	term, own int64
}

func (e *overtakenError) Error() string {
	return fmt.Sprintf("the log has an event of %s by the writer of term %d, and this is the one of term %d", e.object,
		e.term, e.own)
}

// Taken implements what [checkpoint.IsTaken] asks for.
func (*overtakenError) Taken() bool { return true }

// Permanent implements what [checkpoint.IsPermanent] asks for.
func (*overtakenError) Permanent() bool { return true }
