// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/kube-eventbridge/kube-eventbridge/internal/builtin"
)

func (v *validator) pipeline(path string, p *Pipeline) {
	const valid = "letters, digits, - and _ (at most 63, a letter or digit at both ends)"
	switch {
	case p.Name == "":
		v.add(path+".name", "is missing; give the pipeline a name of %s", valid)
	case checkName(p.Name, "-_") != nil:
		v.add(path+".name", "%q is not a name; use %s", p.Name, valid)
	}
	if len(p.Resources) == 0 {
		v.add(path+".resources", "none is given; write at least one, such as - resource: deployments.apps")
	}
	before := map[string][]*Resource{}
	for i := range p.Resources {
		at, r := fmt.Sprintf("%s.resources[%d]", path, i), &p.Resources[i]
		v.resource(at, r)
		mean := r.Resource.meaning()
		v.scope(at, r, mean)
		v.another(at, r, mean, before[mean.plural])
		before[mean.plural] = append(before[mean.plural], r)
	}
	oneOf(v, path+".encoding.mode", p.Encoding.Mode)
	oneOf(v, path+".encoding.profile", p.Encoding.Profile)
	for i, part := range p.Encoding.Keep {
		at := fmt.Sprintf("%s.encoding.keep[%d]", path, i)
		if slices.Contains(p.Encoding.Keep[:i], part) {
			v.add(at, "%q is there twice; keep one", part)
			continue
		}
		oneOf(v, at, part)
	}
	v.payloads(path, p)
	v.redact(path, p)
	v.annotations(path+".encoding.secrets.annotations", &p.Encoding.Secrets)
	v.hashes(path+".encoding.secrets", &p.Encoding.Secrets)
	oneOf(v, path+".onReject", p.OnReject)
	v.oversize(path, p)
	v.recovery(path, p)
	if p.Buffer.MaxBytes != 0 {
		v.buffer(path+".buffer.maxBytes", p.Buffer.MaxBytes)
	}
	v.sink(path+".sink", p)
	v.checkpoint(path+".checkpoint", p)
}

func (v *validator) recovery(path string, p *Pipeline) {
	const least = time.Minute
	if p.Recovery.MaxReads < 1 {
		v.add(path+".recovery.maxReads", "%d is not a number of reads; give at least 1, or enabled: false",
			p.Recovery.MaxReads)
	}
	if p.Recovery.MaxTime <= 0 {
		v.add(path+".recovery.maxTime", "%v is no time to read in; give more, such as 1m, or enabled: false",
			p.Recovery.MaxTime)
	}
	if i := p.Audit.Interval; i != 0 && i < least {
		v.add(path+".audit.interval", "%v is too often, as each audit lists all objects; give at least 1m, or 0s for never",
			i)
	}
}

// brief leaves out of an error of Kubernetes' what it says of a pattern.
func brief(err error) string {
	text, _, _ := strings.Cut(err.Error(), " (e.g. ")
	return strings.ReplaceAll(text, "<nil>: ", "")
}

// fieldSelector checks that of r: fields that every resource has are two.
func (v *validator) fieldSelector(path string, r *Resource) {
	s, err := fields.ParseSelector(r.FieldSelector)
	if err != nil {
		v.add(path,
			"%q is not a field selector; write one as kubectl --field-selector takes it, such as spec.nodeName=node-1",
			r.FieldSelector)
		return
	}
	for _, term := range s.Requirements() {
		if r.Resource.Wildcard() && term.Field != "metadata.name" && term.Field != "metadata.namespace" {
			v.once(path,
				"selects by %s, which not every resource has; with a wildcard use metadata.name or metadata.namespace, "+
					"or name the resource in an entry of its own", term.Field)
		}
	}
}

// namespaceSelector checks which namespaces r is read in.
func (v *validator) namespaceSelector(path string, r *Resource) {
	_, err := labels.Parse(r.NamespaceSelector)
	switch {
	case r.NamespaceSelector == "":
	case err != nil:
		v.add(path, "%q is not a label selector: %v; write one as kubectl get namespaces -l takes it, such as team=a",
			r.NamespaceSelector, err)
	case len(r.Namespaces) > 0:
		v.add(path, "selects namespaces, and namespaces lists them; keep one")
	}
}

