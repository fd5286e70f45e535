// SPDX-License-Identifier: Apache-2.0

package replica

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/kube-eventbridge/kube-eventbridge/source"
)

func TestRewind_ends_the_readings_of_all_other_resources(t *testing.T) {
	targets := newTargets(nil, nil, nil)
	noticed, cancelNoticed := context.WithCancelCause(t.Context())
	other, cancelOther := context.WithCancelCause(t.Context())
	defer cancelNoticed(nil)
	defer cancelOther(nil)
	targets.reads(&resource{number: 1}, cancelNoticed)
	targets.reads(&resource{number: 2}, cancelOther)
	err := &source.RewoundError{Stream: "configmaps.v1", Position: "687", Server: "633"}
	targets.rewind(&resource{number: 1}, err)
	assert.NoError(t, noticed.Err())
	assert.Equal(t, err, context.Cause(other))
}
