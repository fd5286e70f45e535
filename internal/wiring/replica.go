// SPDX-License-Identifier: Apache-2.0

package wiring

import (
	"cmp"
	"fmt"
	"log/slog"
	"strings"

	typed "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"

	"github.com/kube-eventbridge/kube-eventbridge/encode/jsonscan"
	"github.com/kube-eventbridge/kube-eventbridge/internal/builtin"
	"github.com/kube-eventbridge/kube-eventbridge/internal/config"
	"github.com/kube-eventbridge/kube-eventbridge/internal/config/value"
	"github.com/kube-eventbridge/kube-eventbridge/internal/event"
	"github.com/kube-eventbridge/kube-eventbridge/internal/exit"
	"github.com/kube-eventbridge/kube-eventbridge/internal/replica"
	"github.com/kube-eventbridge/kube-eventbridge/internal/replica/clean"
	"github.com/kube-eventbridge/kube-eventbridge/internal/replica/guard"
	"github.com/kube-eventbridge/kube-eventbridge/internal/replica/plan"
	"github.com/kube-eventbridge/kube-eventbridge/internal/replica/released"
	"github.com/kube-eventbridge/kube-eventbridge/internal/replica/selection"
)

// Replica returns what a configuration says of a replica, which writes to the cluster of api.
func Replica(cfg *config.Config, c *config.Replica, api *rest.Config, log *slog.Logger) (replica.Config, error) {
	log = log.With("replica", c.Name)
	limit := guard.Limit{Count: c.Deletes.Limit.Number}
	if c.Deletes.Limit.Percent {
		limit = guard.Limit{Percent: c.Deletes.Limit.Number}
	}
	entries, err := replicaEntries(c)
	if err != nil {
		return replica.Config{}, exit.Usagef("replica %s: %w", c.Name, err)
	}
	var own func(*event.Event) bool
	if c.From.NATS != nil {
		own = hasOwnSubject
	}
	state, err := replicaState(cfg, c, api)
	if err != nil {
		return replica.Config{}, err
	}
	return replica.Config{
		Name: c.Name, Cluster: c.From.Cluster, Pipeline: c.From.Pipeline,
		OpenLog:       func(perObject bool) (replica.Log, error) { return openReplicaLog(c, perObject, log) },
		HasOwnSubject: own,
		Target:        api, State: state, Entries: entries,
		Config: plan.Config{
			Existing: plan.Existing(c.Existing), Deletes: c.Deletes.Enabled,
			DeleteDeselected: c.Deletes.Deselected == config.DeselectedDelete,
		},
		Force: c.Conflicts == config.ConflictsForce, Limit: limit, MinAge: c.Deletes.MinAge,
		Follow: c.OnEpoch == config.OnEpochFollow, Recreate: c.Immutable == config.ImmutableRecreate, Logger: log,
	}, nil
}

func replicaEntries(c *config.Replica) (entries []selection.Entry, err error) {
	owned := map[config.Owned]clean.Owned{
		config.OwnedSkip: clean.Skip, config.OwnedDrop: clean.Drop, config.OwnedRemap: clean.Remap,
	}
	var selected []string
	for i := range c.Resources {
		if len(c.Resources[i].Namespaces) == 0 {
			selected = nil
			break
		}
		selected = append(selected, c.Resources[i].Namespaces...)
	}
	for i := range c.Resources {
		r := &c.Resources[i]
		rules := clean.Config{
			Replica: c.Name, Cluster: c.From.Cluster, Namespaces: c.Into.Namespaces, Selected: selected,
			Labels: c.Into.Labels, Annotations: c.Into.Annotations, Status: c.Status, Owned: owned[c.Owned],
		}
		for _, text := range r.Ignore {
			path, err := jsonscan.ParsePath(text)
			if err != nil {
				return nil, err
			}
			rules.Ignore = append(rules.Ignore, path)
		}
		entry := selection.Entry{Namespaces: r.Namespaces}
		if entry.Rules, err = clean.New(rules); err != nil {
			return nil, err
		}
		if entry.Group, entry.Resource, err = groupAndPlural(r.Resource); err != nil {
			return nil, err
		}
		entries = append(entries, entry)
	}
	return entries, nil
}

// replicaState keeps what a person releases beside the Lease of the process.
func replicaState(cfg *config.Config, c *config.Replica, api *rest.Config) (guard.State, error) {
	client, err := typed.NewForConfig(api)
	if err != nil {
		return nil, fmt.Errorf("credentials for the API server: %w", err)
	}
	namespace, err := OwnNamespace(cfg)
	if err != nil {
		return nil, err
	}
	return &released.ConfigMap{Client: client.ConfigMaps(namespace), Name: nameOf(c)}, nil
}

// nameOf is the name of what a replica has outside of its file: a ConfigMap, a consumer of NATS and a group of Kafka.
func nameOf(c *config.Replica) string { return clean.StatePrefix + c.Name }

// groupAndPlural returns the group of a resource, "*" for all, and its plural, empty for all.
func groupAndPlural(n value.ResourceName) (group, plural string, err error) {
	if n.Wildcard() {
		return cmp.Or(n.Group, "*"), "", nil
	}
	in := n.Group != "" || n.Version != ""
	plural = cmp.Or(builtin.Plural(n.Plural, n.Group, in), n.Plural)
	if in {
		return n.Group, plural, nil
	}
	known, found := builtin.Find(plural, "", false)
	if !found {
		return "", "", fmt.Errorf("resource %q is none that Kubernetes has by itself: write its group too, as in "+
			"%s.example.com", n, n.Plural)
	}
	return known.Group, plural, nil
}

// markers are the last parts of subjects that have the markers of a log that a replica needs all of.
var markers = []string{"_gap", "_resync"}

// openReplicaLog connects to the log of a replica. PerObject says that its subjects are of the default template.
func openReplicaLog(c *config.Replica, perObject bool, log *slog.Logger) (replica.Log, error) {
	name := nameOf(c)
	notice := func(line string) {
		log.Info("log", "notice", strings.TrimSuffix(line, "; ^C ends it")) // which is for a terminal
	}
	r := Reading{
		Wait: true, Notice: notice, Name: name, Reader: name, SubjectPerObject: perObject,
	}
	if perObject && c.From.NATS != nil {
		for _, marker := range markers {
			r.Whole = append(r.Whole, "k8s.*.*.*._."+marker)
		}
	}
	return OpenLog(ReplicaLog(c), r)
}

// hasOwnSubject reports whether the subject of an event has its cluster, group, resource, namespace and name, as the
// default template gives it.
func hasOwnSubject(e *event.Event) bool {
	tokens := strings.Split(e.Subject, ".")
	if len(tokens) != 6 || tokens[0] != "k8s" || tokens[3] != e.Resource ||
		tokens[1] != strings.ReplaceAll(e.Attr("clustername"), ".", "_") ||
		tokens[2] != strings.ReplaceAll(cmp.Or(e.Group, "core"), ".", "_") {
		return false
	}
	name, namespace := e.Attr("name"), cmp.Or(e.Attr("namespace"), "_")
	escaped := strings.ContainsAny(name, ".*> %") || strings.HasPrefix(name, "_")
	return tokens[4] == namespace && (escaped || tokens[5] == name)
}
