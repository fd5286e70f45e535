// SPDX-License-Identifier: Apache-2.0

package membership

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"pgregory.net/rapid"

	"github.com/kube-eventbridge/kube-eventbridge/source"
	"github.com/kube-eventbridge/kube-eventbridge/source/catalog"
)

// res returns a resource by its full name, as gateways.v1.networking.x. Nodes and namespaces are cluster-scoped.
func res(name string) source.Resource {
	at, _ := source.ParseName(name)
	r := at.Resource
	r.Kind = strings.ToUpper(r.Resource[:1]) + strings.TrimSuffix(r.Resource[1:], "s")
	r.Namespaced = r.Resource != "nodes" && r.Resource != "namespaces"
	return r
}

// serves returns offers of resources, the preferred version of each first.
func serves(names ...string) Offers {
	o := Offers{Known: true}
	for _, name := range names {
		r := res(name)
		i := slices.IndexFunc(o.Served, func(s *catalog.Served) bool {
			return s.Group == r.Group &&
				s.Resource == r.Resource
		})
		if i < 0 {
			singular := strings.TrimSuffix(r.Resource, "s")
			o.Served = append(o.Served, &catalog.Served{
				Group: r.Group, Resource: r.Resource, Names: []string{singular, singular[:2]},
			})
			i = len(o.Served) - 1
		}
		o.Served[i].Versions = append(o.Served[i].Versions, r)
	}
	return o
}

func (o Offers) gone(names ...string) Offers {
	for _, name := range names {
		o.Gone = append(o.Gone, schema.ParseGroupResource(name))
	}
	return o
}

// stored returns a stream that is stored under a name, as pods.v1/shop, and what the configuration called it.
func stored(name, called string) Stored {
	at, _ := source.ParseName(name)
	r := res(strings.Split(name, "/")[0])
	s := Stored{Stream: source.Stream{Resource: r, Namespace: at.Namespace}, Called: strings.Fields(called)}
	s.Scope = s.Stream.Scope()
	return s
}

func (s Stored) labelled(selector string) Stored {
	selective := s.Stream
	selective.LabelSelector = selector
	s.Scope = selective.Scope()
	return s
}

func (s Stored) fields(selector string) Stored {
	selective := s.Stream
	selective.FieldSelector = selector
	s.Scope = selective.Scope()
	return s
}

func (s Stored) namespaced() Stored {
	s.Namespaced = true
	return s
}

// retiring returns a stream that retires, with objects left in these namespaces.
func (s Stored) retiring(left ...string) Stored {
	s.Retiring, s.Left = true, map[string]struct{}{}
	for _, namespace := range left {
		s.Left[namespace] = struct{}{}
	}
	return s
}

func named(resource string, namespaces ...string) []Spec {
	if len(namespaces) == 0 {
		return []Spec{{Resource: resource}}
	}
	var all []Spec
	for _, n := range namespaces {
		all = append(all, Spec{Resource: resource, Namespace: n})
	}
	return all
}

// selecting names a resource in the namespaces with the label team=shop.
func selecting(resource string) []Spec {
	return []Spec{{Resource: resource, NamespaceSelector: labels.SelectorFromSet(labels.Set{"team": "shop"})}}
}

func wild(group string) []Spec { return []Spec{{Wildcard: &Wildcard{All: group == "*", Group: group}}} }

// namespaces returns those of names like shop, shop! for one with the label team=shop, and shop- for one that is
// being deleted.
func namespaces(names ...string) Namespaces {
	n := Namespaces{Known: true, All: map[string]catalog.Namespace{}}
	for _, name := range names {
		var ns catalog.Namespace
		if strings.Contains(name, "!") {
			ns.Labels = labels.Set{"team": "shop"}
		}
		ns.Terminating = strings.HasSuffix(name, "-")
		n.All[strings.TrimRight(name, "!-")] = ns
	}
	return n
}

