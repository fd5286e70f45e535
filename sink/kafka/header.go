// SPDX-License-Identifier: Apache-2.0

package kafka

import (
	"strings"
	"sync"

	"github.com/kube-eventbridge/kube-eventbridge/internal/kafka/batch"
	"github.com/kube-eventbridge/kube-eventbridge/sink"
)

// The binding's names, in lower case as all SDKs read them.
const (
	headerContent = "content-type"
	prefix        = "ce_"
	contentName   = "datacontenttype"
	structured    = "application/cloudevents"
	payloadName   = "payload"
	payloadMarker = "marker"
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
