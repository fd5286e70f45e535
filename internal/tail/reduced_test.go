// SPDX-License-Identifier: Apache-2.0

package tail

import (
	"github.com/stretchr/testify/assert"
	"testing"
)

func TestDescribe_says_what_was_too_large_for_the_log(t *testing.T) {
	small := map[string]string{"payload": "metadata", "datasize": "1400123"}
	kept := map[string]string{"payload": "metadata", "datasize": "3000000", "dataref": "nats-obj:KUBERNETES-objects/h.u1.7\x1b"}
	for _, c := range []struct {
		op   Op
		with map[string]string
		want string
	}{
		{Added, small, "created by kubectl, too large for the log: 1400123 bytes"},
		{Updated, small, "too large for the log: 1400123 bytes"},
		{Updated, kept, `too large for the log: 3000000 bytes are in nats-obj:KUBERNETES-objects/h.u1.7\x1b`},
		{Deleted, small, "too large for the log: 1400123 bytes"},
	} {
		assert.Equal(t, c.want, Describe(event(t, c.op, `{"metadata":{}}`, c.with), unknown, 4), "%s", c.op)
	}
	// What follows a state without its object cannot be compared with it.
	before := event(t, Added, `{"metadata":{}}`, small)
	assert.Empty(t, Describe(event(t, Updated, `{"metadata":{},"spec":{}}`, nil), func() *Event { return before }, 4))
}
