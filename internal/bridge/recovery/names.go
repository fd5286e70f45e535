// SPDX-License-Identifier: Apache-2.0

package recovery

import (
	"slices"
	"strings"

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
	// scopes has the names of the streams by what their markers tell.
	scopes map[scope][]string
}

// placed is what a stream has objects of, in any version.
type placed struct {
	schema.GroupResource
	namespace string
}

// scope is what the markers of a stream tell of it: the resource and its version, and [source.Stream.Scope].
type scope struct{ resource, fingerprint string }

func placeOf(s source.Stream) placed {
	return placed{schema.GroupResource{Group: s.Group, Resource: s.Resource.Resource}, s.Namespace}
}

func newNames(streams map[string]checkpoint.Stream) *names {
	n := &names{
		streams: streams, placed: map[placed]string{}, called: map[string][]schema.GroupResource{},
		scopes: map[scope][]string{},
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
	in := scope{at.Resource.String(), saved.Fingerprint}
	n.scopes[in] = append(n.scopes[in], name)
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

// marked returns the names of the stored streams that a marker of a resource may be of. Its id has the scope as the
// second part.
func (n *names) marked(resource source.Resource, id string) []string {
	_, rest, _ := strings.Cut(id, ".")
	fingerprint, _, _ := strings.Cut(rest, ".")
	return n.scopes[scope{resource.String(), fingerprint}]
}
