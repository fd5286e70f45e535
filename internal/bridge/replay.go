// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"fmt"
	"strings"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	"github.com/kube-eventbridge/kube-eventbridge/source"
)

// A stream that was rewound watches from an older version, and publishes what it is shown again, up to where it was. The ledger goes back with the log: an object's first
// replayed state may be older than its row, which says that it may (Row.Again); those that follow are news then. So where the history breaks off in between, a list
// finds that the log's last state of an object is an old one, and tells the present one again.

// replayed marks a change that was published before the stream was rewound; the caller holds mu.
func (s *stream) replayed(c *source.Change) {
	if s.saved.Replay.To == "" || after(c.ResourceVersion, s.saved.Replay.To) {
		return
	}
	c.IDSuffix += replaySuffix(s.saved.Replay)
	if c.Reason == source.ReasonWatch {
		c.Reason = source.ReasonResync
	}
}

func replaySuffix(r checkpoint.Replay) string { return fmt.Sprintf(".r%d", r.Number) }

// goesBack reports whether a change is to be published although the log has it, or newer ones, of its object. What a list shows never is. The caller
// holds mu.
func (s *stream) goesBack(row checkpoint.Row, c *source.Change) bool {
	shown := !c.Listed || c.Reason == source.ReasonRecovered
	return row.Again && shown && s.saved.Replay.To != "" && !after(c.ResourceVersion, s.saved.Replay.To)
}

// replaying reports whether the ledger may lack what existed at the position: a tombstone that was passed before the stream was rewound.
func (s *stream) replaying() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.saved.Replay.To != ""
}

// reach extends a replay to what the log turned out to have had before it, and reports whether it did: by the same ids nothing can be told again.
func reach(saved *checkpoint.Stream, rows map[string]checkpoint.Row) (extended bool) {
	if saved.Replay.To == "" {
		return false
	}
	for _, row := range rows {
		if row.Again && !row.Superseded && after(row.ResourceVersion, saved.Replay.To) {
			saved.Replay.To, extended = row.ResourceVersion, true
		}
	}
	return extended
}

// before reports whether the event with an id was published before the replay that a stream is in, if it is in one.
func before(saved *checkpoint.Stream, id string) bool {
	return saved.Replay.To != "" && !strings.Contains(id+".", replaySuffix(saved.Replay)+".")
}
