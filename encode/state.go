// SPDX-License-Identifier: Apache-2.0

package encode

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/kube-eventbridge/kube-eventbridge/encode/jsonscan"
	"github.com/kube-eventbridge/kube-eventbridge/internal/sequence"
	"github.com/kube-eventbridge/kube-eventbridge/sink"
	"github.com/kube-eventbridge/kube-eventbridge/source"
)

// State is what a message of the log says about the object it is about.
type State struct {
	// ID, Type, Source and Pipeline are the event's attributes, Type and Source as the profile Own has them.
	ID, Type, Source, Pipeline string
	// Namespace is empty for a cluster-scoped object. Name and UID are empty for markers, which are about no object.
	Namespace, Name, UID, ResourceVersion string
	// Kind is that of the object, or of those that a marker is about.
	Kind string
	// Sequence is the event's; zero for markers, which have none.
	Sequence sequence.Sequence
	// WriterTerm is the term of the writer; 0 where none is told.
	WriterTerm int64
	// Reason is the event's; empty for markers.
	Reason source.Reason
	// Deleted says that the object is gone; Rejected, that the event of this state was refused by the broker and the
	// message stands in its place.
	Deleted, Rejected bool
}

// Key returns "namespace/name", or "name" for a cluster-scoped object.
func (s State) Key() string {
	if s.Namespace == "" {
		return s.Name
	}
	return s.Namespace + "/" + s.Name
}

// OldFormatError says that an older version of the bridge wrote a message, in another form.
type OldFormatError struct {
	// Message is its place in the log.
	Message uint64
}

// Error implements error.
func (e *OldFormatError) Error() string {
	return fmt.Sprintf("message %d: this log was written by an older version of the bridge, whose events have another "+
		"form; name a new stream or topic, and run `kube-eventbridge checkpoint reset`", e.Message)
}

// StateOf reads a message that was written in either mode. The data of a binary one is not looked at and may be
// missing. The error says that s is not an event of a bridge. It is an [OldFormatError] if an older version wrote s.
func StateOf(s *sink.Stored) (State, error) {
	var st reading
	var err error
	if IsStructured(s) {
		err = st.parse(s.Data)
	} else {
		for _, a := range s.Attributes {
			st.set(a.Name, a.Value)
		}
	}
	st.Type, st.Source = InOwn(st.Type, st.Source, st.key, st.apiVersion)
	if err == nil && (st.ID == "" || st.Source == "") {
		err = errors.New("it has no id or no source")
	}
	if err == nil && !strings.HasPrefix(st.Type, "io.kube-eventbridge.") {
		err = fmt.Errorf("its type is %q", st.Type)
	}
	if err == nil && isOrdered(st.Type) {
		if !strings.Contains(st.sequence, ".") {
			return State{}, &OldFormatError{s.Sequence}
		}
		st.Sequence, err = sequence.Parse(st.sequence)
	}
	if err != nil {
		return State{}, fmt.Errorf("read message %d: not an event of a bridge: %w", s.Sequence, err)
	}
	st.Rejected = st.Type == TypeRejected
	st.Deleted = st.Type == TypeDeleted || st.Rejected && st.Sequence.Step == sequence.End
	return st.State, nil
}

// MarkerData are what the data of a marker say, as far as a bridge that starts needs it.
type MarkerData struct {
	Namespace string
	Epoch     uint64
	// N is the number of a resync; 0 of other markers.
	N int64
}

// MarkerOf returns the data of a marker, in either mode. They are zero if they were not read.
func MarkerOf(s *sink.Stored) (d MarkerData) {
	data := s.Data
	if IsStructured(s) {
		var event struct{ Data json.RawMessage }
		if json.Unmarshal(data, &event) != nil {
			return MarkerData{}
		}
		data = event.Data
	}
	if json.Unmarshal(data, &d) != nil {
		return MarkerData{}
	}
	return d
}

// isOrdered reports whether events of a type have a sequence.
func isOrdered(typ string) bool {
	return typ == TypeAdded || typ == TypeUpdated || typ == TypeDeleted || typ == TypeRejected
}

// IsStructured reports whether the data of a message is a whole event, in JSON.
func IsStructured(s *sink.Stored) bool {
	n := len(contentStructured)
	return len(s.ContentType) >= n && strings.EqualFold(s.ContentType[:n], contentStructured)
}

// reading is a state while it is read.
type reading struct {
	State
	key, apiVersion, sequence string
}

func (s *reading) set(name, value string) {
	switch name {
	case "id":
		s.ID = value
	case "type":
		s.Type = value
	case "source":
		s.Source = value
	case "pipeline":
		s.Pipeline = value
	case "partitionkey":
		s.key = value
	case "apiversion":
		s.apiVersion = value
	case "kind":
		s.Kind = value
	case "namespace":
		s.Namespace = value
	case "name":
		s.Name = value
	case "objectuid":
		s.UID = value
	case "resourceversion":
		s.ResourceVersion = value
	case "sequence":
		s.sequence = value
	case "reason":
		s.Reason = source.Reason(value)
	case "writerterm":
		s.WriterTerm, _ = strconv.ParseInt(value, 10, 64) // what is not a number counts as none
	}
}

// parse reads a structured event.
func (s *reading) parse(data []byte) error {
	dec := jsontext.NewDecoder(bytes.NewBuffer(data))
	if t, err := dec.ReadToken(); err != nil || t.Kind() != '{' {
		return errors.Join(jsonscan.ErrNotObject, err)
	}
	for dec.PeekKind() == '"' {
		t, err := dec.ReadToken()
		if err != nil {
			return err
		}
		name := t.String()
		if k := dec.PeekKind(); k != '"' && k != '0' {
			if err := dec.SkipValue(); err != nil {
				return err
			}
			continue
		}
		if t, err = dec.ReadToken(); err != nil {
			return err
		}
		s.set(name, t.String())
	}
	_, err := dec.ReadToken()
	return err
}

// IsOfCluster reports whether a source attribute names something of the cluster: a resource, or a writer.
func IsOfCluster(src, cluster string) bool { return strings.HasPrefix(src, clusterPath(cluster)) }

func clusterPath(cluster string) string { return "/clusters/" + cluster + "/" }

// ResourceOf returns group, version and resource of a source attribute; false if it is not one of the cluster.
func ResourceOf(src, cluster string) (r source.Resource, ok bool) {
	rest, ok := strings.CutPrefix(src, clusterPath(cluster))
	if !ok {
		return r, false
	}
	parts := strings.Split(rest, "/")
	switch {
	case len(parts) == 3 && parts[0] == "api":
		r.Version, r.Resource = parts[1], parts[2]
	case len(parts) == 4 && parts[0] == "apis":
		r.Group, r.Version, r.Resource = parts[1], parts[2], parts[3]
	default:
		return r, false
	}
	return r, sourceOf(cluster, r) == src
}
