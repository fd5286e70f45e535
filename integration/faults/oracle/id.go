// SPDX-License-Identifier: Apache-2.0

package oracle

import (
	"fmt"
	"hash/fnv"
	"regexp"
	"strconv"
	"strings"
)

// tail is what an id may end in: a repetition, a changed selection, a history, a rejection.
var tail = regexp.MustCompile(`^(\.r[0-9A-Za-z-]+|\.s[0-9A-Za-z]+|\.h[1-9][0-9]*)*(\.rejected)?$`)

// ending is the history in an id.
var ending = regexp.MustCompile(`\.h([1-9][0-9]*)(?:\.|$)`)

// suffixes are the parts of an id's tail, by their letter.
func suffixes(tail string) map[byte]string {
	parts := map[byte]string{}
	for p := range strings.SplitSeq(strings.TrimSuffix(tail, ".rejected"), ".") {
		if p != "" {
			parts[p[0]] = p[1:]
		}
	}
	return parts
}

// idProblem says what is wrong with the id of an event about an object, or nothing.
func idProblem(e *Entry, op Op, selective bool) string {
	base := e.UID
	if op != Deleted || selective {
		base += "." + e.ResourceVersion
	}
	if op == Deleted {
		base += ".deleted"
	}
	end, is := strings.CutPrefix(e.ID, base)
	if !is || !tail.MatchString(end) {
		return fmt.Sprintf("the id is not %s with what may follow it", base)
	}
	history := ""
	if e.History != 0 {
		history = strconv.Itoa(e.History)
	}
	switch parts := suffixes(end); {
	case parts['h'] != history:
		return fmt.Sprintf("the id does not say history %d", e.History)
	case (e.Reason == "repair" || e.Reason == "resync") && parts['r'] == "":
		return "a repetition without .r in its id"
	case (e.Type == typeRejected) != strings.HasSuffix(end, ".rejected"):
		return "only a rejected event's id ends in .rejected"
	default:
		return ""
	}
}

// reselected says that an event exists because the selection changed, and not the object.
func reselected(e *Entry) bool {
	end := strings.TrimPrefix(e.ID, e.UID)
	return strings.Contains(end, ".s")
}

// scope is the part of a marker's id that stands for namespace and selectors.
func (s Stream) scope() string {
	h := fnv.New32a()
	_, _ = h.Write([]byte(s.Namespace + "\x00" + s.LabelSelector + "\x00"))
	return fmt.Sprintf("%08x", h.Sum32())
}
