// SPDX-License-Identifier: Apache-2.0

package world

import "strings"

// GapReason is a class of reasons that the bridge gives for a gap.
type GapReason string

// The reasons for which a fault may cause a gap.
const (
	// Expired: the API server's watch cache does not reach back to the stream's position.
	Expired GapReason = "expired (410)"
	// HistoryGone: expired, and etcd was compacted, so that the history cannot be read back either.
	HistoryGone GapReason = "expired (410), history gone"
	LogLost     GapReason = "log lost"
	Restored    GapReason = "etcd restored"
	// Unexplained is one that no fault can have.
	Unexplained GapReason = "other"
)

// ClassOf returns the class of a gap's cause, by how that begins. What follows the API server's word says what was read
// back.
func ClassOf(cause string) GapReason {
	says := func(part string) bool { return strings.Contains(cause, part) }
	switch {
	case strings.HasPrefix(cause, "stream ") && says("its etcd was restored"):
		return Restored
	case strings.HasPrefix(cause, "the log has lost "):
		return LogLost
	case !strings.HasPrefix(cause, "too old resource version: ") &&
		!strings.HasPrefix(cause, "The resourceVersion for the provided "):
		return Unexplained
	case says("provided list is too old"), says("the history after the last version is gone"):
		return HistoryGone
	default:
		return Expired
	}
}

// MayGap is a gap that a fault may cause.
type MayGap struct {
	Reason GapReason
	// Custom says that only streams of custom resources may have it.
	Custom bool
}

var (
	// An API server that starts has an empty watch cache.
	cacheLost = []MayGap{{Reason: Expired}}
	compacted = []MayGap{{Reason: Expired}, {Reason: HistoryGone}}
	// The API server drops the watch cache of a custom resource whose definition changes.
	redefined = []MayGap{{Reason: Expired, Custom: true}}
	// A stream goes back to an older position, which may have expired, or begins again.
	logLost = []MayGap{{Reason: LogLost}, {Reason: Expired}}
	// The API server is restarted too, and a version bump marks the older versions as compacted.
	restored = []MayGap{{Reason: Restored}, {Reason: Expired}, {Reason: HistoryGone}}
)

// mayGap are the faults that may cause gaps, by name. The bridge has to get over all others without one.
var mayGap = map[string][]MayGap{
	"API server killed and restarted": cacheLost,
	"API server stopped gracefully":   cacheLost,
	"API server killed at a takeover": cacheLost,
	"watch expires in mid-stream":     cacheLost,
	"killed during a relist":          cacheLost,

	"API server restarted while the bridge is away": cacheLost,

	"etcd compacted and API server restarted while the bridge is away": compacted,
	"etcd compacted and API server restarted under open watches":       compacted,
	"etcd compacted and API server restarted at a takeover":            compacted,

	"etcd restored without a version bump": restored,
	"etcd restored with a version bump":    restored,
	"etcd restored at a takeover":          restored,

	"a CRD's spec changed":                             redefined,
	"a CRD deleted and created again":                  redefined,
	"log deleted while the bridge runs":                logLost,
	"log deleted while the bridge is away":             logLost,
	"broker restarted from an older copy of its store": logLost,
}
