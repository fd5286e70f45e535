// SPDX-License-Identifier: Apache-2.0

package cmdutil

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestParseMoment(t *testing.T) {
	zone := time.FixedZone("east", 2*60*60)
	now := time.Date(2026, 3, 1, 10, 30, 0, 0, zone)
	for text, want := range map[string]string{
		"now":                       "2026-03-01T10:30:00+02:00",
		"today":                     "2026-03-01T00:00:00+02:00",
		"yesterday":                 "2026-02-28T00:00:00+02:00",
		"7d":                        "2026-02-22T10:30:00+02:00",
		"90m":                       "2026-03-01T09:00:00+02:00",
		"2026-11-17":                "2026-11-17T00:00:00+02:00",
		"2026-11-17 15:04":          "2026-11-17T15:04:00+02:00",
		"2026-11-17 15:04:05":       "2026-11-17T15:04:05+02:00",
		"2026-11-17T15:04":          "2026-11-17T15:04:00+02:00",
		"2026-11-17T15:04:05Z":      "2026-11-17T15:04:05Z",
		"2026-11-17T15:04:05-07:00": "2026-11-17T15:04:05-07:00",
	} {
		got, err := ParseMoment(text, now)
		assert.NoError(t, err, text)
		assert.Equal(t, want, got.Format(time.RFC3339), text)
	}
	for _, text := range []string{"", "tomorrow", "-10m", "2026-13-01", "17.11.2026", "15:04", "1795875250"} {
		_, err := ParseMoment(text, now)
		assert.ErrorContains(t, err, "is not a time; write one such as 2026-11-17", text)
	}
}
