// SPDX-License-Identifier: Apache-2.0

package tail

import "testing"

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
		if got := Describe(event(t, c.op, `{"metadata":{}}`, c.with), unknown, 4); got != c.want {
			t.Errorf("%s: got %q, want %q", c.op, got, c.want)
		}
	}
	// What follows a state without its object cannot be compared with it.
	before := event(t, Added, `{"metadata":{}}`, small)
	if got := Describe(event(t, Updated, `{"metadata":{},"spec":{}}`, nil), func() *Event { return before }, 4); got != "" {
		t.Errorf("got %q", got)
	}
}
