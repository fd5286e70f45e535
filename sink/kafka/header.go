// SPDX-License-Identifier: Apache-2.0

package kafka

import (
	"bytes"
	"strings"
	"sync"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/kube-eventbridge/kube-eventbridge/internal/kafka"
	"github.com/kube-eventbridge/kube-eventbridge/internal/kafka/batch"
	"github.com/kube-eventbridge/kube-eventbridge/sink"
)

// The binding's names, in lower case as all SDKs read them.
const (
	headerContent = "content-type"
	prefix        = "ce_"
	contentName   = "datacontenttype"
	structured    = "application/cloudevents"
)

// names has the headers of attributes, so that none is put together twice. There are as many as attributes have names.
type names struct {
	mu    sync.RWMutex
	known map[string]string
}

func (n *names) of(attribute string) string {
	n.mu.RLock()
	name, ok := n.known[attribute]
	n.mu.RUnlock()
	if ok {
		return name
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	attribute = strings.Clone(attribute)
	n.known[attribute] = prefix + attribute
	return n.known[attribute]
}

// headers appends the headers of a message to hs.
func (n *names) headers(hs []batch.Header, m *sink.Message) []batch.Header {
	hs = append(hs, batch.Header{Name: headerContent, Value: m.ContentType})
	for _, a := range m.Attributes {
		if a.Name != contentName && a.Value != "" { // an empty value is an error in some SDKs
			hs = append(hs, batch.Header{Name: n.of(a.Name), Value: a.Value})
		}
	}
	return hs
}

// stored returns what a record says. Its ID is the event's.
func stored(partition int32, r *kafka.Record, data bool) *sink.Stored {
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
	whole := strings.HasPrefix(strings.ToLower(s.ContentType), structured)
	switch {
	case whole:
		s.ID = structuredID(r.Value)
	case s.ContentType != "" && len(s.Attributes) > 0:
		s.Attributes = append(s.Attributes, sink.Attribute{Name: contentName, Value: s.ContentType})
	}
	if data || whole {
		s.Data = r.Value
	}
	return s
}

// structuredID returns the id of a structured event; empty where there is none.
func structuredID(event []byte) string {
	dec := jsontext.NewDecoder(bytes.NewReader(event))
	if tok, err := dec.ReadToken(); err != nil || tok.Kind() != '{' {
		return ""
	}
	for dec.PeekKind() == '"' {
		name, err := dec.ReadToken()
		if err != nil {
			return ""
		}
		if name.String() != "id" {
			if dec.SkipValue() != nil {
				return ""
			}
			continue
		}
		if id, err := dec.ReadToken(); err == nil && id.Kind() == '"' {
			return id.String()
		}
		return ""
	}
	return ""
}
