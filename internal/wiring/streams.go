// SPDX-License-Identifier: Apache-2.0

package wiring

import (
	"fmt"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	"github.com/kube-eventbridge/kube-eventbridge/encode"
	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge"
	"github.com/kube-eventbridge/kube-eventbridge/internal/config"
)

// Streams says what a pipeline reads, and the subjects that it will publish to.
func (w *Wiring) Streams(c *config.Pipeline, id checkpoint.Identity) ([]bridge.StreamSpec, *encode.Template, error) {
	subject, err := SubjectOf(c)
	if err != nil {
		return nil, nil, err
	}
	hashes, err := secretHashes(c)
	if err != nil {
		return nil, nil, err
	}
	var specs []bridge.StreamSpec
	for _, r := range c.Resources {
		encoding := encode.Config{
			Cluster: id.Cluster, Pipeline: c.Name, Mode: encode.Mode(c.Encoding.Mode), Payload: encode.Payload(r.Payload),
			SecretValues: c.Encoding.Secrets.Values, SecretAnnotations: c.Encoding.Secrets.Annotations, SecretHashes: hashes,
			Subject: subject, BareIDs: c.Sink.Kafka != nil,
			Profile: encode.Profile(c.Encoding.Profile), Host: w.APIServer,
		}
		if encoding.Redact, err = paths(c.Encoding.Redact, r.Redact); err != nil {
			return nil, nil, err
		}
		for _, k := range c.Encoding.Keep {
			encoding.Keep = append(encoding.Keep, string(k))
		}
		filter, previous, err := filterOf(c, &r)
		if err != nil {
			return nil, nil, err
		}
		scopes, err := scoped(&r)
		if err != nil {
			return nil, nil, err
		}
		for _, spec := range scopes {
			one := r
			one.Namespaces = []string{spec.Namespace}
			spec.Says = fmt.Sprintf("%#v", one)
			spec.Latest, spec.SkipSnapshot = r.Delivery == config.Latest, r.Snapshot == config.SnapshotNever
			spec.Filter, spec.Olds, spec.Resync, spec.Encoding = filter, previous, r.Resync, encoding
			specs = append(specs, spec)
		}
	}
	return specs, subject, nil
}

// scoped says of an entry what is read, in each of its scopes, and not what becomes of it.
func scoped(r *config.Resource) (specs []bridge.StreamSpec, err error) {
	selector, err := namespaceSelector(r)
	for _, ns := range ScopesOf(r) {
		specs = append(specs, bridge.StreamSpec{
			Resource: r.Resource.Arg(), Wildcard: WildcardOf(r), Namespace: ns, NamespaceSelector: selector,
			LabelSelector: r.LabelSelector, FieldSelector: r.FieldSelector,
		})
	}
	return specs, err
}

// namespaceSelector returns which namespaces an entry is about; nil if that is not said by their labels.
func namespaceSelector(r *config.Resource) (labels.Selector, error) {
	if r.NamespaceSelector == "" {
		return nil, nil //nolint:nilnil // it has none
	}
	return labels.Parse(r.NamespaceSelector)
}

// WildcardOf returns which resources an entry names; nil if it names one.
func WildcardOf(r *config.Resource) *bridge.Wildcard {
	if !r.Resource.Wildcard() {
		return nil
	}
	w := &bridge.Wildcard{All: r.Resource.Group == "", Group: r.Resource.Group}
	for _, e := range r.Exclude {
		x := bridge.Exclusion{Name: e.Plural, Group: e.Group, Version: e.Version, AnyGroup: e.Group == "" && e.Version == ""}
		if e.Wildcard() {
			x.Name = ""
		}
		w.Exclude = append(w.Exclude, x)
	}
	return w
}

// SubjectOf returns the template of a pipeline's subjects or topics; nil where its sink has none.
func SubjectOf(c *config.Pipeline) (*encode.Template, error) {
	if c.Sink.Kafka != nil {
		return encode.ParseTemplate(encode.Topic, c.Sink.Kafka.Topic)
	}
	if js := JetStream(c); js != nil {
		return encode.ParseTemplate(encode.Subject, js.Subject)
	}
	return nil, nil
}

// JetStream returns the stream that a pipeline publishes to; nil where its sink has none.
func JetStream(c *config.Pipeline) *config.JetStream {
	switch {
	case c.Sink.NATS != nil:
		return &c.Sink.NATS.JetStream
	case c.Sink.Embedded != nil:
		return &c.Sink.Embedded.JetStream
	default:
		return nil
	}
}

// ScopesOf returns the namespaces of an entry, an empty one for all of them.
func ScopesOf(r *config.Resource) []string {
	if len(r.Namespaces) == 0 {
		return []string{""}
	}
	return r.Namespaces
}
