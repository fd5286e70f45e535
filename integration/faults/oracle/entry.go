// SPDX-License-Identifier: Apache-2.0

package oracle

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Entry is one message of the log: an event in binary mode.
type Entry struct {
	// Place is where it is in the log; entries are checked in this order. Those of a log of several partitions get
	// theirs when they are judged.
	Place uint64
	// Record is zero where the log is one sequence.
	Record
	// Recorded is when the bridge read it. Stored is when the broker got it, and Address the NATS subject under which
	// it has it. They are zero where that is not known.
	Recorded, Stored time.Time
	Address          string
	// MsgID is what the broker recognises a repetition by; empty where the log does not tell.
	MsgID string

	Type, ID, Source, Subject, Pipeline string
	Namespace, Name                     string
	UID, ResourceVersion                string
	Reason, PartitionKey                string
	Payload, BaseVersion                string
	// Sequence is the attribute. Markers have none.
	Sequence string
	// Body is a hash of the content; empty where the data is no object, or not all of it.
	Body string
	// SampledRate is 1 where the attribute is absent.
	SampledRate int
	// WriterTerm is the term of the leader that published it, 0 where the attribute is absent.
	WriterTerm int

	Headers map[string][]string
	Data    []byte

	// patched is what a patch makes of the object before.
	patched []byte
}

// The types of events that are checked. An entry of another type is a violation, except the announcement of a writer.
const (
	typeResource  = "io.kube-eventbridge.resource."
	typeVersion   = ".v1"
	typeRejected  = typeResource + "rejected" + typeVersion
	typeStream    = "io.kube-eventbridge.stream."
	typeGap       = typeStream + "gap" + typeVersion
	typeStarted   = typeStream + "snapshot-started" + typeVersion
	typeCompleted = typeStream + "snapshot-completed" + typeVersion

	typeResyncStarted   = typeStream + "resync-started" + typeVersion
	typeResyncCompleted = typeStream + "resync-completed" + typeVersion
)

// NewEntry makes an entry of a message in binary mode, with the headers of NATS or of Kafka, which has no need of
// escapes. It keeps both. An error says that it is no CloudEvent in binary mode, or that an integer attribute is
// none.
func NewEntry(headers map[string][]string, data []byte, place uint64) (Entry, error) {
	as := map[string]string{}
	e := Entry{Place: place, SampledRate: 1, Headers: headers, Data: data}
	for name, values := range headers {
		lower := strings.ToLower(name)
		attribute, is := strings.CutPrefix(lower, "ce-")
		plain, kafka := strings.CutPrefix(lower, "ce_")
		switch {
		case len(values) == 0:
		case lower == "nats-msg-id":
			e.MsgID = values[0]
		case kafka:
			as[plain] = values[0]
		case is:
			v, err := url.PathUnescape(values[0])
			if err != nil {
				return Entry{}, fmt.Errorf("read entry %d: attribute %s: %w", place, attribute, err)
			}
			as[attribute] = v
		}
	}
	for name, field := range map[string]*string{
		"type": &e.Type, "id": &e.ID, "source": &e.Source, "subject": &e.Subject, "pipeline": &e.Pipeline,
		"namespace": &e.Namespace, "name": &e.Name, "objectuid": &e.UID, "resourceversion": &e.ResourceVersion,
		"reason": &e.Reason, "partitionkey": &e.PartitionKey, "sequence": &e.Sequence, "payload": &e.Payload,
		"baseversion": &e.BaseVersion,
	} {
		*field = as[name]
	}
	for name, field := range map[string]*int{"sampledrate": &e.SampledRate, "writerterm": &e.WriterTerm} {
		if v, there := as[name]; there {
			n, err := strconv.Atoi(v)
			if err != nil {
				return Entry{}, fmt.Errorf("read entry %d: attribute %s: %w", place, name, err)
			}
			*field = n
		}
	}
	e.Recorded, _ = time.Parse(time.RFC3339, as["recordedtime"]) // one that is no time counts as not known
	e.Body = contentOf(e.content())
	if as["specversion"] != "1.0" || e.Type == "" || e.ID == "" || e.Source == "" {
		return Entry{}, fmt.Errorf("read entry %d: not a CloudEvent 1.0 in binary mode", place)
	}
	return e, nil
}

