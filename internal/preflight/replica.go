// SPDX-License-Identifier: Apache-2.0

package preflight

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/kube-eventbridge/kube-eventbridge/internal/config"
	"github.com/kube-eventbridge/kube-eventbridge/internal/event"
	"github.com/kube-eventbridge/kube-eventbridge/internal/replica/selection"
	"github.com/kube-eventbridge/kube-eventbridge/internal/replica/write"
	"github.com/kube-eventbridge/kube-eventbridge/internal/wiring"
	"github.com/kube-eventbridge/kube-eventbridge/source/kube"
)

// newestEvents is how many of the log's newest events are looked at for a replica.
const newestEvents = 500

// mostCompared is how many of their objects are looked for in the cluster that is written to. Some may have gone since.
const mostCompared = 20

// checkWrites asks whether a replica may do what it does with the objects of its resources.
func (c *checkup) checkWrites(ctx context.Context, client *kube.Client, path string, r *config.Replica) {
	for i := range r.Resources {
		at := fmt.Sprintf("%s.resources[%d]", path, i)
		all, err := wiring.WriteAccess(r, &r.Resources[i])
		if err != nil {
			add(&c.Problems, at+".resource", "%v", err)
			continue
		}
		c.checkAllowed(ctx, client, &c.Problems, at, all)
	}
}

// checkReplica looks at the newest events of a replica's log: whether they are of its cluster and pipeline, and whether
// they have whole objects.
func (c *checkup) checkReplica(ctx context.Context, path string, r *config.Replica) {
	ctx, cancel := context.WithTimeout(ctx, wiring.AskFor)
	defer cancel()
	log, err := wiring.OpenLog(wiring.ReplicaLog(r), wiring.Reading{})
	if err != nil {
		add(&c.Unreached, path+".from", "the log cannot be asked: %v", err)
		return
	}
	defer log.Close()
	seen := newSeenLog(r)
	err = log.Read(ctx, event.Reading{
		Span:   event.Span{Start: event.Start{Last: newestEvents}},
		Each:   func(context.Context, event.Message) error { return nil },
		Counts: seen.take, Replaced: func() {},
	})
	switch {
	case ctx.Err() != nil:
		add(&c.Unreached, path+".from", "the log does not answer within %v", wiring.AskFor)
		return
	case err != nil:
		add(&c.Problems, path+".from", "%v", err)
		return
	}
	c.Problems = append(c.Problems, seen.problems(path)...)
	if seen.matching == 0 && len(seen.others) == 0 {
		add(&c.Warnings, path+".from", "the log has no event yet")
	}
	c.checkOwnSource(ctx, path+".from.cluster", r, seen)
}

// checkOwnSource compares the cluster that a replica writes to with the one that its log is of: names can be wrong, and
// uids cannot. No event has the uid of its cluster, but each has that of its object.
func (c *checkup) checkOwnSource(ctx context.Context, path string, r *config.Replica, seen *seenLog) {
	stays := r.Stays()
	if len(stays) == 0 || c.uid == "" {
		return
	}
	what := "it has the uid that the log names it by"
	if r.From.Cluster != c.uid {
		found, err := firstOf(ctx, c.api, seen.objects)
		switch {
		case err != nil:
			add(&c.Unreached, path, "the API server does not say whether it has the objects of the log: %v", err)
			return
		case found == nil:
			return
		}
		what = fmt.Sprintf("it has %s %s with the uid that the log tells", found.Resource, found.Attr("subject"))
	}
	add(&c.Problems, path, "the log is of the cluster that is written to (%s), and %s stays where it is; name the "+
		"cluster that is to be written to with kubernetes.kubeconfig and kubernetes.context: %s", what,
		strings.Join(stays, ", "), config.StaysAdvice)
}

// firstOf returns the first of some events whose object, and not a copy of it, an API server has; nil if there is none.
func firstOf(ctx context.Context, api *rest.Config, all []*event.Event) (*event.Event, error) {
	target, err := write.New(api)
	if err != nil {
		return nil, err
	}
	for _, e := range all {
		a, err := target.Get(ctx, write.Object{
			Resource:  schema.GroupVersionResource{Group: e.Group, Version: e.Version, Resource: e.Resource},
			Namespace: e.Attr("namespace"), Name: e.Attr("name"),
		})
		switch {
		case err != nil:
			return nil, err
		case a.Outcome == write.Done && string(a.UID) == e.Attr("objectuid"):
			return e, nil
		}
	}
	return nil, nil
}

// seenLog is what the newest events of a log tell.
type seenLog struct {
	replica *config.Replica
	// matching counts the events of the replica's cluster and pipeline; others has the names of other ones.
	matching int
	others   map[string]struct{}
	// whole counts events with a whole object, by resource, and reduced has why others have none.
	whole   map[string]int
	reduced map[string]string
	// patches has, by resource, why patches are of no use.
	patches map[string]string
	// objects are events of objects that exist.
	objects []*event.Event
}

func newSeenLog(r *config.Replica) *seenLog {
	return &seenLog{
		replica: r, others: make(map[string]struct{}), whole: make(map[string]int), reduced: make(map[string]string),
		patches: make(map[string]string),
	}
}

// take looks at a message, and reports whether it is of the replica's cluster and pipeline.
func (s *seenLog) take(m event.Message) bool {
	e, err := event.Decode(m)
	if err != nil || e.Op.Marker() || e.Attr("name") == "" {
		return false
	}
	cluster, pipeline := e.Attr("clustername"), e.Attr("pipeline")
	if cluster != s.replica.From.Cluster || pipeline != s.replica.From.Pipeline {
		s.others[fmt.Sprintf("cluster %s, pipeline %s", cluster, pipeline)] = struct{}{}
		return false
	}
	s.matching++
	if e.Op != event.Deleted && len(s.objects) < mostCompared {
		s.objects = append(s.objects, e)
	}
	if why := s.patched(e); why != "" {
		s.patches[e.Resource] = why
	}
	if lack := selection.Lacks(e); lack != "" {
		s.reduced[e.Resource] = lack
	} else if e.Op != event.Deleted {
		s.whole[e.Resource]++
	}
	return true
}

// patched returns why an event is a patch that cannot be put together with the event before it; empty where it is none,
// or can. A stream of NATS is asked for that event. Of a topic of Kafka it is known only while the patch is being read.
func (s *seenLog) patched(e *event.Event) string {
	switch payload := e.Attr("payload"); {
	case payload == "json-patch":
		return "has the pipeline publish json-patches, which are not put together; write payload: object there"
	case payload == "merge-patch" && s.replica.From.Kafka != nil:
		return "has the pipeline publish merge-patches, which are not put together from Kafka; write payload: object " +
			"there, or publish to NATS"
	}
	return ""
}

func (s *seenLog) problems(path string) (all config.Problems) {
	if s.matching == 0 && len(s.others) > 0 {
		add(&all, path+".from", "the log has no event of cluster %s and pipeline %s; it has those of %s",
			s.replica.From.Cluster, s.replica.From.Pipeline, strings.Join(slices.Sorted(maps.Keys(s.others)), "; "))
	}
	for i := range s.replica.Resources {
		plural := s.replica.Resources[i].Resource.Plural
		if why := s.patches[plural]; why != "" {
			add(&all, fmt.Sprintf("%s.resources[%d].resource", path, i), "the entry of %s %s", plural, why)
		}
		if lack := s.reduced[plural]; lack != "" && s.whole[plural] == 0 {
			add(&all, fmt.Sprintf("%s.resources[%d].resource", path, i),
				"the log's newest events of %s have no whole object: %s; only whole objects can be written", plural, lack)
		}
	}
	return all
}
