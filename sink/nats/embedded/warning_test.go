// SPDX-License-Identifier: Apache-2.0

package embedded

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestLogger_keeps_warnings_of_what_may_be_lost(t *testing.T) {
	for text, level := range map[string]string{
		"Filestore [A B] Stream state outdated, last block has additional entries, will rebuild": "INFO",
		"Filestore [A] Stream state outdated, found extra blocks, will rebuild":                  "INFO",
		"Filestore [A] Recovering stream state from index errored: prior state file":             "DEBUG",
		"Filestore [A] Recovering stream state from index errored: corrupt state file":           "WARN",
		"Filestore [A] Stream state detected prior state, could not locate msg block 3":          "WARN",
		"Filestore [A] Stream state checksum did not match":                                      "WARN",
	} {
		var log strings.Builder
		(&logger{log: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))}).Warnf("%s", text)
		require.Contains(t, log.String(), "level="+level, "%s: %s", text, &log)
		assert.Equal(t, 1, strings.Count(log.String(), "\n"), "%s: %s", text, &log)
	}
}
