// SPDX-License-Identifier: Apache-2.0

package sharing

import (
	"github.com/kube-eventbridge/kube-eventbridge/source"
	"github.com/kube-eventbridge/kube-eventbridge/source/rawjson"
)

// Frame is one event of a watch, which may be shared. It is valid as long as what it was read from says.
type Frame struct {
	rawjson.Frame
	// shared is what is known already of a frame that others read, too; else it is nil.
	shared *event
}

// Version returns that of a bookmark. The error says that it is unreadable.
func (f *Frame) Version() (string, error) {
	if f.shared != nil {
		return f.shared.identity.ResourceVersion, nil
	}
	return rawjson.Version(f.Object)
}

// Identity returns that of an object; namespaced says that it has a namespace. The error says what it lacks.
func (f *Frame) Identity(namespaced bool) (source.Identity, error) {
	if f.shared != nil {
		return f.shared.identity, nil
	}
	return source.ParseIdentity(f.Object, namespaced)
}

// Body returns the object with a reference for the caller: a copy, or the one that others read too.
func (f *Frame) Body() *source.Body {
	if f.shared != nil {
		return f.shared.body.Retain()
	}
	return source.NewBody(f.Object)
}
