// SPDX-License-Identifier: Apache-2.0

package checkpoint

import "k8s.io/apimachinery/pkg/util/resourceversion"

// Newer reports whether a state at version rv, the object's end if deleted, is news to a log that has row.
//
// Versions decide, whatever the uid: one name's lives follow each other in the order of versions. A deletion at the
// version of a live row is news, because an object found missing is deleted at the version last known of it. The
// version of a tombstone is the one up to which the object is known to be absent. Where versions are not numbers
// they have no order, and everything but the same version again is news. So is everything to a row that is superseded, but for
// the end of what has ended.
func Newer(row Row, rv string, deleted bool) bool {
	if row.Superseded {
		return !deleted || !row.Deleted
	}
	if rv == row.ResourceVersion {
		return deleted && !row.Deleted
	}
	return later(rv, row.ResourceVersion)
}

// later reports whether version a comes after b. Where they have no order the one that was shown last, a, does.
func later(a, b string) bool {
	if a == b {
		return false
	}
	c, err := resourceversion.CompareResourceVersion(a, b)
	return err != nil || c > 0
}

// passed reports whether version is at or before position. Where versions have no order nothing can be known, and
// nothing is waited for but a position.
func passed(position, version string) bool {
	return position != "" && order(version, position) <= 0
}

// order compares two versions; those that have no order are equal.
func order(a, b string) int {
	c, err := resourceversion.CompareResourceVersion(a, b)
	if err != nil {
		return 0
	}
	return c
}
