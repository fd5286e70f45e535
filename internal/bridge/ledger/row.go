// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"strings"

	"k8s.io/apimachinery/pkg/util/resourceversion"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	"github.com/kube-eventbridge/kube-eventbridge/encode"
	"github.com/kube-eventbridge/kube-eventbridge/internal/sequence"
	"github.com/kube-eventbridge/kube-eventbridge/source"
)

// LastOf returns a row for the rules of package sequence; nil where there is none.
func LastOf(row *checkpoint.Row, exists bool) *sequence.Row {
	if !exists {
		return nil
	}
	last := row.Last()
	return &last
}

// ObjectOf returns a listed object for the rules of package sequence. Of one that has the version of its row, when it
// was written stands for what it holds. Raw, its JSON, is looked at where the row says that too.
func ObjectOf(uid string, version uint64, raw []byte, last *sequence.Row) sequence.Object {
	o := sequence.Object{UID: uid, Version: version}
	if last != nil && last.Hash != 0 && last.Version == version {
		o.Hash = uint64(encode.Written(raw))
	}
	return o
}

// EventOf returns a change for the rules of package sequence.
func EventOf(c *source.Change) sequence.Event {
	e := sequence.Event{
		UID: c.UID, Sequence: sequence.Sequence{Epoch: c.Epoch, Version: c.Version}, Again: c.Again != 0,
	}
	if c.Op == source.Deleted {
		e.Step = sequence.End
	}
	return e
}

// RowOfChange returns the row that a change's event leaves.
func RowOfChange(c *source.Change) checkpoint.Row {
	return checkpoint.Row{
		UID: c.UID, ResourceVersion: c.ResourceVersion, Epoch: c.Epoch, Version: c.Version, Deleted: c.Op == source.Deleted,
		Written: c.Written,
	}
}

// Apply returns the row that an event in the log leaves, after known if that exists: an older state moves only the
// place.
func Apply(known checkpoint.Row, exists bool, next checkpoint.Row) checkpoint.Row {
	last, event := LastOf(&known, exists), next.Last()
	row := sequence.Apply(last, event)
	if row.Sequence == event.Sequence {
		next.Rejected, next.Written = row.Rejected, int64(row.Hash)
		return next
	}
	known.Behind, known.Fresh = true, next.Fresh
	known.Sequence, known.Partition = next.Sequence, next.Partition
	return known
}

// RowOfState returns the row that an event in the log leaves.
func RowOfState(has *encode.State) checkpoint.Row {
	return checkpoint.Row{
		UID: has.UID, ResourceVersion: has.ResourceVersion, Epoch: has.Sequence.Epoch, Version: has.Sequence.Version,
		Deleted: has.Deleted, Rejected: has.Rejected,
	}
}

// SameVersion reports whether a row has that version of an object. Where when it was written is known of both, that is
// the same too.
func SameVersion(row *checkpoint.Row, id source.Ident, written int64) bool {
	return row.UID == id.UID && row.ResourceVersion == id.ResourceVersion &&
		(row.Written == written || row.Written == 0 || written == 0)
}

// later reports whether version a comes after b. Where they have no order the one that was shown last, a, does.
func later(a, b string) bool {
	if a == b {
		return false
	}
	c, err := resourceversion.CompareResourceVersion(a, b)
	return err != nil || c > 0
}

// After reports whether version a comes after b. Versions that are not numbers come after nothing.
func After(a, b string) bool {
	order, err := resourceversion.CompareResourceVersion(a, b)
	return err == nil && order > 0
}

// Numeric returns a version as a number; 0 where it is empty or no number.
func Numeric(version string) uint64 {
	n, _ := checkpoint.Number(version)
	return n
}

// Ident is the inverse of source.Ident.Key. Neither a namespace nor a name contains a slash.
func Ident(key string, row *checkpoint.Row) source.Ident {
	namespace, name, found := strings.Cut(key, "/")
	if !found {
		namespace, name = "", key
	}
	return source.Ident{Namespace: namespace, Name: name, UID: row.UID, ResourceVersion: row.ResourceVersion}
}
