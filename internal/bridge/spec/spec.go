// SPDX-License-Identifier: Apache-2.0

// Package spec says what a pipeline wants to read, and what that may name.
package spec

import (
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/kube-eventbridge/kube-eventbridge/encode"
	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge/membership"
	"github.com/kube-eventbridge/kube-eventbridge/source"
	"github.com/kube-eventbridge/kube-eventbridge/source/catalog"
)

// Stream is one resource, or all that a wildcard names, in one scope, as a pipeline wants it.
type Stream struct {
	// Resource is what the user calls it. What the API server calls it is found out while running. It is empty with a
	// Wildcard.
	Resource string
	// Wildcard, if not nil, makes a stream of each resource that it names, as they come and go.
	Wildcard *membership.Wildcard
	// NamespaceSelector, if not nil, makes a stream of each namespace whose labels match, and in it of each resource of
	// a wildcard, as they come and go. Namespace is empty then.
	NamespaceSelector                       labels.Selector
	Namespace, LabelSelector, FieldSelector string
	// Says is all that the configuration says of the spec: two with the same text are read alike. One that is empty is
	// like no other.
	Says string
	// Latest allows changes of one object that are still waiting to be folded into one.
	Latest bool
	// SkipSnapshot: what exists at the start is known, not published.
	SkipSnapshot bool
	// Filter is nil where everything is published.
	Filter Filter
	// Resync is how often all that exists is published again, in whole seconds; zero: only when that is asked for.
	Resync time.Duration
	// Olds: the filter asks for the states before, which are kept then.
	Olds     bool
	Encoding encode.Config
}

// Selection is what the spec selects.
func (s *Stream) Selection() membership.Spec {
	return membership.Spec{
		Resource: s.Resource, Wildcard: s.Wildcard, Namespace: s.Namespace, NamespaceSelector: s.NamespaceSelector,
		LabelSelector: s.LabelSelector, FieldSelector: s.FieldSelector,
	}
}

// Of returns the stream of a resource that the spec names. It has no namespace with a NamespaceSelector.
func (s *Stream) Of(r source.Resource) source.Stream {
	return source.Stream{
		Resource: r, Namespace: s.Namespace, LabelSelector: s.LabelSelector,
		FieldSelector: s.FieldSelector,
	}
}

// Encoder returns that of a stream's events.
func (s *Stream) Encoder(at source.Stream) *encode.Encoder {
	return encode.New(at, s.Encoding)
}

// MayMean reports whether a spec may name a resource, whose kind is known. What a short name means is known of what is
// served.
func (s *Stream) MayMean(r source.Resource, offers *catalog.Offers) bool {
	served := offers.Get(r.Group, r.Resource)
	if served == nil {
		served = &catalog.Served{
			Group: r.Group, Resource: r.Resource, Versions: []source.Resource{r}, Names: []string{strings.ToLower(r.Kind)},
		}
	}
	if s.Wildcard != nil {
		return s.Wildcard.Names(served)
	}
	return membership.MayMean(s.Resource, served)
}

// Names returns what the spec calls its resource; none where it is a wildcard.
func (s *Stream) Names() []string {
	if s.Wildcard != nil {
		return nil
	}
	return []string{s.Resource}
}

// MayHaveRead returns the stream in which a spec that names a resource would read an object of it in a namespace, and
// false if it would not.
func (s *Stream) MayHaveRead(r source.Resource, namespace string) (source.Stream, bool) {
	at := s.Of(r)
	if s.NamespaceSelector != nil {
		at.Namespace = namespace
	}
	within := at.Namespace == "" || at.Namespace == namespace
	return at, within && (s.NamespaceSelector == nil || namespace != "")
}

// Filter decides which changes of a stream are published. A change that is not published is known all the same: its row
// moves, and its ticket is settled. A Filter is called by several goroutines at a time. It may be called again for a
// change that could not be published at once.
type Filter interface {
	// Filter returns in a word why c is not published, and an empty reason if it is. Now is a digest of c's state. It
	// is stored, and is before for the object's next change. Before is zero if nothing is known of the state before, or
	// of what the log has of it.
	//
	// Old returns the JSON of the object's state before, or nil if that is not known. The JSON must not be used after
	// Filter returns. Old is nil unless [Stream.Olds] is set.
	//
	// The error says that the filter could not decide, and the reason holds all the same. It tells nothing of what the
	// object holds. The body of c stays the caller's.
	Filter(c *source.Change, before [16]byte, old func() []byte) (reason string, now [16]byte, err error)
}