// exclude checks what a wildcard leaves out.
func (v *validator) exclude(path string, r *Resource) {
	if len(r.Exclude) > 0 && !r.Resource.Wildcard() && r.Resource != (ResourceName{}) {
		v.add(path, "is for entries that name many resources, and %v names one; remove it, or write resource: \"*\"",
			r.Resource)
		return
	}
	for i, e := range r.Exclude {
		at := fmt.Sprintf("%s[%d]", path, i)
		switch {
		case e == r.Resource && e != (ResourceName{}):
			v.add(at, "%v leaves nothing; name what is to be left out, such as events or \"*.metrics.k8s.io\"", e)
		case e == ResourceName{Plural: "*"}:
			v.add(at, "%v leaves nothing; name what is to be left out, such as events or \"*.metrics.k8s.io\"", e)
		case slices.Contains(r.Exclude[:i], e):
			v.add(at, "%v is there twice; keep one", e)
		case r.Resource.Beyond(e):
			v.warn(at, "%v is nothing that %v names, so it leaves nothing out; name a resource of %s, or remove it", e,
				r.Resource, r.Resource.Group)
		}
	}
}

// builtin warns of a name that no built-in resource of API servers has, where it should be one, or is
// nearly one.
func (v *validator) builtin(path string, name ResourceName) {
	inGroup := name.Group != "" || name.Version != ""
	names := builtin.Every()[name.Group]
	if !inGroup {
		names = slices.Concat(slices.Collect(maps.Values(builtin.Every()))...)
	}
	_, found := builtin.Find(name.Plural, name.Group, inGroup)
	if found || name.Wildcard() || name == (ResourceName{}) || names == nil ||
		builtin.Plural(name.Plural, name.Group, inGroup) != "" {
		return
	}
	slices.Sort(names)
	like, similar := closest(name.Plural, names)
	const unknown = "%v is no resource that Kubernetes 1.36 has by itself"
	switch meant := (ResourceName{Plural: like, Version: name.Version, Group: name.Group}); {
	case similar && (inGroup || editDistance(name.Plural, like) == 1):
		v.warn(path, unknown+", did you mean %v?", name, meant)
	case inGroup:
		v.warn(path, unknown+", and its group is one of Kubernetes", name)
	}
}

// scope refuses namespaces of a resource that Kubernetes has by itself, and that is in none.
func (v *validator) scope(path string, r *Resource, mean meaning) {
	known, found := builtin.Find(mean.plural, r.Resource.Group, !r.Resource.unresolved())
	switch {
	case !found || known.Namespaced:
	case len(r.Namespaces) > 0:
		v.add(path+".namespaces", "resource %v is cluster-scoped and cannot be read in namespace %q; remove its namespaces",
			r.Resource, r.Namespaces[0])
	case r.NamespaceSelector != "":
		v.add(path+".namespaceSelector",
			"resource %v is cluster-scoped and cannot be read in selected namespaces; remove its namespaceSelector", r.Resource)
	}
}

// another checks r against those before it in its pipeline whose names mean the same plural.
func (v *validator) another(path string, r *Resource, mean meaning, before []*Resource) {
	for _, o := range before {
		if r.Resource != (ResourceName{}) && mean.overlaps(meaning{o.Resource, mean.plural}) &&
			shareNamespace(r.Namespaces, o.Namespaces) {
			v.add(path+".resource",
				"%v may name the same objects as %v before it, and an object belongs to one stream of a pipeline; "+
					"give them different namespaces or groups, or move one to another pipeline", r.Resource, o.Resource)
			return
		}
	}
}

// resource checks r by itself.
func (v *validator) resource(path string, r *Resource) {
	if r.Resource == (ResourceName{}) {
		v.add(path+".resource", "is missing; write plural[.version][.group], such as pods or deployments.apps")
	}
	v.builtin(path+".resource", r.Resource)
	for i, ns := range r.Namespaces {
		v.namespace(fmt.Sprintf("%s.namespaces[%d]", path, i), ns, r.Namespaces[:i])
	}
	v.namespaceSelector(path+".namespaceSelector", r)
	if _, err := labels.Parse(r.LabelSelector); err != nil {
		v.add(path+".labelSelector",
			"%q is not a label selector: %s; write one as kubectl -l takes it, such as app=web,tier!=cache", r.LabelSelector,
			brief(err))
	}
	v.fieldSelector(path+".fieldSelector", r)
	v.exclude(path+".exclude", r)
	v.operations(path, r)
	oneOf(v, path+".delivery", r.Delivery)
	oneOf(v, path+".payload", r.Payload)
	oneOf(v, path+".snapshot", r.Snapshot)
	v.resync(path+".resync", r)
}

