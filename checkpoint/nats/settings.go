// SPDX-License-Identifier: Apache-2.0

package nats

import (
	"fmt"
	"slices"
	"strings"

	"github.com/nats-io/nats.go/jetstream"
)

// rules are what a stream must not have if checkpoints are to be kept in it.
var rules = []struct {
	broken          func(*jetstream.StreamConfig) bool
	problem, advice string
}{
	{
		func(c *jetstream.StreamConfig) bool { return c.Storage != jetstream.FileStorage },
		"it is kept in memory: a restart of the server empties it", another,
	},
	{
		func(c *jetstream.StreamConfig) bool { return c.MaxAge > 0 },
		"its values expire (a TTL, or max age): what does not change for that long is forgotten",
		"let it keep them: nats stream edit STREAM --max-age 0s",
	},
	{
		func(c *jetstream.StreamConfig) bool {
			return c.Discard == jetstream.DiscardOld && (c.MaxMsgs > 0 || c.MaxBytes > 0)
		},
		"it discards what is oldest when it is full, whether it holds or not",
		"let it refuse instead: nats stream edit STREAM --discard new",
	},
	{
		func(c *jetstream.StreamConfig) bool { return c.Retention != jetstream.LimitsPolicy },
		"its retention is not limits: what was read is removed", another,
	},
	{
		func(c *jetstream.StreamConfig) bool { return c.Mirror != nil }, "it is a mirror, which takes no messages of clients",
		another,
	},
	{func(c *jetstream.StreamConfig) bool { return c.Sealed }, "it is sealed", another},
	{
		func(c *jetstream.StreamConfig) bool { return c.DenyPurge },
		"it does not let anything be purged, and so it grows without an end", another,
	},
	{
		func(c *jetstream.StreamConfig) bool { return c.NoAck }, "it does not acknowledge (no_ack)",
		"let it: nats stream edit STREAM --ack",
	},
	{
		func(c *jetstream.StreamConfig) bool { return c.PersistMode == jetstream.AsyncPersistMode },
		"it acknowledges before it has written (persist mode async)", another,
	},
	{func(c *jetstream.StreamConfig) bool { return c.AllowMsgCounter }, "it is a stream of counters", another},
	{
		func(c *jetstream.StreamConfig) bool { return c.SubjectTransform != nil },
		"it renames subjects, so that nothing is found again", "remove its subject transform",
	},
}

const another = "it cannot be changed: name another bucket, which is made with what it needs"

// unfit returns why checkpoints must not be kept in the bucket that c is the stream of.
func unfit(bucket string, c *jetstream.StreamConfig) error {
	for _, rule := range rules {
		if rule.broken(c) {
			return &SettingsError{
				Bucket: bucket, Problem: rule.problem,
				Advice: strings.ReplaceAll(rule.advice, "STREAM", c.Name),
			}
		}
	}
	if !slices.Contains(c.Subjects, "$KV."+bucket+".>") {
		return &SettingsError{
			Bucket: bucket, Problem: "stream " + c.Name + " is no bucket: it has not the subjects of one",
			Advice: "name another bucket",
		}
	}
	return nil
}

// old returns why a server of a version cannot have checkpoints: it would not know what to check, and refuse every
// commit.
func old(bucket, version string) error {
	var major, minor int
	if n, _ := fmt.Sscanf(version, "%d.%d", &major, &minor); n < 2 || major > 2 || major == 2 && minor >= 11 {
		return nil
	}
	return &SettingsError{Bucket: bucket, Problem: "its server has version " + version, Advice: "run NATS 2.11 or newer"}
}
