// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kube-eventbridge/kube-eventbridge/source/kube/kubetest"
)

func TestBackoff_does_not_wait_for_ever_because_it_is_asked_to(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		var b Backoff
		err := refused(&http.Response{
			StatusCode: http.StatusTooManyRequests, Header: http.Header{"Retry-After": {"99999999999"}}, Body: http.NoBody,
		}, kubetest.ConfigMaps.GroupResource())
		require.NoError(t, b.Wait(t.Context(), err))
		assert.Equal(t, longestAsked, time.Since(begin), "waited")
	})
}
