// SPDX-License-Identifier: Apache-2.0

package kafka

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/kube-eventbridge/kube-eventbridge/internal/kafka"
	"github.com/kube-eventbridge/kube-eventbridge/sink"
)

// Decode returns what a record says. Its ID is the event's, in either mode; its data is left out unless it is asked for
// or has the event's attributes. Names of headers may have capitals, as some clients write them. The record's memory is
// shared.
func Decode(partition int32, r *kafka.Record, data bool) *sink.Stored {
	s := &sink.Stored{Sequence: uint64(r.Offset) + 1, Partition: partition, Time: r.Time} //nolint:gosec // offsets are not negative
	for _, h := range r.Headers {
		name := strings.ToLower(h.Name)
		attribute, is := strings.CutPrefix(name, prefix)
		switch {
		case name == headerContent:
			s.ContentType = string(h.Value)
		case is:
			s.Attributes = append(s.Attributes, sink.Attribute{Name: attribute, Value: string(h.Value)})
		}
		if attribute == "id" && is {
			s.ID = string(h.Value)
		}
	}
	whole := isStructured(s.ContentType)
	switch {
	case whole:
		s.ID = member(r.Value, "id")
	case s.ContentType != "" && len(s.Attributes) > 0:
		s.Attributes = append(s.Attributes, sink.Attribute{Name: contentName, Value: s.ContentType})
	}
	if data || whole {
		s.Data = r.Value
	}
	if IsBarrier(r) {
		s.Epoch = epochOf(r.Value, whole)
	}
	return s
}

// epochOf returns the epoch that a barrier has; 0 where it has none.
func epochOf(value []byte, whole bool) uint64 {
	if whole {
		var event struct {
			Data json.RawMessage `json:"data"`
		}
		if json.Unmarshal(value, &event) != nil {
			return 0
		}
		value = event.Data
	}
	var started struct {
		Epoch uint64 `json:"epoch"`
	}
	if json.Unmarshal(value, &started) != nil {
		return 0
	}
	return started.Epoch
}

// IsBarrier reports whether a record is what each writer leaves in every partition for others: it is about no resource.
func IsBarrier(r *kafka.Record) bool {
	slash := bytes.IndexByte(r.Key, '/')
	return slash >= 0 && bytes.HasPrefix(r.Key[slash:], []byte(barrierKey))
}

// IsMarker reports whether a record is a marker, which is in every partition of its topic.
func IsMarker(r *kafka.Record) bool {
	if !bytes.Contains(r.Key, []byte("/_/_")) || IsBarrier(r) {
		return false
	}
	contentType := ""
	for _, h := range r.Headers {
		switch strings.ToLower(h.Name) {
		case prefix + payloadName:
			return string(h.Value) == payloadMarker
		case headerContent:
			contentType = string(h.Value)
		}
	}
	return isStructured(contentType) && member(r.Value, payloadName) == payloadMarker
}

func isStructured(contentType string) bool {
	return strings.HasPrefix(strings.ToLower(contentType), structured)
}

// member returns the text that a structured event has under a name; empty where there is none.
func member(event []byte, wanted string) string {
	dec := jsontext.NewDecoder(bytes.NewReader(event))
	if tok, err := dec.ReadToken(); err != nil || tok.Kind() != '{' {
		return ""
	}
	for dec.PeekKind() == '"' {
		name, err := dec.ReadToken()
		if err != nil {
			return ""
		}
		if name.String() != wanted {
			if dec.SkipValue() != nil {
				return ""
			}
			continue
		}
		if value, err := dec.ReadToken(); err == nil && value.Kind() == '"' {
			return value.String()
		}
		return ""
	}
	return ""
}
