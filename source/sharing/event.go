// SPDX-License-Identifier: Apache-2.0

package sharing

import (
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/kube-eventbridge/kube-eventbridge/source"
	"github.com/kube-eventbridge/kube-eventbridge/source/rawjson"
)

// event is a frame that is shared.
type event struct {
	kind rawjson.Type
	// identity is that of an object; of a bookmark it has the version only.
	identity source.Ident
	version  uint64
	// body has a reference for each queue that the event is in.
	body *source.Body
}

func (e *event) size() int64 { return int64(source.ChangeSize(len(e.body.Bytes()))) }

// newEvent copies a frame, or takes a reference to one that is shared already. The error may be the API server's own,
// which it has sent in a frame.
func newEvent(f *Frame, namespaced bool) (e event, err error) {
	if f.shared != nil {
		e = *f.shared
		e.body.Retain()
		return e, nil
	}
	e.kind = f.Type
	switch f.Type {
	case rawjson.Error:
		return e, &apierrors.StatusError{ErrStatus: *rawjson.ParseStatus(f.Object)}
	case rawjson.Bookmark:
		e.identity.ResourceVersion, err = rawjson.Version(f.Object)
	default:
		e.identity, err = source.ParseIdent(f.Object, namespaced)
	}
	if err != nil {
		return e, err
	}
	var ok bool
	if e.version, ok = source.Number(e.identity.ResourceVersion); !ok {
		return e, errUnordered
	}
	if f.Type != rawjson.Bookmark {
		e.body = source.NewBody(f.Object)
	}
	return e, nil
}

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
func (f *Frame) Identity(namespaced bool) (source.Ident, error) {
	if f.shared != nil {
		return f.shared.identity, nil
	}
	return source.ParseIdent(f.Object, namespaced)
}

// Body returns the object with a reference for the caller: a copy, or the one that others read too.
func (f *Frame) Body() *source.Body {
	if f.shared != nil {
		return f.shared.body.Retain()
	}
	return source.NewBody(f.Object)
}