// content is the object that an event tells; nil where that is not known, or less than an object. Of a patch it is
// known when it has been applied.
func (e *Entry) content() []byte {
	switch {
	case e.Type == typeRejected:
	case e.patches():
		return e.patched
	case e.Payload == "object", e.Payload == "":
		return e.Data
	case e.Payload == "change":
		var change struct {
			Object json.RawMessage `json:"object"`
		}
		if json.Unmarshal(e.Data, &change) == nil {
			return change.Object
		}
	}
	return nil
}

// patches reports whether the data is a patch of the state before.
func (e *Entry) patches() bool {
	return strings.HasSuffix(e.Payload, "-patch") && e.Type != typeRejected
}

// dataProblem says what is wrong with the data of an event about an object, or nothing: it is that object, in that
// version, and of the resource's kind.
func dataProblem(e *Entry, resource schema.GroupVersionResource) string {
	data := e.Data
	if e.patches() || e.Payload == "change" {
		if data = e.content(); data == nil && e.patches() {
			return ""
		}
	}
	var object metav1.PartialObjectMetadata
	switch err := json.Unmarshal(data, &object); {
	case err != nil:
		return "its data is no object"
	case string(object.UID) != e.UID || object.ResourceVersion != e.ResourceVersion || object.Name != e.Name ||
		object.Namespace != e.Namespace:
		return fmt.Sprintf("its data is of %s/%s, uid %s, version %s", object.Namespace, object.Name, object.UID,
			object.ResourceVersion)
	}
	if of, _ := meta.UnsafeGuessKindToResource(object.GroupVersionKind()); of != resource {
		return fmt.Sprintf("its data is of the kind %q in %q", object.Kind, object.APIVersion)
	}
	return ""
}

func contentOf(data []byte) string {
	if body, more, err := bodyOf(data); err == nil && more {
		return body
	}
	return ""
}

// common are the attributes that every event has, or may have; ofObject those of events about objects alone.
const (
	common = " specversion id type source time datacontenttype payload pipeline recordedtime clustername apiversion kind" +
		" resourceversion partitionkey "
	ofObject = " subject resource namespace name objectuid sequence reason redacted fieldmanager sampledrate baseversion" +
		" writerterm dataref datasize "
)

// attributeProblem returns what is wrong with the names of an entry's attributes, or nothing.
func (e *Entry) attributeProblem() string {
	for _, header := range sortedKeys(e.Headers) {
		lower := strings.ToLower(header)
		name, is := strings.CutPrefix(lower, "ce-")
		if !is {
			name, is = strings.CutPrefix(lower, "ce_")
		}
		allowed := common
		if !e.everywhere() {
			allowed += ofObject
		}
		if is && !strings.Contains(allowed, " "+name+" ") {
			return "the attribute " + name + " is not one of its type"
		}
	}
	if e.Sequence != "" && e.everywhere() {
		return "a marker has a sequence"
	}
	return ""
}

func (e *Entry) key() string {
	if e.Namespace == "" {
		return e.Name
	}
	return e.Namespace + "/" + e.Name
}

// operation is what the event says of an object; ok is false where it is not about one. A rejected event stands for
// the one that the broker refused.
func (e *Entry) operation() (op Op, ok bool) {
	typ := e.Type
	if typ == typeRejected {
		var refused struct {
			Type string `json:"type"`
		}
		if json.Unmarshal(e.Data, &refused) == nil {
			typ = refused.Type
		}
	}
	word := strings.TrimSuffix(strings.TrimPrefix(typ, typeResource), typeVersion)
	switch op = Op(word); op {
	case Added, Updated, Deleted:
		return op, typ == typeResource+word+typeVersion
	default:
		return "", false
	}
}

func (e *Entry) String() string {
	place := ""
	if e.Record != (Record{}) {
		place = " at " + e.Record.String()
	}
	s := fmt.Sprintf("#%d%s %s %s", e.Place, place, strings.TrimPrefix(e.Type, "io.kube-eventbridge."), e.ID)
	for _, part := range []struct{ name, value string }{
		{"version", e.ResourceVersion},
		{"sequence", e.Sequence},
		{"reason", e.Reason},
		{"sampledrate", strconv.Itoa(e.SampledRate)},
		{"writerterm", strconv.Itoa(e.WriterTerm)},
	} {
		if part.value != "" && part.value != "0" && (part.name != "sampledrate" || part.value != "1") {
			s += " " + part.name + "=" + part.value
		}
	}
	return s
}
