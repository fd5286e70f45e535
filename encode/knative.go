// SPDX-License-Identifier: Apache-2.0

package encode

import (
	"strings"

	"github.com/kube-eventbridge/kube-eventbridge/encode/jsonscan"
	"github.com/kube-eventbridge/kube-eventbridge/source"
)

// Profile is whose types, sources and subjects the events of changes have.
type Profile string

// The profiles. The zero Profile is Own.
const (
	Own Profile = "kube-eventbridge"
	// Knative gives events of changes the type, the source and the subject that Knative's ApiServerSource gives them,
	// so that its Triggers and consumers go on working; all other attributes are as in Own. With the payload Metadata
	// they are those of its mode Reference, and the data has namespace and name beside apiVersion, kind and metadata,
	// as a reference to an object has them. What Knative does not have, markers and rejections, is as in Own.
	//
	// The form is that of makeEvent and createSelfLink in pkg/adapter/apiserver/events/events.go, the source that of
	// pkg/adapter/apiserver/adapter_injection.go, of knative.dev/eventing v0.46.0.
	Knative Profile = "knative"
)

const (
	knativePrefix   = "dev.knative.apiserver."
	knativeResource = knativePrefix + "resource."
	knativeRef      = knativePrefix + "ref."
)

// knative is what the events of a stream have in that profile.
type knative struct {
	change head
	// types begin with prefix.
	prefix string
	// link and plural are what its subjects have before the namespace, and between it and the name.
	link, plural string
}

func (e *envelope) knativeOf() *knative {
	k := &knative{
		prefix: knativeResource, link: "/apis/" + e.stream.APIVersion() + "/namespaces/",
		plural: "/" + guessPlural(e.stream.Kind) + "/",
	}
	if e.cfg.Payload == Metadata {
		k.prefix = knativeRef
	}
	k.change, _ = e.heads(e.cfg.Host)
	return k
}

// guessPlural guesses a resource from its kind as apimachinery's meta.UnsafeGuessKindToResource does, which Knative
// asks.
func guessPlural(kind string) string {
	word := strings.ToLower(kind)
	switch {
	case word == "" || strings.HasSuffix(word, "endpoints"):
		return word
	case word[len(word)-1] == 's':
		return word + "es"
	case word[len(word)-1] == 'y':
		return word[:len(word)-1] + "ies"
	default:
		return word + "s"
	}
}

// appendSubject appends the link that Knative makes up: the resource is guessed from the kind, the core group is below
// /apis too, and the namespace of a cluster-scoped object is empty.
func (k *knative) appendSubject(b []byte, c *source.Change) []byte {
	return appendStrings(b, k.link, c.Namespace, k.plural, c.Name)
}

// typeOf returns the type of a change's event.
func (e *envelope) typeOf(op source.Op) string {
	if e.knative == nil {
		return typeOf(op)
	}
	switch op {
	case source.Added:
		return e.knative.prefix + "add"
	case source.Updated:
		return e.knative.prefix + "update"
	case source.Deleted:
		return e.knative.prefix + "delete"
	default:
		panic("BUG: operation " + op.String())
	}
}

// TypeIn returns what a profile makes of TypeAdded, TypeUpdated or TypeDeleted, with the payload that is configured;
// another type it leaves as it is.
func TypeIn(p Profile, payload Payload, own string) string {
	verb := map[string]string{TypeAdded: "add", TypeUpdated: "update", TypeDeleted: "delete"}[own]
	switch {
	case p != Knative || verb == "":
		return own
	case payload == Metadata:
		return knativeRef + verb
	default:
		return knativeResource + verb
	}
}

// open appends the beginning of an object's identity or metadata, up to where the first member belongs.
func (o *content) open(dst []byte, c *source.Change) []byte {
	dst = append(dst, '{')
	if !o.reference {
		return dst
	}
	dst = append(jsonscan.AppendQuoted(append(dst, `"name":`...), c.Name), ',')
	if c.Namespace != "" {
		dst = append(jsonscan.AppendQuoted(append(dst, `"namespace":`...), c.Namespace), ',')
	}
	return dst
}

// InOwn returns the type and the source that the event of a change has in the profile Own, given those it has and its
// attributes partitionkey and apiversion. What is of no other profile is returned as it is.
func InOwn(typ, src, key, apiVersion string) (ownType, ownSource string) {
	rest, ok := strings.CutPrefix(typ, knativeResource)
	if !ok {
		if rest, ok = strings.CutPrefix(typ, knativeRef); !ok {
			return typ, src
		}
	}
	ownType = map[string]string{"add": TypeAdded, "update": TypeUpdated, "delete": TypeDeleted}[rest]
	parts := strings.Split(key, "/")
	group, version, found := strings.Cut(apiVersion, "/")
	if !found {
		group, version = "", apiVersion
	}
	if ownType == "" || len(parts) != 5 || parts[1] != groupOr(group) {
		return typ, src
	}
	return ownType, sourceOf(parts[0], source.Resource{Group: group, Version: version, Resource: parts[2]})
}
