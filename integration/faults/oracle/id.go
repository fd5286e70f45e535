// SPDX-License-Identifier: Apache-2.0

package oracle

import (
	"cmp"
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

// addressProblem says what is wrong with where the log has an entry, or nothing. The subject of NATS is that of the
// default pattern.
func (s Stream) addressProblem(e *Entry) string {
	namespace, name, subject := e.Namespace, e.Name, e.key()
	switch {
	case !e.everywhere():
	case e.Type == typeGap:
		namespace, name, subject = "", "_gap", ""
	default:
		namespace, name, subject = "", "_snapshot", ""
	}
	group := cmp.Or(s.Resource.Group, "core")
	key := strings.Join([]string{s.Cluster, group, s.Resource.Resource, cmp.Or(namespace, "_"), name}, "/")
	address := strings.Join([]string{
		"k8s", dots.Replace(s.Cluster), dots.Replace(group), s.Resource.Resource,
		cmp.Or(escape.Replace(namespace), "_"), escape.Replace(name),
	}, ".")
	switch {
	case e.PartitionKey != key:
		return fmt.Sprintf("its partitionkey is %q, not %q", e.PartitionKey, key)
	case e.Subject != subject:
		return fmt.Sprintf("its subject is %q, not %q", e.Subject, subject)
	case e.Address != "" && e.Address != address:
		return fmt.Sprintf("it is stored under %q, not %q", e.Address, address)
	default:
		return ""
	}
}

var (
	dots = strings.NewReplacer(".", "_")
	// escape is for names as Kubernetes allows them.
	escape = strings.NewReplacer(".", "%2E", "%", "%25")
)

// scope is the part of a marker's id that stands for namespace and selectors. docs/events.md promises eight hex
// digits; the bridge makes them with FNV-1a-32, and another hash would be another id for what a consumer has seen
// already.
func (s Stream) scope() string {
	h := fnv.New32a()
	_, _ = h.Write([]byte(s.Namespace + "\x00" + s.LabelSelector + "\x00"))
	return fmt.Sprintf("%08x", h.Sum32())
}