// lines returns assignments and problems as text.
func lines(all []Assignment, problems []Problem) string {
	var b strings.Builder
	for _, a := range all {
		switch a.Action {
		case Run:
			fmt.Fprintf(&b, "run %s as %d", a.Stream.Name(), a.Spec)
			if len(a.From) > 0 || a.Same {
				fmt.Fprintf(&b, " from %s same %t", strings.Join(a.From, " "), a.Same)
			}
		case Retire:
			fmt.Fprintf(&b, "retire %s: %s", a.Stream.Name(), a.Why)
		case Detach:
			fmt.Fprintf(&b, "detach %s: %s", a.Stream.Name(), a.Why)
		}
		b.WriteByte('\n')
	}
	for _, p := range problems {
		fmt.Fprintf(&b, "%d %s: %s\n", p.Spec, strings.Join(p.Resources, " "), p.Kind)
	}
	return b.String()
}

func TestPlan(t *testing.T) {
	widgets := serves("widgets.v1.x", "pods.v1", "nodes.v1")
	for _, test := range []struct {
		name       string
		specs      []Spec
		offers     Offers
		namespaces Namespaces
		stored     []Stored
		want       string
	}{
		{
			"a name that only a wildcard has read is away", named("widgets", "shop"), serves("pods.v1"),
			Namespaces{},
			[]Stored{stored("widgets.v1.x/shop", "")},
			`detach widgets.v1.x/shop: the API server does not serve it now
0 : the API server does not serve it
`,
		},
		{
			"a name that may mean several resources means the one that is read under another name",
			named("widgets"), serves("widgets.v1.a", "widgets.v1.x"),
			Namespaces{},
			[]Stored{stored("widgets.v1.x", "widgets.x")},
			`run widgets.v1.x as 0 from widgets.v1.x same true
0 widgets.x widgets.a: the name may mean several resources, and the first one is read
`,
		},
		{
			"a short name goes while its resource is served", named("wd"), serves("widgets.v1.x", "pods.v1"),
			Namespaces{},
			[]Stored{stored("widgets.v1.x", "wd")},
			"run widgets.v1.x as 0 from widgets.v1.x same true\n",
		},
		{
			"an entry by selector does not take what another one reads of a namespace that is being deleted",
			slices.Concat(selecting("pods"), []Spec{{Resource: "po", Namespace: "shop", LabelSelector: "a=b"}}), widgets,
			namespaces("shop-"),
			[]Stored{stored("pods.v1/shop", "po").labelled("a=b")},
			"run pods.v1/shop as 1 from pods.v1/shop same true\n",
		},
		{
			"a new entry", named("pods"), widgets,
			Namespaces{},
			nil,
			"run pods.v1 as 0\n",
		},
		{
			"a start", named("pods"), widgets,
			Namespaces{},
			[]Stored{stored("pods.v1", "pods")},
			"run pods.v1 as 0 from pods.v1 same true\n",
		},
		{
			"namespaces are narrowed", named("pods", "shop", "bank"), widgets,
			Namespaces{},
			[]Stored{stored("pods.v1", "pods")},
			`run pods.v1/bank as 1 from pods.v1 same false
run pods.v1/shop as 0 from pods.v1 same false
retire pods.v1: the configuration does not select it
`,
		},
		{
			"namespaces are widened", named("pods"), widgets,
			Namespaces{},
			[]Stored{stored("pods.v1/shop", "pods"), stored("pods.v1/bank", "pods")},
			`run pods.v1 as 0 from pods.v1/bank pods.v1/shop same false
retire pods.v1/bank: the configuration does not select it
retire pods.v1/shop: the configuration does not select it
`,
		},
		{
			"a narrowing is undone before it is complete", named("pods"), widgets,
			Namespaces{},
			[]Stored{stored("pods.v1", "pods").retiring(), stored("pods.v1/shop", "pods")},
			`run pods.v1 as 0 from pods.v1 pods.v1/shop same false
retire pods.v1/shop: the configuration does not select it
`,
		},
		{
			"a narrowing has ended some namespaces", named("pods", "shop", "bank"), widgets,
			Namespaces{},
			[]Stored{stored("pods.v1", "pods").retiring("other", "bank"), stored("pods.v1/shop", "pods")},
			`run pods.v1/bank as 1 from pods.v1 same false
run pods.v1/shop as 0 from pods.v1/shop same true
retire pods.v1: the configuration does not select it
`,
		},
		{
			"a selector changes", named("pods"), widgets,
			Namespaces{},
			[]Stored{stored("pods.v1", "pods").labelled("a=b")},
			"run pods.v1 as 0 from pods.v1 same false\n",
		},
		{
			"another version is pinned", named("widgets.v1.x"), serves("widgets.v1beta1.x", "widgets.v1.x"),
			Namespaces{},
			[]Stored{stored("widgets.v1beta1.x", "widgets.v1beta1.x")},
			`run widgets.v1.x as 0 from widgets.v1beta1.x same true
retire widgets.v1beta1.x: the configuration does not select it
`,
		},
		{
			"the pinned version is not served", named("widgets.v2.x"), widgets,
			Namespaces{},
			[]Stored{stored("widgets.v2.x", "widgets.v2.x")},
			"detach widgets.v2.x: the API server does not serve the version that is named\n" +
				"0 widgets.x: the version that is named is not served\n",
		},
		{
			"the version that was read stays", named("widgets"), serves("widgets.v2.x", "widgets.v1.x"),
			Namespaces{},
			[]Stored{stored("widgets.v1.x", "widgets")},
			"run widgets.v1.x as 0 from widgets.v1.x same true\n",
		},
		{
			"the version that was read is removed", named("widgets"), serves("widgets.v2.x"),
			Namespaces{},
			[]Stored{stored("widgets.v1.x", "widgets")},
			`run widgets.v2.x as 0 from widgets.v1.x same true
retire widgets.v1.x: the configuration does not select it
`,
		},
		{
			"an entry is renamed", named("po"), widgets,
			Namespaces{},
			[]Stored{stored("pods.v1", "pods")},
			"run pods.v1 as 0 from pods.v1 same true\n",
		},
		{
			"an entry is removed", nil, widgets,
			Namespaces{},
			[]Stored{stored("pods.v1", "pods")},
			"retire pods.v1: the configuration does not select it\n",
		},
		{
			"an entry is given to a wildcard", wild("x"), widgets,
			Namespaces{},
			[]Stored{stored("widgets.v1.x", "widgets")},
			"run widgets.v1.x as 0 from widgets.v1.x same true\n",
		},
		{
			"a name takes over from a wildcard", append(wild("*"), named("widgets", "shop")...), widgets,
			Namespaces{},
			[]Stored{stored("widgets.v1.x", "")},
			`run nodes.v1 as 0
run pods.v1 as 0
run widgets.v1.x/shop as 1 from widgets.v1.x same false
retire widgets.v1.x: the configuration does not select it
`,
		},
		{
			"a wildcard of a group goes before one of all", slices.Concat(wild("*"), wild("x")), widgets,
			Namespaces{},
			nil,
			"run nodes.v1 as 0\nrun pods.v1 as 0\nrun widgets.v1.x as 1\n",
		},
		{
			"a wildcard in a namespace",
			[]Spec{{Wildcard: &Wildcard{All: true}, Namespace: "shop"}},
			widgets,
			Namespaces{},
			nil,
			"run pods.v1/shop as 0\nrun widgets.v1.x/shop as 0\n",
		},
		{
			"a wildcard selects nothing", wild("y"), widgets,
			Namespaces{},
			nil,
			"0 : the wildcard selects nothing\n",
		},
		{
			"a label of a namespace is removed", selecting("pods"), widgets, namespaces("shop", "bank!"),
			[]Stored{stored("pods.v1/shop", "pods"), stored("pods.v1/bank", "pods")},
			`run pods.v1/bank as 0 from pods.v1/bank same true
retire pods.v1/shop: its namespace is not selected, or does not exist
`,
		},
		{
			"a label of a namespace is restored", selecting("pods"), widgets, namespaces("shop!"),
			[]Stored{stored("pods.v1/shop", "pods").retiring()},
			"run pods.v1/shop as 0 from pods.v1/shop same false\n",
		},
		{
			"a namespace is being deleted", selecting("pods"), widgets, namespaces("shop-", "bank-"),
			[]Stored{stored("pods.v1/shop", "pods")},
			"run pods.v1/shop as 0 from pods.v1/shop same true\n",
		},
		{
			"namespaces are not known", selecting("pods"), widgets,
			Namespaces{},
			[]Stored{stored("pods.v1/shop", "pods")},
			"detach pods.v1/shop: it is not known what the API server serves\n",
		},
		{
			"nothing is known", named("pods"),
			Offers{},
			Namespaces{},
			[]Stored{stored("pods.v1", "pods")},
			"detach pods.v1: it is not known what the API server serves\n",
		},
		{
			"a resource is away", named("widgets"), serves("pods.v1"),
			Namespaces{},
			[]Stored{stored("widgets.v1.x", "widgets")},
			"detach widgets.v1.x: the API server does not serve it now\n0 widgets.x: the API server does not serve it\n",
		},
		{
			"a resource of a wildcard is away", wild("*"), serves("pods.v1"),
			Namespaces{},
			[]Stored{stored("widgets.v1.x", "")},
			"run pods.v1 as 0\ndetach widgets.v1.x: the API server does not serve it now\n",
		},
		{
			"a resource is gone", named("widgets"), serves("pods.v1").gone("widgets.x"),
			Namespaces{},
			[]Stored{stored("widgets.v1.x", "widgets")},
			"retire widgets.v1.x: the resource does not exist any more\n0 : the API server does not serve it\n",
		},
		{
			"a second resource has the plural", named("gateways"), serves("gateways.v1.gateway.io", "gateways.v1.istio.io"),
			Namespaces{},
			[]Stored{stored("gateways.v1.istio.io", "gateways")},
			`run gateways.v1.istio.io as 0 from gateways.v1.istio.io same true
0 gateways.istio.io gateways.gateway.io: the name may mean several resources, and keeps the meaning that it had
`,
		},
		{
			"another resource has as its plural what a name meant by a short name", named("wi"),
			serves("widgets.v1.x", "wi.v1.y"),
			Namespaces{},
			[]Stored{stored("widgets.v1.x", "wi")},
			`run widgets.v1.x as 0 from widgets.v1.x same true
0 widgets.x wi.y: the name may mean several resources, and keeps the meaning that it had
`,
		},
		{
			"the resource that a name meant is away", named("gateways"), serves("gateways.v1.gateway.io"),
			Namespaces{},
			[]Stored{stored("gateways.v1.istio.io", "gateways")},
			"detach gateways.v1.istio.io: the API server does not serve it now\n" +
				"0 gateways.istio.io: the API server does not serve it\n",
		},
		{
			"the resource that a name meant is gone", named("gateways"),
			serves("gateways.v1.gateway.io").gone("gateways.istio.io"),
			Namespaces{},
			[]Stored{stored("gateways.v1.istio.io", "gateways")},
			`run gateways.v1.gateway.io as 0
retire gateways.v1.istio.io: the resource does not exist any more
`,
		},
		{
			"a name may mean two resources", named("gateways"), serves("gateways.v1.gateway.io", "gateways.v1.istio.io"),
			Namespaces{},
			nil,
			`run gateways.v1.gateway.io as 0
0 gateways.gateway.io gateways.istio.io: the name may mean several resources, and the first one is read
`,
		},
		{
			"the group tells", named("gateways.istio.io"), serves("gateways.v1.gateway.io", "gateways.v1.istio.io"),
			Namespaces{},
			nil,
			"run gateways.v1.istio.io as 0\n",
		},
		{
			"a resource is served in two groups", wild("*"), serves("events.v1", "events.v1.events.k8s.io"),
			Namespaces{},
			nil,
			"run events.v1 as 0\n",
		},
		{
			"two names of one resource", append(named("pods"), named("po", "shop")...), widgets,
			Namespaces{},
			nil,
			"run pods.v1 as 0\n1 pods.v1 pods.v1: another entry reads objects of it\n",
		},
		{
			"a cluster-scoped resource in a namespace", named("nodes", "shop"), widgets,
			Namespaces{},
			nil,
			"0 nodes: the resource is cluster-scoped, and the entry names namespaces\n",
		},
		{
			"a new entry of a resource in two versions", named("widgets"), serves("widgets.v2.x", "widgets.v1.x"),
			Namespaces{},
			nil,
			"run widgets.v2.x as 0\n",
		},
		{
			"a field selector changes", named("pods"), widgets,
			Namespaces{},
			[]Stored{stored("pods.v1", "pods").fields("spec.nodeName=n")},
			"run pods.v1 as 0 from pods.v1 same false\n",
		},
		{
			"a resource comes back cluster-scoped", named("nodes"), widgets,
			Namespaces{},
			[]Stored{stored("nodes.v1", "nodes").namespaced()},
			"run nodes.v1 as 0 from nodes.v1 same false\n",
		},
		{
			"a wildcard in selected namespaces",
			[]Spec{{Wildcard: &Wildcard{All: true}, NamespaceSelector: labels.Everything()}},
			widgets, namespaces("shop"),
			nil,
			"run pods.v1/shop as 0\nrun widgets.v1.x/shop as 0\n",
		},
		{
			"a wildcard with exclusions",
			[]Spec{{Wildcard: &Wildcard{All: true, Exclude: []Exclusion{
				{Name: "wi", AnyGroup: true}, {Name: "pods", Group: "x"}, {Name: "nodes", AnyGroup: true, Version: "v2"},
			}}}},
			widgets,
			Namespaces{},
			nil,
			"run nodes.v1 as 0\nrun pods.v1 as 0\n",
		},
		{
			"a selected namespace is being deleted", selecting("pods"), widgets, namespaces("shop!-"),
			nil,
			"",
		},
		{
			"a namespace is being deleted whose stream retires", selecting("pods"), widgets, namespaces("shop-"),
			[]Stored{stored("pods.v1/shop", "pods").retiring()},
			"retire pods.v1/shop: its namespace is not selected, or does not exist\n",
		},
		{
			"a part is taken over, and the rest cannot be told",
			slices.Concat(named("pods", "shop"), selecting("pods")), widgets,
			Namespaces{},
			[]Stored{stored("pods.v1", "pods")},
			`run pods.v1/shop as 0 from pods.v1 same false
retire pods.v1: the configuration does not select it
`,
		},
		{
			"a resource is away, and one of its entries is removed", named("widgets", "shop"), serves("pods.v1"),
			Namespaces{},
			[]Stored{stored("widgets.v1.x/shop", "widgets"), stored("widgets.v1.x/bank", "widgets")},
			`retire widgets.v1.x/bank: the configuration does not select it
detach widgets.v1.x/shop: the API server does not serve it now
0 widgets.x: the API server does not serve it
`,
		},
		{
			"a plural goes before a short name", named("wi"), serves("widgets.v1.x", "wi.v1.y"),
			Namespaces{},
			nil,
			"run wi.v1.y as 0\n",
		},
		{
			"a name of the core group and of another one", named("pods"), serves("pods.v1.x", "pods.v1"),
			Namespaces{},
			nil,
			"run pods.v1 as 0\n",
		},
		{
			"a group in full and one that is cut short", named("widgets.x"), serves("widgets.v1.x.y", "widgets.v1.x"),
			Namespaces{},
			nil,
			"run widgets.v1.x as 0\n",
		},
		{
			"a resource is served in two groups, the other one first", wild("*"),
			serves("events.v1.events.k8s.io", "events.v1"),
			Namespaces{},
			nil,
			"run events.v1 as 0\n",
		},
		{
			"a resource is served in the second of its groups", wild("*"), serves("events.v1.events.k8s.io"),
			Namespaces{},
			nil,
			"run events.v1.events.k8s.io as 0\n",
		},
		{
			"a resource is served in two groups, and a wildcard names the second", wild("events.k8s.io"),
			serves("events.v1", "events.v1.events.k8s.io"),
			Namespaces{},
			nil,
			"run events.v1.events.k8s.io as 0\n",
		},
		{
			"a resource is served in two groups, and an entry names each",
			slices.Concat(named("events"), wild("events.k8s.io")),
			serves("events.v1", "events.v1.events.k8s.io"),
			Namespaces{},
			nil,
			"run events.v1 as 0\n",
		},
		{
			"resources that Kubernetes has moved", wild("*"),
			serves("deployments.v1.extensions", "ingresses.v1.extensions", "deployments.v1.apps",
				"ingresses.v1.networking.k8s.io"),
			Namespaces{},
			nil,
			"run deployments.v1.apps as 0\nrun ingresses.v1.networking.k8s.io as 0\n",
		},
		{
			"a cluster-scoped resource in selected namespaces", selecting("nodes"), widgets, namespaces("shop!"),
			nil,
			"0 nodes: the resource is cluster-scoped, and the entry names namespaces\n",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := lines(Plan(test.specs, test.offers, test.namespaces, test.stored))
			assert.Equal(t, test.want, got)
		})
	}
}

