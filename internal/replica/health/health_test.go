// SPDX-License-Identifier: Apache-2.0

package health

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestHealth_tells_what_fails_and_since_when(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := New()
		h.Set("configmaps.v1", errors.New("refused"))
		time.Sleep(time.Minute) //nolint:forbidigo // it is the time of a bubble
		h.Set("configmaps.v1", errors.New("forbidden"))
		h.Set("log", errors.New("no servers"))
		now := h.Now()
		assert.Len(t, now, 2)
		assert.EqualError(t, now["configmaps.v1"].Err, "forbidden")
		assert.Equal(t, time.Minute, time.Since(now["configmaps.v1"].Since))
		assert.EqualError(t, now["log"].Err, "no servers")
		assert.Zero(t, time.Since(now["log"].Since))
		h.Set("configmaps.v1", nil)
		h.Set("log", nil)
		assert.Empty(t, h.Now())
	})
}
