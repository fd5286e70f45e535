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

// ParseIdent is [rawjson.Identify]. It copies what it finds into one string that all of the Ident share.
func ParseIdent(raw []byte, namespaced bool) (Ident, error) {
	m, err := rawjson.Identify(raw, namespaced)
	if err != nil {
		return Ident{}, err
	}
	var space [512]byte
	b := append(space[:0], m.Namespace...)
	nameAt := len(b)
	b = append(b, m.Name...)
	uidAt := len(b)
	b = append(b, m.UID...)
	versionAt := len(b)
	s := string(append(b, m.Version...))
	return Ident{
		Namespace: s[:nameAt], Name: s[nameAt:uidAt], UID: s[uidAt:versionAt], ResourceVersion: s[versionAt:],
	}, nil
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
