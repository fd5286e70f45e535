// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge/membership"
	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge/watching"
	"github.com/kube-eventbridge/kube-eventbridge/source"
	"github.com/kube-eventbridge/kube-eventbridge/source/catalog"
)

// absences are what is known of stored resources that are not served.
type absences struct {
	// gone are those that certainly do not exist any more.
	gone map[schema.GroupResource]struct{}
	// asking: somebody asks about the others. If not, they are asked about when next has come; doubt is how long after
	// the time before.
	asking bool
	next   time.Time
	doubt  time.Duration
}

// among returns the resources that are gone. What is served exists again.
func (a *absences) among(served *catalog.Offers) (all []schema.GroupResource) {
	for r := range a.gone {
		if served.Get(r.Group, r.Resource) != nil {
			delete(a.gone, r)
			continue
		}
		all = append(all, r)
	}
	return all
}

// askGone asks in the background, less and less often, whether stored resources that are not served are gone. It
// returns when to look again.
func (r *reconciler) askGone(ctx context.Context, in *inputs, now time.Time) time.Duration {
	a, lost := &r.gone, map[schema.GroupResource]source.Resource{}
	for i := range in.stored {
		is := in.stored[i].Resource
		name := schema.GroupResource{Group: is.Group, Resource: is.Resource}
		if _, gone := a.gone[name]; !gone && in.served != nil && in.served.Get(is.Group, is.Resource) == nil {
			lost[name] = is
		}
	}
	switch {
	case a.asking:
		return watching.LongestDoubt
	case len(lost) == 0:
		a.doubt = 0
		return watching.LongestDoubt
	case a.doubt > 0 && now.Before(a.next):
		return a.next.Sub(now)
	}
	a.asking, a.doubt = true, max(watching.FirstDoubt, watching.Longer(a.doubt))
	r.group.Go(func() error {
		var gone []schema.GroupResource
		for name, is := range lost {
			if r.cfg.Catalog.Gone(ctx, is) {
				gone = append(gone, name)
			}
		}
		r.tell(ctx, func() {
			a.asking, a.next = false, time.Now().Add(a.doubt)
			for _, name := range gone {
				a.gone[name] = struct{}{}
			}
		})
		return nil
	})
	return watching.LongestDoubt
}

// askUnserved has the API server asked for what entries name and it does not serve: its definition may be yet to come.
// It returns when to look again.
func (r *reconciler) askUnserved(in *inputs, problems []membership.Problem, now time.Time) time.Duration {
	if !in.Known {
		return watching.FirstDoubt // to tell why there is no answer
	}
	missing := false
	for _, p := range problems {
		missing = missing || p.Kind == membership.NotServed || p.Kind == membership.OtherVersion
	}
	switch {
	case !missing:
		r.unserved = time.Time{}
		return watching.LongestDoubt
	case r.unserved.IsZero():
		r.unserved, r.asks = now, now
	case !now.Before(r.asks):
		r.cfg.Catalog.Refresh()
	default:
		return r.asks.Sub(now)
	}
	r.asks = now.Add(askAgain(now.Sub(r.unserved)))
	return r.asks.Sub(now)
}

// askAgain returns the time between two questions for a resource that has been absent for a time. What stays away is
// asked for less and less often, and is there for a tenth of that time at most before that is seen, or for half a
// minute.
func askAgain(absent time.Duration) time.Duration {
	return min(max(absent/10, watching.FirstDoubt), 30*time.Second)
}
