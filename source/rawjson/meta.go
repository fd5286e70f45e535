// SPDX-License-Identifier: Apache-2.0

package rawjson

import (
	"errors"
)

// field is a member of metadata that the scanner looks for; fields are sets of them.
type field uint8

const (
	fieldNamespace field = 1 << iota
	fieldName
	fieldUID
	fieldVersion
)

// Meta is what identifies an object; usually sub-slices of it.
type Meta struct {
	found                         field
	Namespace, Name, UID, Version []byte
}

var errMalformed = errors.New("malformed JSON")

// Identify reads the identity out of an object. One that lacks a name, a uid or a resourceVersion is an error; all
// errors are an UnreadableError. The namespace is read only if namespaced, and may be absent.
//
// It is no validation: reading stops where the identity is complete, at the latest where metadata ends, and of a
// member that occurs twice the first counts. API servers send no such thing.
func Identify(raw []byte, namespaced bool) (Meta, error) {
	want := fieldName | fieldUID | fieldVersion
	if namespaced {
		want |= fieldNamespace
	}
	m, err := scanMeta(raw, want)
	if err != nil {
		return Meta{}, Unreadable("read metadata: %w", err)
	}
	switch {
	case len(m.Name) == 0:
		return Meta{}, Unreadable("object has no metadata.name")
	case len(m.UID) == 0:
		return Meta{}, Unreadable("object %q has no metadata.uid", m.Name)
	case len(m.Version) == 0:
		return Meta{}, Unreadable("object %q has no metadata.resourceVersion", m.Name)
	}
	return m, nil
}

// Version returns metadata.resourceVersion: all that a bookmark has. All errors are an UnreadableError.
func Version(object []byte) (string, error) {
	v, err := FindVersion(object)
	if err != nil {
		return "", Unreadable("read metadata: %w", err)
	}
	if len(v) == 0 {
		return "", Unreadable("object has no metadata.resourceVersion")
	}
	return string(v), nil
}

// FindVersion returns metadata.resourceVersion, without its quotes: a part of the object, unless something in it is
// escaped. It is empty where the object has none.
func FindVersion(object []byte) ([]byte, error) {
	m, err := scanMeta(object, fieldVersion)
	return m.Version, err
}

// scanMeta looks for the wanted members of the object's metadata and stops once it has them.
// A member that is null counts as absent.
func scanMeta(object []byte, want field) (Meta, error) {
	var m Meta
	c := cursor{b: object}
	for key, ok := c.enter(); ok; key, ok = c.next() {
		if string(key) == "metadata" {
			c.metadata(&m, want)
			break
		}
		c.skip()
	}
	if c.bad {
		return Meta{}, errMalformed
	}
	return m, nil
}

// metadata reads the object at the cursor into m, as far as needed.
func (c *cursor) metadata(m *Meta, want field) {
	if c.null() {
		return
	}
	for key, ok := c.enter(); ok; key, ok = c.next() {
		var f field
		var to *[]byte
		switch string(key) {
		case "namespace":
			f, to = fieldNamespace, &m.Namespace
		case "name":
			f, to = fieldName, &m.Name
		case "uid":
			f, to = fieldUID, &m.UID
		case "resourceVersion":
			f, to = fieldVersion, &m.Version
		}
		if f&want&^m.found == 0 {
			c.skip()
			continue
		}
		m.found |= f
		if !c.null() {
			*to = c.text()
		}
		if m.found == want {
			return
		}
	}
}
