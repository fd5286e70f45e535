// SPDX-License-Identifier: Apache-2.0

package sharing

const (
	// recentEvents and recentBytes bound what is kept of what followers have been handed, so that one that comes from a
	// watch of its own finds its place.
	recentEvents, recentBytes = 128, 128 << 10
)

// recent is the end of what a watch has brought: everything after start is in events, oldest first, or yet to come.
type recent struct {
	watches *Watches
	start   uint64
	events  []event
	bytes   int64
}

// add adds an event.
func (r *recent) add(e event) {
	e.body.Retain()
	r.events = append(r.events, e)
	r.bytes += e.size()
	r.watches.held.Add(e.size())
	switch {
	case r.watches.held.Load() > r.watches.hold.Load():
		r.trim(0, 0)
	case len(r.events) > recentEvents || r.bytes > recentBytes:
		r.trim(recentEvents/2, recentBytes/2) // by half, so that it is seldom
	}
}

// trim forgets what is too old, or too much.
func (r *recent) trim(events int, bytes int64) {
	drop := 0
	for ; drop < len(r.events) && (len(r.events)-drop > events || r.bytes > bytes); drop++ {
		e := &r.events[drop]
		r.start = max(r.start, e.version)
		r.bytes -= e.size()
		r.watches.held.Add(-e.size())
		e.body.Release()
	}
	n := copy(r.events, r.events[drop:])
	clear(r.events[n:])
	r.events = r.events[:n]
}
