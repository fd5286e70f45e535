// SPDX-License-Identifier: Apache-2.0

package recovery

import (
	"fmt"
	"slices"

	"github.com/kube-eventbridge/kube-eventbridge/encode"
	"github.com/kube-eventbridge/kube-eventbridge/sink"
)

// CompetingError says that the log has an event of another pipeline under a key that the pipeline would publish under.
// Sequences of two pipelines do not compare, so no consumer could tell which event is the newer one.
type CompetingError struct {
	Pipeline, Other string
	// Object is the event's, Message its place in the log.
	Object  string
	Message uint64
}

// Error implements error.
func (e *CompetingError) Error() string {
	return fmt.Sprintf(
		"message %d of the log is an event of %s by pipeline %s, and pipeline %s would publish under the same key: "+
			"name another stream or topic, or set {pipeline} in the subject; or call this pipeline %s, if it takes the place "+
			"of that one",
		e.Message, e.Object, e.Other, e.Pipeline, e.Other)
}

// Permanent implements what [checkpoint.IsPermanent] asks for.
func (*CompetingError) Permanent() bool { return true }

// tail is how many of the last messages of a partition are looked at for another pipeline's.
const tail = 1000

// compete returns a [CompetingError] if another pipeline's event at the end of the log has a key that this pipeline
// publishes under. A pipeline that knows the log may have taken a resource over from one that is not there any more.
// One of the same file has handed it over, or the file would have been refused.
func (r *recovery) compete(m *sink.Stored, st *encode.State) error {
	resource, ok := encode.ResourceOf(st.Source, r.Identity.Cluster)
	if !ok || st.Name == "" || r.has() || m.Sequence+tail <= r.Ends[m.Partition] ||
		slices.Contains(r.Siblings, st.Pipeline) {
		return nil
	}
	resource.Kind, resource.Namespaced = st.Kind, st.Namespace != ""
	for _, spec := range r.Specs {
		at, may := spec.MayHaveRead(resource, st.Namespace)
		if !may || !spec.MayMean(resource, r.Offers()) {
			continue
		}
		if m.Subject == "" || m.Subject == spec.Encoder(at).Subject(st.Namespace, st.Name) {
			return &CompetingError{
				Pipeline: r.Pipeline, Other: st.Pipeline, Object: resource.String() + " " + st.Key(),
				Message: m.Sequence,
			}
		}
	}
	return nil
}