// Whatever is configured, served and stored: an object belongs to one stream, every stored stream has one
// assignment, and a plan that was carried out stays as it is.
func TestPlan_keeps_what_all_entries_call_a_resource(t *testing.T) {
	specs := slices.Concat(named("widgets.y"), named("widgets"))
	offers := serves("widgets.v1.x", "widgets.v1.y")
	plan, _ := Plan(specs, offers, Namespaces{}, []Stored{stored("widgets.v1.y", "widgets")})
	assert.Equal(t, []string{"widgets.y", "widgets"}, plan[0].Called)
	again, _ := Plan(specs, offers, Namespaces{}, carriedOut(plan, nil))
	assert.Equal(t, "run widgets.v1.y as 0 from widgets.v1.y same true\n", lines(again, nil))
}

// carriedOut returns what is stored when a plan is carried out.
func carriedOut(plan []Assignment, before []Stored) (after []Stored) {
	for _, a := range plan {
		switch a.Action {
		case Run:
			after = append(after, Stored{Stream: a.Stream, Scope: a.Stream.Scope(), Called: a.Called})
		case Detach:
			after = append(after, before[slices.IndexFunc(before,
				func(s Stored) bool { return s.Stream.Name() == a.Stream.Name() })])
		case Retire:
		}
	}
	return after
}

