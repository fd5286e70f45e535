// SPDX-License-Identifier: Apache-2.0

package app

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/kube-eventbridge/kube-eventbridge/internal/replica"
)

func TestBehind_says_what_keeps_a_replica_from_its_log(t *testing.T) {
	refused := map[string]string{"configmaps.v1/shop": "forbidden", "secrets.v1/shop": "also"}
	for want, s := range map[string]replica.Status{
		"":                                     {CaughtUp: true, Failing: time.Second, Problems: refused, Lag: time.Second},
		"it reads the log up to its end first": {},
		"configmaps.v1/shop: forbidden":        {CaughtUp: true, Failing: time.Hour, Problems: refused, Lag: time.Hour},
		"it is 1h0m0s behind the log":          {CaughtUp: true, Lag: time.Hour},
		"deletes are held; see: kube-eventbridge replicate resume": {CaughtUp: true, HeldDeletes: true, Lag: time.Hour},
	} {
		assert.Equal(t, want, behind(s, true))
	}
	assert.Equal(t, "it does not run: no such user", behind(replica.Status{Problems: map[string]string{"start": "no such user"}}, false))
}
