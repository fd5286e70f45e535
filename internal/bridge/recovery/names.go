// SPDX-License-Identifier: Apache-2.0

package recovery

import (
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	"github.com/kube-eventbridge/kube-eventbridge/source"
)

// names finds stored streams by what they have objects of. Find and meansAnother cost the same however many streams
// there are.
type names struct {
	// streams are the stored ones.
	streams map[string]checkpoint.Stream
	placed  map[placed]string
	called  map[string][]schema.GroupResource
	// namespaces are those of the streams of single ones, by resource and version.
	namespaces map[string][]string
}

// placed is what a stream has objects of, in any version.
type placed struct {
	schema.GroupResource
	namespace string
}

func placeOf(s source.Stream) placed {
	return placed{schema.GroupResource{Group: s.Group, Resource: s.Resource.Resource}, s.Namespace}
}

func newNames(streams map[string]checkpoint.Stream) *names {
	n := &names{
		streams: streams, placed: map[placed]string{}, called: map[string][]schema.GroupResource{},
		namespaces: map[string][]string{},
	}
	for name, saved := range streams {
		n.index(name, &saved)
	}
	return n
}

// add stores a stream.
func (n *names) add(name string, saved checkpoint.Stream) {
	n.streams[name] = saved
	n.index(name, &saved)
}

func (n *names) index(name string, saved *checkpoint.Stream) {
	at, ok := source.ParseName(name)
	if !ok {
		return
	}
	place := placeOf(at)
	n.placed[place] = name
	if at.Namespace != "" {
		n.namespaces[at.Resource.String()] = append(n.namespaces[at.Resource.String()], at.Namespace)
	}
	for _, c := range saved.Called {
		if !slices.Contains(n.called[c], place.GroupResource) {
			n.called[c] = append(n.called[c], place.GroupResource)
		}
	}
}

// find returns the name of the stored stream that is the given one, if need be in another version: versions are the
// same objects.
func (n *names) find(at source.Stream) (name string, ok bool) {
	name = at.Name()
	if _, ok = n.streams[name]; ok {
		return name, true
	}
	name, ok = n.placed[placeOf(at)]
	return name, ok
}

// meansAnother reports whether a stored stream of another resource than at's has a name.
func (n *names) meansAnother(name string, at source.Stream) bool {
	own := placeOf(at).GroupResource
	return slices.ContainsFunc(n.called[name], func(r schema.GroupResource) bool { return r != own })
}
