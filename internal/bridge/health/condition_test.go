// SPDX-License-Identifier: Apache-2.0

package health

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestCondition_has_news(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c Condition
		full, gone := errors.New("full"), errors.New("gone")
		began := time.Now()
		for _, step := range []struct {
			after time.Duration
			err   error
			want  News
			since time.Duration
		}{
			{0, nil, Nothing, 0},
			{time.Second, full, Begins, time.Second},
			{9 * time.Second, full, Nothing, time.Second},
			{time.Second, full, Lasts, time.Second},
			{2 * time.Second, gone, Nothing, time.Second}, // another reason, and too soon
			{time.Second, gone, Lasts, time.Second},
			{9 * time.Second, gone, Nothing, time.Second},
			{time.Second, gone, Lasts, time.Second},
			{time.Second, nil, Ends, time.Second},
			{time.Second, nil, Nothing, 0},
			{time.Second, gone, Begins, 27 * time.Second},
		} {
			<-time.After(step.after)
			n, since := c.Observe(step.err, Intervals{Same: 10 * time.Second, Other: 3 * time.Second})
			assert.Equal(t, step.want, n, "after %v", time.Since(began))
			if step.since > 0 {
				assert.Equal(t, step.since, since.Sub(began), "after %v", time.Since(began))
			} else {
				assert.Zero(t, since)
			}
			since, err := c.Problem()
			assert.Equal(t, step.err, err)
			assert.Equal(t, err == nil, since.IsZero())
		}
	})
}
