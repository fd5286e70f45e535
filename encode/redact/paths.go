// SPDX-License-Identifier: Apache-2.0

package redact

import (
	"fmt"

	"github.com/kube-eventbridge/kube-eventbridge/encode/jsonscan"
	"github.com/kube-eventbridge/kube-eventbridge/source"
)

// Paths replaces the values that paths name. It never changes.
type Paths struct{ root *jsonscan.Node }

// NewPaths returns nil if nothing is to be redacted. It panics where that is not possible.
func NewPaths(r source.Resource, paths []jsonscan.Path) *Paths {
	for _, p := range paths {
		if err := CheckPath(p); err != nil || p.IsZero() {
			panic("BUG: redact " + p.String())
		}
	}
	root := jsonscan.NewTrie(paths)
	if root == nil {
		return nil
	}
	switch {
	case r.Group != "":
	case r.Resource == "configmaps":
		root.Code("binaryData")
	case r.Resource == "secrets":
		root.Code("data")
	}
	return &Paths{root}
}

// Find returns the values of b, an object, that are replaced. Known are values whose ends are known. The error says
// that b is not a JSON object.
func (p *Paths) Find(b []byte, known [2]jsonscan.Span) ([]jsonscan.Hit, error) {
	return jsonscan.Find(b, p.root, known)
}

// Apply returns b, an object, with the values replaced, if there are any.
func (p *Paths) Apply(b []byte) (data []byte, replaced bool, err error) {
	var e Edits
	if e.Masked, err = p.Find(b, [2]jsonscan.Span{}); err != nil {
		return nil, false, err
	}
	whole := jsonscan.Span{To: len(b)}
	return e.Copy(nil, b, whole), e.Replaces(b, whole), nil
}

// identity are the values that are in the attributes, the key or the subject of events, and cannot be taken from the
// data alone.
func identity() []jsonscan.Path {
	all := []string{"apiVersion", "kind"}
	for _, name := range []string{"name", "namespace", "uid", "resourceVersion", "creationTimestamp", "managedFields"} {
		all = append(all, "metadata."+name)
	}
	paths := make([]jsonscan.Path, len(all))
	for i, s := range all {
		paths[i] = jsonscan.MustParsePath(s)
	}
	return paths
}

// CheckPath returns an error if what p names cannot be redacted, because attributes of events are made of it or it is
// not said in which part of the object it is.
func CheckPath(p jsonscan.Path) error {
	if steps := p.Steps(); len(steps) > 1 && steps[0].Every {
		return fmt.Errorf("path %q: it begins with [*], which is all of the object; begin with a name, as in spec or data", p)
	}
	for _, q := range identity() {
		if q.Within(p) || p.Within(q) {
			return fmt.Errorf("path %q: attributes of every event are made of %s; name something else of metadata, or of the "+
				"rest of the object", p, q)
		}
	}
	return nil
}
