// SPDX-License-Identifier: Apache-2.0

package encode

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
	"github.com/kube-eventbridge/kube-eventbridge/sink"
	"github.com/kube-eventbridge/kube-eventbridge/source"
)

func template(t *testing.T, kind TemplateKind, s string) *Template {
	t.Helper()
	return must.Get(ParseTemplate(kind, s))(t)
}

func TestParseTemplate_says_what_is_wrong_and_what_is_valid(t *testing.T) {
	for _, c := range []struct {
		kind       TemplateKind
		text, want string
	}{
		{Subject, "", "must not be empty"},
		{Topic, "", "must not be empty"},
		{
			Subject, "k8s.{foo}",
			"{foo} is not known here; write words of printable ASCII, separated by dots, with {pipeline} {cluster} {group} " +
				"{version} {resource} {namespace} {name}",
		},
		{
			Topic, "k8s.{name}",
			"{name} is not known here; write letters, digits, . _ - and {pipeline} {cluster} {group} {version} {resource}",
		},
		{Subject, "k8s.{}", "{} is not known here"},
		{Subject, "k8s.{name", "brace"},
		{Subject, "k8s.name}", "brace"},
		{Subject, "k8s..{name}", "word between dots"},
		{Subject, ".k8s", "word between dots"},
		{Subject, "k8s.", "word between dots"},
		{Subject, "k8s.>", "wildcards"},
		{Subject, "k8s.*.x", "wildcards"},
		{Subject, "k8s x", "spaces"},
		{Subject, "k8s\t", "spaces"},
		{Subject, "ü", "ASCII"},
		{Subject, "$JS.{name}", "NATS"},
		{Subject, "_INBOX.{name}", "NATS"},
		{Topic, "a b", "letters"},
		{Topic, "a/b", "letters"},
		{Topic, ".", "reserves"},
		{Topic, "..", "reserves"},
		{Topic, strings.Repeat("x", 250), "249"},
	} {
		tmpl, err := ParseTemplate(c.kind, c.text)
		if err == nil || !strings.Contains(err.Error(), c.want) ||
			!strings.HasPrefix(err.Error(), c.kind.String()+" "+strconv.Quote(c.text)) ||
			!strings.HasSuffix(err.Error(), "{"+strings.Join(c.kind.Placeholders(), "} {")+"}") {
			t.Errorf("%s %q: error is %v, want one with %q, the template and what is valid", c.kind, c.text, err, c.want)
		}
		assert.Nil(t, tmpl, "%s %q: a template beside an error", c.kind, c.text)
	}
}

func TestTemplate_says_which_subjects_it_makes(t *testing.T) {
	for _, c := range []struct {
		kind              TemplateKind
		text              string
		perObject         bool
		literal, wildcard string
	}{
		{Subject, DefaultSubject, true, "k8s.", "k8s.>"},
		{Subject, "a.b.{pipeline}-{cluster}.{group}.{resource}.ns-{namespace}.{name}.x", true, "a.b.", "a.b.>"},
		{Subject, "k8s.{name}.{namespace}.{resource}.{group}.{version}", true, "k8s.", "k8s.>"},
		{Subject, "k8s-{cluster}.{group}.{resource}.{namespace}.{name}", true, "", ">"},
		{Subject, "{group}.{resource}.{namespace}.{name}", true, "", ">"},
		{Subject, "k8s.{resource}.{namespace}.{name}", false, "k8s.", "k8s.>"},
		{Subject, "k8s.{group}.{namespace}.{name}", false, "k8s.", "k8s.>"},
		{Subject, "k8s.{group}.{resource}.{name}", false, "k8s.", "k8s.>"},
		{Subject, "k8s.{group}.{resource}.{namespace}", false, "k8s.", "k8s.>"},
		{Subject, "k8s.{group}.{resource}.{namespace}-{name}", false, "k8s.", "k8s.>"},
		{Subject, "k8s.{group}{resource}.{namespace}.{name}", false, "k8s.", "k8s.>"},
		{Subject, "k8s.events", false, "k8s.events", "k8s.events"},
		{Topic, DefaultTopic, false, "kubernetes", "kubernetes"},
		{Topic, "k8s-{cluster}.{group}.{resource}", false, "", ">"},
	} {
		tmpl := template(t, c.kind, c.text)
		if tmpl.String() != c.text || tmpl.PerObject() != c.perObject || tmpl.Literal() != c.literal ||
			tmpl.Wildcard() != c.wildcard {
			t.Errorf("%q: per object %t, literal %q, wildcard %q; want %t, %q, %q",
				tmpl, tmpl.PerObject(), tmpl.Literal(), tmpl.Wildcard(), c.perObject, c.literal, c.wildcard)
		}
	}
}

