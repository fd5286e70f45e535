// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/kube-eventbridge/kube-eventbridge/internal/pause"
	"github.com/kube-eventbridge/kube-eventbridge/source"
)

// What a name means may be known only after a wildcard has opened the stream of it, as with an API server that does not serve all from the start. The wildcard's stream then
// ends, and the name's goes on from there.

// yieldLook is between two looks at whether a wildcard's stream has ended.
const yieldLook = 50 * time.Millisecond

// yieldError says that a wildcard's stream, which was asked to end, has the objects.
type yieldError struct{ err error }

// Error implements error.
func (e *yieldError) Error() string { return e.err.Error() }

// holdsAgainst returns why a stream of spec cannot be open beside s, and has s end where it yields.
func (s *stream) holdsAgainst(spec *StreamSpec, name string) error {
	err := fmt.Errorf("resources %s and %s have objects in common (streams %s and %s), "+
		"and an object belongs to one stream of a pipeline: remove one, or give them different namespaces",
		s.spec.Resource, spec.Resource, s.name, name)
	if s.spec.Wildcard == nil || spec.Wildcard != nil {
		return &SpecError{err}
	}
	select {
	case s.yield <- struct{}{}:
	default: // it is asked already
	}
	return &yieldError{err}
}

// yielded is why a wildcard leaves out what it has read.
func yielded(s *stream) error {
	return &SpecError{fmt.Errorf("stream %s yields to an entry that names its resource", s.name)}
}

// begin opens the stream of a resource, in the version in which it is read, once no wildcard's has the objects. The error is ctx's, permanent, errDropped, or a [SpecError].
func (p *session) begin(ctx context.Context, spec *StreamSpec, r source.Resource) (*stream, error) {
	for {
		at, err := p.versioned(ctx, spec, r)
		if err != nil {
			return nil, err
		}
		s, err := p.open(spec, at)
		var yields *yieldError
		if !errors.As(err, &yields) {
			return s, err
		}
		if spec.dropped() {
			return nil, errDropped
		}
		if err := pause.For(ctx, yieldLook); err != nil {
			return nil, err
		}
	}
}
