// SPDX-License-Identifier: Apache-2.0

package source

import (
	"strconv"

	"github.com/kube-eventbridge/kube-eventbridge/source/rawjson"
)

// Ident identifies one state of one object.
type Ident struct {
	// Namespace is empty for a cluster-scoped object.
	Namespace, Name, UID, ResourceVersion string
}

// Key returns "namespace/name", or "name" for a cluster-scoped object.
func (i Ident) Key() string {
	if i.Namespace == "" {
		return i.Name
	}
	return i.Namespace + "/" + i.Name
}

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

// ParseIdentity is [rawjson.Identify], and copies what it finds.
func ParseIdentity(raw []byte, namespaced bool) (Identity, error) {
	m, err := rawjson.Identify(raw, namespaced)
	if err != nil {
		return Identity{}, err
	}
	return joinIdentity(m.Namespace, m.Name, m.UID, m.Version), nil
}

// NewIdentity returns the identity of id, which it copies.
func NewIdentity(id Ident) Identity {
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
		Ident: Ident{
			Namespace: s[:len(namespace)], Name: s[nameAt:uidAt], UID: s[uidAt:versionAt],
			ResourceVersion: s[versionAt:],
		},
		key: s[:uidAt],
	}
}

// Number returns a version as a number. Not all are, and only API servers that keep objects in etcd count revisions.
func Number(version string) (n uint64, ok bool) {
	n, err := strconv.ParseUint(version, 10, 64)
	return n, err == nil && version[0] != '0'
}

// Later returns b if it is a later version than a, else a.
func Later(a, b string) string {
	m, isNumber := Number(a)
	if n, ok := Number(b); ok && isNumber && n > m {
		return b
	}
	return a
}
