// SPDX-License-Identifier: Apache-2.0

package source

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestBackoff_does_not_wait_for_ever_because_it_is_asked_to(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		var b backoff
		err := refused(&http.Response{
			StatusCode: http.StatusTooManyRequests, Header: http.Header{"Retry-After": {"99999999999"}}, Body: http.NoBody,
		}, configMaps.GroupResource())
		require.NoError(t, b.wait(t.Context(), err))
		assert.Equal(t, longestAsked, time.Since(begin), "waited")
	})
}
