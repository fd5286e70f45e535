// SPDX-License-Identifier: Apache-2.0

package source

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Identity is an [Ident] that knows its key. All its strings share one allocation.
type Identity struct {
	Ident
	key string
}

// Key returns what [Ident.Key] returns, without building it again.
func (i Identity) Key() string {
	if i.key == "" {
		return i.Ident.Key()
	}
	return i.key
}

// field is a member of metadata that the scanner looks for; fields are sets of them.
type field uint8

const (
	fieldNamespace field = 1 << iota
	fieldName
	fieldUID
	fieldVersion
)

// meta is what the scanner found; usually sub-slices of the object.
type meta struct {
	found                         field
	namespace, name, uid, version []byte
}

var errMalformed = errors.New("malformed JSON")

// parseObject reads the identity out of an object. One that lacks a name, a uid or a resourceVersion is an error; all
// errors are an unreadableError. The namespace is read only if namespaced, and may be absent.
//
// It is no validation: reading stops where the identity is complete, at the latest where metadata ends, and of a
// member that occurs twice the first counts. API servers send no such thing.
func parseObject(raw []byte, namespaced bool) (Identity, error) {
	want := fieldName | fieldUID | fieldVersion
	if namespaced {
		want |= fieldNamespace
	}
	m, err := scanMeta(raw, want)
	if err != nil {
		return Identity{}, unreadable("read metadata: %w", err)
	}
	switch {
	case len(m.name) == 0:
		return Identity{}, unreadable("object has no metadata.name")
	case len(m.uid) == 0:
		return Identity{}, unreadable("object %q has no metadata.uid", m.name)
	case len(m.version) == 0:
		return Identity{}, unreadable("object %q has no metadata.resourceVersion", m.name)
	}
	return joinIdentity(m.namespace, m.name, m.uid, m.version), nil
}

// parseVersion reads only metadata.resourceVersion: all that a bookmark has. All errors are an unreadableError.
func parseVersion(raw []byte) (string, error) {
	m, err := scanMeta(raw, fieldVersion)
	if err != nil {
		return "", unreadable("read metadata: %w", err)
	}
	if len(m.version) == 0 {
		return "", unreadable("object has no metadata.resourceVersion")
	}
	return string(m.version), nil
}

// parseStatus decodes the object of an error frame. What is no Status becomes one that says so, with code 500.
func parseStatus(raw []byte) *metav1.Status {
	status := &metav1.Status{}
	err := json.Unmarshal(raw, status)
	if err == nil && status.Kind != "Status" {
		err = fmt.Errorf("an object of kind %q", status.Kind)
	}
	if err == nil {
		return status
	}
	return &metav1.Status{
		Status:  metav1.StatusFailure,
		Reason:  metav1.StatusReasonInternalError,
		Code:    http.StatusInternalServerError,
		Message: fmt.Sprintf("the API server sent an error that is no Status: %v", err),
	}
}

// newIdentity returns the identity of id, which it copies.
func newIdentity(id Ident) Identity {
	return joinIdentity(id.Namespace, id.Name, id.UID, id.ResourceVersion)
}

// joinIdentity puts "namespace/name", uid and version into one string and cuts it up.
func joinIdentity[T string | []byte](namespace, name, uid, version T) Identity {
	var space [512]byte
	b := space[:0]
	if len(namespace) > 0 {
		b = append(append(b, namespace...), '/')
	}
	nameAt := len(b)
	b = append(b, name...)
	uidAt := len(b)
	b = append(b, uid...)
	versionAt := len(b)
	b = append(b, version...)
	s := string(b)
	return Identity{
		Ident: Ident{Namespace: s[:len(namespace)], Name: s[nameAt:uidAt], UID: s[uidAt:versionAt], ResourceVersion: s[versionAt:]},
		key:   s[:uidAt],
	}
}

// scanMeta looks for the wanted members of the object's metadata and stops once it has them.
// A member that is null counts as absent.
func scanMeta(object []byte, want field) (meta, error) {
	var m meta
	c := cursor{b: object}
	for key, ok := c.enter(); ok; key, ok = c.next() {
		if string(key) == "metadata" {
			c.metadata(&m, want)
			break
		}
		c.skip()
	}
	if c.bad {
		return meta{}, errMalformed
	}
	return m, nil
}

// metadata reads the object at the cursor into m, as far as needed.
func (c *cursor) metadata(m *meta, want field) {
	if c.null() {
		return
	}
	for key, ok := c.enter(); ok; key, ok = c.next() {
		var f field
		var to *[]byte
		switch string(key) {
		case "namespace":
			f, to = fieldNamespace, &m.namespace
		case "name":
			f, to = fieldName, &m.name
		case "uid":
			f, to = fieldUID, &m.uid
		case "resourceVersion":
			f, to = fieldVersion, &m.version
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
