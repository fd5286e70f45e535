// SPDX-License-Identifier: Apache-2.0

package tail

import (
	"strings"
	"testing"

	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
	"github.com/stretchr/testify/assert"
)

func TestFilter(t *testing.T) {
	web := event(t, Updated, `{}`, nil)
	pod := event(t, Deleted, `{}`, map[string]string{
		"source": "/clusters/east/api/v1/pods", "kind": "Pod", "namespace": "kube-system", "name": "dns-0", "subject": "kube-system/dns-0",
	})
	gap := event(t, Gap, `{"namespace":"shop"}`, nil)
	wide := event(t, Gap, `{"namespace":""}`, nil)
	snapshot := event(t, SnapshotStarted, `{}`, nil)
	all := []*Event{web, pod, gap, wide, snapshot}
	for _, c := range []struct {
		name   string
		args   []string
		filter Filter
		shown  []*Event
	}{
		{"everything", nil, Filter{}, all},
		{"a plural", []string{"pods"}, Filter{}, []*Event{pod}},
		{"a kind", []string{"Pod"}, Filter{}, []*Event{pod}},
		{"a short name", []string{"po"}, Filter{}, []*Event{pod}},
		{"a group", []string{"deployments.apps"}, Filter{}, []*Event{web, gap, wide, snapshot}},
		{"a version and a group", []string{"deployments.v1.apps"}, Filter{}, []*Event{web, gap, wide, snapshot}},
		{"another version", []string{"deployments.v2.apps"}, Filter{}, nil},
		{"the core group", []string{"pods.v1", "deployments.v1"}, Filter{}, []*Event{pod}},
		{"another group", []string{"deployments.example.com"}, Filter{}, nil},
		{"a whole group", []string{"*.apps"}, Filter{}, []*Event{web, gap, wide, snapshot}},
		{"an object", []string{"pods/dns-*", "deploy/other"}, Filter{}, []*Event{pod, gap, wide}},
		{"a pipeline", nil, Filter{Pipelines: []string{"audit"}}, all},
		{"another pipeline", nil, Filter{Pipelines: []string{"other"}}, nil},
		{"a namespace", nil, Filter{Namespaces: []string{"kube-system"}}, []*Event{pod, wide, snapshot}},
		{"another namespace", nil, Filter{Namespaces: []string{"shop"}}, []*Event{web, gap, wide, snapshot}},
		{"a name", nil, Filter{Names: []string{"w?b"}}, []*Event{web, gap, wide}},
		{"operations", nil, Filter{Ops: []Op{Deleted}}, []*Event{pod, gap, wide}},
		{"snapshots", nil, Filter{Ops: []Op{SnapshotStarted}}, []*Event{gap, wide, snapshot}},
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

func TestParse_refuses_what_selects_nothing(t *testing.T) {
	for _, arg := range []string{"", ".apps", "pods/", "/web", "pods/[", "pods/a[", "pods/a/b", "pods/a/", "pods/a b"} {
		if s, err := ParseSelector(arg); err == nil {
			t.Errorf("%q was read as %+v", arg, s)
		}
	}
	for _, name := range []string{"a[", "shop/web", "a b"} {
		if _, err := ParseNames([]string{"web-*", name}); err == nil || !strings.HasPrefix(err.Error(), `"`+name+`" `) {
			t.Errorf("name %q: got %v", name, err)
		}
	}
	if names, err := ParseNames([]string{"web-*", "a?[b-c]"}); err != nil || len(names) != 2 {
		t.Errorf("got %q, %v", names, err)
	}
	if ops, err := ParseOps([]string{"added", "modified"}); err == nil {
		t.Errorf("modified was read as %v", ops)
	}
	if ops, err := ParseOps([]string{"Added", "snapshot"}); err != nil || len(ops) != 3 {
		t.Errorf("got %v, %v", ops, err)
	}
}
