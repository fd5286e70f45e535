// SPDX-License-Identifier: Apache-2.0

package embedded

import (
	"fmt"
	"regexp"
)

// The server warns twice where its index of a stream is older than the stream, as after a crash of the process. It
// makes the index anew of the messages and loses none, so the first is told in other words and the second, which
// follows a cause of its own in any case, not at all.
var (
	outdated = regexp.MustCompile(`^Filestore \[(.*)\] Stream state outdated, .*will rebuild$`)
	followed = regexp.MustCompile(`^Filestore \[.*\] Recovering stream state from index errored: prior state file$`)
)

// Warnf implements [server.Logger].
func (l *logger) Warnf(format string, v ...any) {
	text := fmt.Sprintf(format, v...)
	if stream := outdated.FindStringSubmatch(text); stream != nil {
		l.log.Info("the embedded NATS server has not been stopped in order: it reads all messages once to find where each is",
			"stream", stream[1])
		return
	}
	if followed.MatchString(text) {
		l.log.Debug("embedded NATS server", "text", text)
		return
	}
	l.log.Warn("embedded NATS server", "text", text)
}