// resync checks how often a resource is published again.
func (v *validator) resync(path string, r *Resource) {
	const least = time.Minute
	switch {
	case r.Resync == 0:
	case r.Resync < least:
		v.add(path, "%v is too often, as each resync publishes all objects; give at least 1m, such as 12h, or 0s for never",
			r.Resync)
	case len(r.Operations) > 0 && !slices.Contains(r.Operations, Updated):
		v.add(path, "publishes updates, which operations does not list; add updated, or remove resync")
	}
}

func (v *validator) namespace(path, ns string, before []string) {
	switch problems := validation.IsDNS1123Label(ns); {
	case ns == "*" || ns == "":
		v.add(path, "%q is not a namespace; for all namespaces leave the list empty", ns)
	case len(problems) > 0:
		v.add(path,
			"%q is not a namespace; use lower-case letters, digits and - (at most 63, a letter or digit at both ends)", ns)
	case slices.Contains(before, ns):
		v.add(path, "%q is there twice; keep one", ns)
	}
}

// shareNamespace reports whether a namespace may be in both lists; an empty list has them all.
func shareNamespace(a, b []string) bool {
	if len(a) == 0 || len(b) == 0 {
		return true
	}
	return slices.ContainsFunc(a, func(ns string) bool { return slices.Contains(b, ns) })
}

func (v *validator) sink(path string, p *Pipeline) {
	var given []string
	if p.Sink.NATS != nil {
		given = append(given, "nats")
		v.nats(path+".nats", p.Sink.NATS)
		v.jetStream(path+".nats", &p.Sink.NATS.JetStream)
	}
	if p.Sink.Kafka != nil {
		given = append(given, "kafka")
		v.kafka(path+".kafka", p.Sink.Kafka)
	}
	if p.Sink.Embedded != nil {
		given = append(given, "embedded")
		v.address(path+".embedded.listen", p.Sink.Embedded.Listen)
		v.jetStream(path+".embedded", &p.Sink.Embedded.JetStream)
	}
	if p.Sink.Stdout != nil {
		given = append(given, "stdout")
	}
	if len(given) > 1 {
		v.add(path, "has %s, and a pipeline has one sink; keep one, and make a pipeline for each other",
			strings.Join(given, " and "))
	}
}

var bucketPattern = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)

func (v *validator) oversize(path string, p *Pipeline) {
	oneOf(v, path+".oversize", p.Oversize)
	if p.Oversize != OversizeStore {
		return
	}
	at, stream := "", (*JetStream)(nil)
	switch s := p.Sink; {
	case s.NATS != nil:
		at, stream = ".sink.nats.stream", &s.NATS.JetStream
	case s.Embedded != nil:
		at, stream = ".sink.embedded.stream", &s.Embedded.JetStream
	default:
		v.add(path+".oversize",
			"\"store\" is for a NATS server, which has a store for objects; valid with this sink: reject, metadata")
		return
	}
	if streamPattern.MatchString(stream.Stream) && !bucketPattern.MatchString(stream.Stream) {
		v.add(path+at, "%q cannot name the bucket that oversize: store needs; use letters, digits, - and _", stream.Stream)
	}
}

// payloads checks that what a pipeline publishes can have the payloads that its resources ask for.
func (v *validator) payloads(path string, p *Pipeline) {
	for i := range p.Resources {
		at, payload := fmt.Sprintf("%s.resources[%d].payload", path, i), p.Resources[i].Payload
		switch {
		case p.Encoding.Profile == ProfileKnative && (payload.patch() || payload == PayloadChange):
			v.add(at,
				"%q is nothing that Knative's ApiServerSource publishes, and encoding.profile is knative; valid with this "+
					"profile: object, metadata", payload)
		case payload.patch() && p.Sink.Kafka.compacts():
			v.add(at,
				"%q says nothing without the event before, which a compacted topic does not keep, and sink.kafka.create.settings "+
					"has cleanup.policy compact; valid with this topic: object, metadata, change", payload)
		}
	}
}

// compacts reports whether the topics that are created keep the last record of each key only, as far as the file says.
func (k *Kafka) compacts() bool {
	if k == nil || k.Create == nil {
		return false
	}
	return strings.Contains(k.Create.Settings["cleanup.policy"], "compact")
}
