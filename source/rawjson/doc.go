// SPDX-License-Identifier: Apache-2.0

// Package rawjson reads what an API server answers without decoding the objects in it: the frames of a watch, the items
// of a list, and the identity of an object.
package rawjson

import "fmt"

// UnreadableError says that what the API server sent makes no sense, or has no identity. Asking again hardly makes it
// better, but what cannot be read cannot be passed over either: the reader would not know what was lost.
type UnreadableError struct{ error }

// Unwrap returns what is wrong with it.
func (e UnreadableError) Unwrap() error { return e.error }

// Unreadable returns an UnreadableError of what fmt.Errorf makes of its arguments.
func Unreadable(format string, args ...any) error {
	return UnreadableError{fmt.Errorf(format, args...)}
}
