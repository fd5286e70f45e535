// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	"github.com/kube-eventbridge/kube-eventbridge/source"
)

// storedNames finds stored streams by what they have objects of. Find and meansAnother cost the same however many streams
// there are.
type storedNames struct {
	exact  map[string]struct{}
	placed map[placed]string
	called map[string][]schema.GroupResource
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

func newStoredNames(streams map[string]checkpoint.Stream) *storedNames {
	n := &storedNames{
		exact: map[string]struct{}{}, placed: map[placed]string{}, called: map[string][]schema.GroupResource{},
		namespaces: map[string][]string{},
	}
	for name, saved := range streams {
		n.add(name, saved.Called)
	}
	return n
}

// add makes a stream known, with what entries call its resource.
func (n *storedNames) add(name string, called []string) {
	n.exact[name] = struct{}{}
	at, ok := source.ParseName(name)
	if !ok {
		return
	}
	place := placeOf(at)
	n.placed[place] = name
	if at.Namespace != "" {
		n.namespaces[at.Resource.String()] = append(n.namespaces[at.Resource.String()], at.Namespace)
	}
	for _, c := range called {
		if !slices.Contains(n.called[c], place.GroupResource) {
			n.called[c] = append(n.called[c], place.GroupResource)
		}
	}
}

// find returns the name of the stored stream that is the given one, if need be in another version: versions are the
// same objects.
func (n *storedNames) find(at source.Stream) (name string, ok bool) {
	name = at.Name()
	if _, ok = n.exact[name]; ok {
		return name, true
	}
	name, ok = n.placed[placeOf(at)]
	return name, ok
}

// meansAnother reports whether a stored stream of another resource than at's has a name.
func (n *storedNames) meansAnother(name string, at source.Stream) bool {
	own := placeOf(at).GroupResource
	return slices.ContainsFunc(n.called[name], func(r schema.GroupResource) bool { return r != own })
}