// overlap reports whether two streams may have objects in common.
func overlap(a, b source.Stream) bool {
	return canonical(groupResource(a.Resource)) == canonical(groupResource(b.Resource)) &&
		(a.Namespace == "" || b.Namespace == "" || a.Namespace == b.Namespace)
}

func TestPlan_is_unambiguous_and_stable(t *testing.T) {
	all := []string{
		"pods.v1", "nodes.v1", "widgets.v1.x", "widgets.v2.x", "widgets.v1.y", "events.v1", "events.v1.events.k8s.io",
	}
	spec := rapid.Custom(func(t *rapid.T) Spec {
		s := rapid.SampledFrom(slices.Concat(
			named("pods"), named("po", "shop"), named("widgets"), named("widgets", "shop"), named("widgets.y"),
			named("widgets.v2.x"),
			named("events"), selecting("pods"), selecting("widgets"), wild("*"), wild("x"),
		)).Draw(t, "entry")
		s.LabelSelector = rapid.SampledFrom([]string{"", "a=b"}).Draw(t, "selector")
		return s
	})
	store := rapid.Custom(func(t *rapid.T) Stored {
		s := stored(rapid.SampledFrom(all).Draw(t, "stored"),
			rapid.SampledFrom([]string{"", "pods", "widgets"}).Draw(t, "called"))
		if served := serves(s.Resource.String()).Served; len(s.Called) > 0 && !MayMean(s.Called[0], served[0]) {
			s.Called = nil
		}
		if s.Namespaced {
			s.Namespace = rapid.SampledFrom([]string{"", "shop", "bank"}).Draw(t, "namespace")
			s.Scope = s.Stream.Scope()
		}
		s.Retiring = rapid.Bool().Draw(t, "retiring")
		return s
	})
	rapid.Check(t, func(t *rapid.T) {
		specs := rapid.SliceOfN(spec, 0, 4).Draw(t, "entries")
		offers := serves(rapid.SliceOfDistinct(rapid.SampledFrom(all), rapid.ID[string]).Draw(t, "served")...)
		labelled := [][]string{{"shop!", "bank"}, {"shop", "bank!"}, {"shop-"}, nil}
		ns := namespaces(rapid.SampledFrom(labelled).Draw(t, "namespaces")...)
		before := rapid.SliceOfNDistinct(store, 0, 4, func(s Stored) string { return s.Stream.Name() }).Draw(t, "stored")
		for i := 0; i < len(before); i++ { // a plan runs no two streams that have objects in common
			before = slices.DeleteFunc(before, func(s Stored) bool {
				return s.Stream != before[i].Stream &&
					overlap(s.Stream, before[i].Stream)
			})
		}

		plan, _ := Plan(specs, offers, ns, before)
		assigned := map[string]int{}
		after := carriedOut(plan, before)
		for i, a := range plan {
			assigned[a.Stream.Name()]++
			if a.Action == Retire {
				continue
			}
			for _, b := range plan[:i] {
				if a.Action == Run && b.Action == Run && overlap(a.Stream, b.Stream) {
					t.Fatalf("%s and %s have objects in common", a.Stream.Name(), b.Stream.Name())
				}
			}
		}
		for _, s := range before {
			if assigned[s.Stream.Name()] != 1 {
				t.Fatalf("%s has %d assignments", s.Stream.Name(), assigned[s.Stream.Name()])
			}
		}
		// What retires may have kept the meaning of a name, so that the plan comes to rest at the second time.
		next, _ := Plan(specs, offers, ns, after)
		rest := carriedOut(next, after)
		again, _ := Plan(specs, offers, ns, rest)
		for _, a := range again {
			if a.Action == Retire || a.Action == Run && !a.Same {
				t.Fatalf("the same plan again has %s", lines(again, nil))
			}
		}
	})
}

// BenchmarkPlan is what a change of a Namespace costs where a wildcard reads so many resources in selected namespaces.
func BenchmarkPlan(b *testing.B) {
	for _, size := range []struct{ resources, namespaces int }{{10, 10}, {10, 1000}, {60, 1000}} {
		b.Run(fmt.Sprintf("resources=%d,namespaces=%d", size.resources, size.namespaces), func(b *testing.B) {
			var resources, names []string
			for i := range size.resources {
				resources = append(resources, fmt.Sprintf("things%d.v1.example.com", i))
			}
			for i := range size.namespaces {
				names = append(names, fmt.Sprintf("n%d!", i))
			}
			spec := wild("example.com")
			spec[0].NamespaceSelector = labels.SelectorFromSet(labels.Set{"team": "shop"})
			offers, all := serves(resources...), namespaces(names...)
			plan, _ := Plan(spec, offers, all, nil)
			require.Len(b, plan, size.resources*size.namespaces)
			saved := carriedOut(plan, nil)
			b.ReportAllocs()
			for b.Loop() {
				plan, _ = Plan(spec, offers, all, saved)
			}
			require.Len(b, plan, len(saved))
		})
	}
}