func TestPattern_matches_what_is_known_and_nothing_narrower(t *testing.T) {
	core := map[string]string{"pipeline": "p", "group": "", "resource": "pods"}
	for _, c := range []struct {
		text  string
		known map[string]string
		want  string
	}{
		{DefaultSubject, core, "k8s.*.core.pods.*.*"},
		{DefaultSubject, map[string]string{"group": "shop.example.com"}, "k8s.*.shop_example_com.*.*.*"},
		{DefaultSubject, nil, "k8s.*.*.*.*.*"},
		{"x.{pipeline}-{resource}.{pipeline}-{name}-y", core, "x.p-pods.*"},
		{"all", nil, "all"},
	} {
		assert.Equal(t, c.want, template(t, Subject, c.text).Pattern(c.known), "%s with %v", c.text, c.known)
	}
}

func TestTemplate_renders(t *testing.T) {
	namespaced := source.Ident{Namespace: "_n.s", Name: "a.b*>% _"}
	for _, c := range []struct {
		kind         TemplateKind
		text         string
		resource     source.Resource
		id           source.Ident
		want, marker string
	}{
		{
			Subject, DefaultSubject, pods, namespaced, "k8s.prod-eu_1.core.pods.%5Fn%2Es.a%2Eb%2A%3E%25%20_",
			"k8s.prod-eu_1.core.pods._._gap",
		},
		{
			Subject, DefaultSubject, nodes,
			source.Ident{Name: "_x"},
			"k8s.prod-eu_1.core.nodes._.%5Fx",
			"k8s.prod-eu_1.core.nodes._._gap",
		},
		{
			Subject, DefaultSubject, databases,
			source.Ident{Namespace: "n", Name: "system:x"},
			"k8s.prod-eu_1.example_com.databases.n.system:x", "k8s.prod-eu_1.example_com.databases._._gap",
		},
		{Subject, "x-{name}-y.{pipeline}.{version}", pods, source.Ident{Name: "n"}, "x-n-y.audit.v1", "x-_gap-y.audit.v1"},
		{Subject, "one.{pipeline}", pods, namespaced, "one.audit", "one.audit"},
		{Topic, DefaultTopic, pods, namespaced, "kubernetes", "kubernetes"},
		{
			Topic, "k.{cluster}.{group}.{resource}-{version}_{pipeline}", databases, namespaced,
			"k.prod-eu.1.example.com.databases-v1_audit", "k.prod-eu.1.example.com.databases-v1_audit",
		},
	} {
		cfg := config()
		cfg.Subject = template(t, c.kind, c.text)
		e, m := New(source.Stream{Resource: c.resource}, cfg), &sink.Message{}
		require.NoError(t, e.Change(m, &source.Change{Op: source.Added, Ident: c.id}))
		assert.Equal(t, c.want, m.Subject, "%q: subject, shared", c.text)
		assert.NotEqual(t, cfg.Subject.PerObject(), m.Shared, "%q: subject, shared", c.text)
		if e.Marker(m, source.Marker{Kind: source.MarkerGap}); m.Subject != c.marker {
			t.Errorf("%q: marker's subject %q, want %q", c.text, m.Subject, c.marker)
		}
	}
}

func TestTopic_of_a_pipeline_with_an_odd_name_is_valid(t *testing.T) {
	cfg := Config{Cluster: "c", Pipeline: "a b/ü", Subject: template(t, Topic, "k8s.{pipeline}")}
	m := &sink.Message{}
	New(source.Stream{Resource: pods}, cfg).Marker(m, source.Marker{Kind: source.MarkerGap})
	assert.Equal(t, "k8s.a_b__", m.Subject, "topic")
	cfg.Subject = template(t, Subject, "k8s.{pipeline}.{cluster}")
	New(source.Stream{Resource: pods}, cfg).Marker(m, source.Marker{Kind: source.MarkerGap})
	assert.Equal(t, "k8s.a%20b/ü.c", m.Subject, "subject")
	assert.NoError(t, validSubject(m.Subject), "subject")
}

func TestTemplate_address_leaves_what_is_not_known(t *testing.T) {
	known := map[string]string{"pipeline": "audit", "cluster": "prod-eu.1", "group": "", "resource": "pods"}
	for _, c := range []struct {
		kind           TemplateKind
		template, want string
		open           []string
	}{
		{Subject, DefaultSubject, "k8s.prod-eu_1.core.pods.{namespace}.{name}", []string{"namespace", "name"}},
		{Subject, "a.{name}.{version}.{name}", "a.{name}.{version}.{name}", []string{"name", "version"}},
		{Topic, "{cluster}-{group}-{pipeline}", "prod-eu.1-core-audit", nil},
	} {
		parsed := must.Get(ParseTemplate(c.kind, c.template))(t)
		if got, open := parsed.Address(known); got != c.want || !slices.Equal(open, c.open) {
			t.Errorf("%s: %s %v, want %s %v", c.template, got, open, c.want, c.open)
		}
	}
}
