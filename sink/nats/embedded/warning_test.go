// SPDX-License-Identifier: Apache-2.0

package embedded

import (
	"log/slog"
	"strings"
	"testing"
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
		if !strings.Contains(log.String(), "level="+level) || strings.Count(log.String(), "\n") != 1 {
			t.Errorf("%s: %s", text, &log)
		}
	}
}
