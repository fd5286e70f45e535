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

// numbers are the three of a sequence.
type numbers struct {
	epoch, version uint64
	step           int
}

const (
	stepState = iota
	stepEnd   // of an object
)

// form is that of the attribute sequence.
var form = regexp.MustCompile(`^([0-9]{10})\.([0-9]{20})\.([01])$`)

// numbersOf returns the numbers of a sequence; false if it has another form.
func numbersOf(sequence string) (n numbers, ok bool) {
	parts := form.FindStringSubmatch(sequence)
	if parts == nil {
		return n, false
	}
	var err1, err2 error
	n.epoch, err1 = strconv.ParseUint(parts[1], 10, 64)
	n.version, err2 = strconv.ParseUint(parts[2], 10, 64)
	n.step, _ = strconv.Atoi(parts[3])
	return n, err1 == nil && err2 == nil
}

// String is the attribute's value.
func (n numbers) String() string { return fmt.Sprintf("%010d.%020d.%d", n.epoch, n.version, n.step) }

// tail is what an id may end in: the number of a repetition, a rejection.
var tail = regexp.MustCompile(`^(\.r[1-9][0-9]*)?(\.rejected)?$`)

// repetition is in the id of a republished event.
var repetition = regexp.MustCompile(`\.r[1-9][0-9]*(\.rejected)?$`)

// again reports whether an event is a republished one.
func (e *Entry) again() bool { return repetition.MatchString(e.ID) }

// idProblem returns what is wrong with the id of an event about an object, or nothing. Lost says that the log may have
// lost what the event repeats: a stream that retires ends again what was ended there.
func (l *line) idProblem(lost bool) string {
	base := fmt.Sprintf("%s.%d.%d.%d", l.UID, l.epoch, l.version, l.step)
	end, is := strings.CutPrefix(l.ID, base)
	switch again := l.again(); {
	case !is || !tail.MatchString(end):
		return fmt.Sprintf("the id is not %s with what may follow it", base)
	case l.Reason == "resync" && !again:
		return "a repetition without .r in its id"
	case again && l.Reason != "resync" && l.Reason != "repair" && (!lost || l.op != Deleted):
		return "it is no repetition, and has .r in its id"
	case (l.Type == typeRejected) != strings.HasSuffix(end, ".rejected"):
		return "only a rejected event's id ends in .rejected"
	default:
		return ""
	}
}

// sequenceProblem returns what is wrong with the sequence of an event by itself, or nothing.
func (l *line) sequenceProblem() string {
	switch {
	case (l.op == Deleted) != (l.step == stepEnd):
		return fmt.Sprintf("its step is %d", l.step)
	case l.step == stepState && l.ResourceVersion != fmt.Sprint(l.version):
		return "its sequence is not of its resourceversion " + l.ResourceVersion
	default:
		return ""
	}
}

// addressProblem says what is wrong with where the log has an entry, or nothing. The subject of NATS is that of the
// default pattern.
func (s Stream) addressProblem(e *Entry) string {
	namespace, name, subject := e.Namespace, e.Name, e.key()
	switch {
	case !e.everywhere():
	case e.Type == typeGap:
		namespace, name, subject = "", "_gap", ""
	case e.Type == typeResyncStarted, e.Type == typeResyncCompleted:
		namespace, name, subject = "", "_resync", ""
	default:
		namespace, name, subject = "", "_snapshot", ""
	}
	group := cmp.Or(s.Resource.Group, "core")
	key := s.partitionKey(cmp.Or(namespace, "_") + "/" + name)
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

// partitionKey returns the attribute of an object, by its key.
func (s Stream) partitionKey(key string) string {
	if !strings.Contains(key, "/") {
		key = "_/" + key
	}
	return strings.Join([]string{s.Cluster, cmp.Or(s.Resource.Group, "core"), s.Resource.Resource, key}, "/")
}

var (
	dots = strings.NewReplacer(".", "_")
	// escape is for names as Kubernetes allows them.
	escape = strings.NewReplacer(".", "%2E", "%", "%25")
)

// scope is the part of a marker's id that stands for namespace and selectors. docs/event-reference.md promises eight
// hex digits; the bridge makes them with FNV-1a-32, and another hash would be another id for what a consumer has seen
// already.
func (s Stream) scope() string {
	h := fnv.New32a()
	_, _ = h.Write([]byte(s.Namespace + "\x00" + s.LabelSelector + "\x00"))
	return fmt.Sprintf("%08x", h.Sum32())
}
