// SPDX-License-Identifier: Apache-2.0

package source

import "github.com/kube-eventbridge/kube-eventbridge/source/rawjson"

// frame is one event of a watch.
type frame struct {
	rawjson.Frame
	// shared is what is known already of a frame that others read, too; else it is nil.
	shared *event
}

// version returns that of a bookmark.
func (f *frame) version() (string, error) {
	if f.shared != nil {
		return f.shared.identity.ResourceVersion, nil
	}
	return rawjson.Version(f.Object)
}

// identity returns that of an object.
func (f *frame) identity(namespaced bool) (Identity, error) {
	if f.shared != nil {
		return f.shared.identity, nil
	}
	return parseObject(f.Object, namespaced)
}

// body returns the object with a reference for the caller.
func (f *frame) body() *Body {
	if f.shared != nil {
		return f.shared.body.Retain()
	}
	return NewBody(f.Object)
}
