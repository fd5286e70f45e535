// SPDX-License-Identifier: Apache-2.0

package tail

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/kube-eventbridge/kube-eventbridge/internal/event"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
)

func TestFilter(t *testing.T) {
	web := change(t, event.Updated, `{}`, nil)
	pod := change(t, event.Deleted, `{}`, map[string]string{
		"source": "/clusters/east/api/v1/pods", "kind": "Pod", "namespace": "kube-system", "name": "dns-0",
		"subject": "kube-system/dns-0",
	})
	gap := change(t, event.Gap, `{"namespace":"shop"}`, nil)
	wide := change(t, event.Gap, `{"namespace":""}`, nil)
	snapshot := change(t, event.SnapshotStarted, `{}`, nil)
	all := []*event.Event{web, pod, gap, wide, snapshot}
	for _, c := range []struct {
		name   string
		args   []string
		filter Filter
		shown  []*event.Event
	}{
		{"everything", nil, Filter{}, all},
		{"a plural", []string{"pods"}, Filter{}, []*event.Event{pod}},
		{"a kind", []string{"Pod"}, Filter{}, []*event.Event{pod}},
		{"a short name", []string{"po"}, Filter{}, []*event.Event{pod}},
		{"a group", []string{"deployments.apps"}, Filter{}, []*event.Event{web, gap, wide, snapshot}},
		{"a version and a group", []string{"deployments.v1.apps"}, Filter{}, []*event.Event{web, gap, wide, snapshot}},
		{"another version", []string{"deployments.v2.apps"}, Filter{}, nil},
		{"the core group", []string{"pods.v1", "deployments.v1"}, Filter{}, []*event.Event{pod}},
		{"another group", []string{"deployments.example.com"}, Filter{}, nil},
		{"a whole group", []string{"*.apps"}, Filter{}, []*event.Event{web, gap, wide, snapshot}},
		{"an object", []string{"pods/dns-*", "deploy/other"}, Filter{}, []*event.Event{pod, gap, wide}},
		{"a pipeline", nil, Filter{Pipelines: []string{"audit"}}, all},
		{"another pipeline", nil, Filter{Pipelines: []string{"other"}}, nil},
		{"a namespace", nil, Filter{Namespaces: []string{"kube-system"}}, []*event.Event{pod, wide, snapshot}},
		{"another namespace", nil, Filter{Namespaces: []string{"shop"}}, []*event.Event{web, gap, wide, snapshot}},
		{"a name", nil, Filter{Names: []string{"w?b"}}, []*event.Event{web, gap, wide}},
		{"operations", nil, Filter{Ops: []event.Op{event.Deleted}}, []*event.Event{pod, gap, wide}},
		{"snapshots", nil, Filter{Ops: []event.Op{event.SnapshotStarted}}, []*event.Event{gap, wide, snapshot}},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, arg := range c.args {
				s := must.Get(ParseSelector(arg))(t)
				c.filter.Resources = append(c.filter.Resources, s)
			}
			for _, e := range all {
				want := false
				for _, s := range c.shown {
					want = want || s == e
				}
				assert.Equal(t, want, c.filter.Shows(e), "%s %s %s is shown", e.Op, e.Resource, e.Data)
			}
		})
	}
}

// The short names are those of run and rbac.
func TestParseSelector_knows_all_short_names_and_singulars(t *testing.T) {
	for arg, want := range map[string]string{
		"hpa": "horizontalpodautoscalers", "netpol": "networkpolicies", "hpa.autoscaling": "horizontalpodautoscalers",
		"pdb.v1.policy/a": "poddisruptionbudgets",
		"ingress":         "ingresses", "widget": "widget", "deploy.example.com": "deploy",
	} {
		assert.Equal(t, want, must.Get(ParseSelector(arg))(t).resource, arg)
	}
}

func TestParse_refuses_what_selects_nothing(t *testing.T) {
	for _, arg := range []string{"", ".apps", "pods/", "/web", "pods/[", "pods/a[", "pods/a/b", "pods/a/", "pods/a b"} {
		s, err := ParseSelector(arg)
		assert.Error(t, err, "%q was read as %+v", arg, s)
	}
	for _, name := range []string{"a[", "shop/web", "a b"} {
		_, err := ParseNames([]string{"web-*", name})
		assert.True(t, err != nil && strings.HasPrefix(err.Error(), `"`+name+`" `), "name %q: got %v", name, err)
	}
	assert.Len(t, must.Get(ParseNames([]string{"web-*", "a?[b-c]"}))(t), 2)
	ops, err := ParseOps([]string{"added", "modified"})
	assert.Error(t, err, "modified was read as %v", ops)
	assert.Len(t, must.Get(ParseOps([]string{"Added", "snapshot", "resync"}))(t), 5)
}
