// SPDX-License-Identifier: Apache-2.0

// Package selection says what a pipeline reads, in the words of the bridge's file and in those of the judge.
package selection

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/kube-eventbridge/kube-eventbridge/integration/faults/drive"
	"github.com/kube-eventbridge/kube-eventbridge/integration/faults/oracle"
)

// Entry is one entry of resources in the file.
type Entry struct {
	// Name is what the file calls the kind: its full name if it is empty.
	Name string
	Kind drive.Kind
	// Namespaces are those that are read: all if there is none. With a NamespaceSelector they are those that it
	// selects.
	Namespaces        []string
	NamespaceSelector string
	LabelSelector     string
	// Filter is a CEL expression that takes everything, or fails.
	Filter string
	// Latest says that the changes of an object may be folded.
	Latest bool
	// Payload is what the events have of an object; empty stands for all of it.
	Payload string
}

// Selection is all that a pipeline reads.
type Selection []Entry

// YAML is the list under resources.
func (s Selection) YAML() string {
	var entries []string
	for _, e := range s {
		text := fmt.Sprintf("resource: %q", cmp.Or(e.Name, e.Kind.Resource.GroupResource().String()))
		switch {
		case e.NamespaceSelector != "":
			text += fmt.Sprintf(", namespaceSelector: %q", e.NamespaceSelector)
		case len(e.Namespaces) > 0:
			text += fmt.Sprintf(", namespaces: [%s]", strings.Join(e.Namespaces, ", "))
		}
		if e.LabelSelector != "" {
			text += fmt.Sprintf(", labelSelector: %q", e.LabelSelector)
		}
		if e.Filter != "" {
			text += fmt.Sprintf(", filter: %q", e.Filter)
		}
		if e.Latest {
			text += ", delivery: latest"
		}
		if e.Payload != "" {
			text += ", payload: " + e.Payload
		}
		entries = append(entries, "{"+text+"}")
	}
	return "[" + strings.Join(entries, ", ") + "]"
}

// Streams are those that read it.
func (s Selection) Streams(cluster string) (all []oracle.Stream) {
	for _, e := range s {
		of := oracle.Stream{Cluster: cluster, Resource: e.Kind.Resource, LabelSelector: e.LabelSelector}
		if len(e.Namespaces) == 0 && e.NamespaceSelector == "" {
			all = append(all, of)
		}
		for _, of.Namespace = range e.Namespaces {
			all = append(all, of)
		}
	}
	return all
}

// Names are what the bridge calls these streams, sorted.
func (s Selection) Names() (all []string) {
	for _, of := range s.Streams("") {
		name := of.Resource.Resource + "." + of.Resource.Version
		if of.Resource.Group != "" {
			name += "." + of.Resource.Group
		}
		if of.Namespace != "" {
			name += "/" + of.Namespace
		}
		all = append(all, name)
	}
	slices.Sort(all)
	return all
}

// Of returns the entries of a kind.
func (s Selection) Of(k drive.Kind) (some Selection) {
	for _, e := range s {
		if e.Kind == k {
			some = append(some, e)
		}
	}
	return some
}

// With returns a selection that has other entries of a kind; with none it does not read that.
func (s Selection) With(k drive.Kind, entries ...Entry) Selection {
	others := slices.DeleteFunc(slices.Clone(s), func(e Entry) bool { return e.Kind == k })
	return append(others, entries...)
}
