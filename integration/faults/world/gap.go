// SPDX-License-Identifier: Apache-2.0

package world

import "github.com/kube-eventbridge/kube-eventbridge/integration/faults/oracle"

// MayGap is a gap that a fault may cause.
type MayGap struct {
	Cause oracle.Cause
	// Custom says that only streams of custom resources may have it.
	Custom bool
}

var (
	// An API server that starts has an empty watch cache.
	cacheLost = []MayGap{{Cause: oracle.Expired}}
	// The API server drops the watch cache of a custom resource whose definition changes.
	redefined = []MayGap{{Cause: oracle.Expired, Custom: true}}
	// A resource that is deleted and made again is not served meanwhile.
	recreated = append([]MayGap{{Cause: oracle.ResourceGone, Custom: true}}, redefined...)
	// A stream goes back to an older position, which may have expired, or begins again.
	logLost = []MayGap{{Cause: oracle.LogLost}, {Cause: oracle.Expired}}
	// A broker's older store may have the log and the checkpoint: then that is older than what arrives late.
	rewound = append([]MayGap{{Cause: oracle.CheckpointLost}}, logLost...)
	// The selection changes. A version that was not read before has a watch cache of its own.
	reselected = []MayGap{{Cause: oracle.Selection}}
	reversed   = []MayGap{{Cause: oracle.Expired, Custom: true}}
	// What the log has is known again, and nothing else.
	forgotten = []MayGap{{Cause: oracle.CheckpointLost}}
	// The API server is restarted too, and a version bump marks the older versions as compacted. An audit may be the
	// first to find it. The bridge cannot tell a custom resource from one of an API server of its own.
	restored = []MayGap{
		{Cause: oracle.Restored}, {Cause: oracle.Rebuilt, Custom: true}, {Cause: oracle.Audit}, {Cause: oracle.Expired},
	}
)

// mayGap are the faults that may cause gaps, by name. The bridge has to get over all others without one.
var mayGap = map[string][]MayGap{
	"API server killed and restarted": cacheLost,
	"API server stopped gracefully":   cacheLost,
	"API server killed at a takeover": cacheLost,
	"watch expires in mid-stream":     cacheLost,
	"killed during a relist":          cacheLost,

	"API server restarted while the bridge is away": cacheLost,

	"etcd compacted and API server restarted while the bridge is away": cacheLost,
	"etcd compacted and API server restarted under open watches":       cacheLost,
	"etcd compacted and API server restarted at a takeover":            cacheLost,

	"etcd restored without a version bump": restored,
	"etcd restored with a version bump":    restored,
	"etcd restored at a takeover":          restored,

	"a CRD's spec changed":                                       redefined,
	"a CRD deleted and created again":                            recreated,
	"log deleted while the bridge runs":                          logLost,
	"log deleted while the bridge is away":                       logLost,
	"namespaces narrowed and widened":                            reselected,
	"namespaces widened and narrowed":                            reselected,
	"selectors dropped, namespaces widened, and both taken back": reselected,
	"a selector dropped and given back":                          reselected,
	"a selector turned round and back":                           reselected,
	"an entry removed and added":                                 reselected,
	"an entry of namespaces removed and added":                   reselected,
	"an entry added and removed":                                 reselected,
	"an entry pinned to another version and back":                reversed,
	"a Namespace's label removed and restored":                   reselected,
	"the checkpoint lost":                                        forgotten,

	"broker restarted from an older copy of its store": rewound,
}
