// SPDX-License-Identifier: Apache-2.0

package health

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestHealth_tells_what_fails_and_for_how_long(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := New()
		h.Set("configmaps.v1", errors.New("refused"))
		time.Sleep(time.Minute)
		h.Set("configmaps.v1", errors.New("forbidden"))
		h.Set("log", errors.New("no servers"))
		problems, longest := h.Now()
		assert.Equal(t, map[string]string{"configmaps.v1": "forbidden", "log": "no servers"}, problems)
		assert.Equal(t, time.Minute, longest)
		h.Set("configmaps.v1", nil)
		h.Set("log", nil)
		problems, longest = h.Now()
		assert.Empty(t, problems)
		assert.Zero(t, longest)
	})
}
