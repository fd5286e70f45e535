// SPDX-License-Identifier: Apache-2.0

package sequence

import "time"

// NextEpoch returns a new number. Given is the greatest number that the checkpoint knows, seen the greatest one in
// the log. The number is committed before an event carries it.
func NextEpoch(given, seen uint64, now time.Time) uint64 {
	return max(given+1, seen+1, uint64(max(now.Unix(), 0)))
}

// Partition is what a start finds of one partition of the log. Offsets are those of the messages; the first message
// of a log has the offset 1.
type Partition struct {
	// Mark bounds what the checkpoint takes into account: every message of the pipeline up to it. Zero is none.
	Mark uint64
	// First and Last are the offsets that the log has now. Without messages First is Last+1.
	First, Last uint64
	// Changed: the log has another message at Mark than the one that was acknowledged.
	Changed bool
}

// Found is what a start finds.
type Found struct {
	// Checkpoint: there is one, and it knows the log.
	Checkpoint bool
	// OtherLog: the log was recreated under its name.
	OtherLog   bool
	Partitions []Partition
	// Given is the greatest number that the checkpoint has given, Seen the greatest one that the log has behind the
	// marks.
	Given, Seen uint64
}

// Start is how a pipeline starts.
type Start uint8

// The ways to start.
const (
	// Resume: the checkpoint's positions and rows hold, brought up to date with what the log has behind the marks.
	Resume Start = iota
	// CheckpointLost: no position holds. The rows are read from the whole log, in addition to those of an old
	// checkpoint. Each stream takes a number of the second case.
	CheckpointLost
	// LogLost: each stream takes a number of the first case, and publishes everything between resync markers.
	LogLost
)

// Decide returns how to start.
func (f *Found) Decide() Start {
	if f.Checkpoint && f.lostLog() {
		return LogLost
	}
	if !f.Checkpoint || f.Seen > f.Given || f.incomplete() {
		return CheckpointLost
	}
	return Resume
}

func (f *Found) lostLog() bool {
	for _, p := range f.Partitions {
		if p.Mark > p.Last || p.Changed {
			return true
		}
	}
	return f.OtherLog
}

// incomplete reports whether the log has removed messages behind a mark.
func (f *Found) incomplete() bool {
	for _, p := range f.Partitions {
		if p.Mark+1 < p.First {
			return true
		}
	}
	return false
}

// Trimmed reports whether the log may lack the last event of an object. After a lost checkpoint a resync with markers
// follows then.
func (f *Found) Trimmed() bool {
	for _, p := range f.Partitions {
		if p.First > 1 {
			return true
		}
	}
	return false
}
