// SPDX-License-Identifier: Apache-2.0

// Package header has the headers of a message in NATS: those of the CloudEvents binding in binary and structured mode,
// and those by which JetStream deduplicates and checks.
package header

import (
	"strconv"
	"strings"

	gonats "github.com/nats-io/nats.go"

	"github.com/kube-eventbridge/kube-eventbridge/sink"
)

const (
	headerID       = "Nats-Msg-Id"
	headerStream   = "Nats-Expected-Stream"
	headerPrevious = "Nats-Expected-Last-Subject-Sequence"
	headerContent  = "content-type"
	prefix         = "ce-"
	contentName    = "datacontenttype"
)

// Encoder writes headers. A header map costs more than all else about a message, so it is kept, and only its values are
// replaced: messages differ in the names of their attributes only as much as resources do. An Encoder is used by one
// goroutine at a time.
type Encoder struct {
	msg       gonats.Msg
	stream    []string
	templates []*template
}

// template is the header of messages with the same names.
type template struct {
	structured, verify bool
	names              []string
	header             gonats.Header
	values             [][]string // of names, in their order; the same slices as in header
	id, previous, kind []string   // likewise
}

// maxTemplates bounds what one encoder keeps.
const maxTemplates = 16

// NewEncoder returns an encoder of messages that only the stream may take.
func NewEncoder(stream string) *Encoder { return &Encoder{stream: []string{stream}} }

// Encode returns m as NATS wants it. It is good until the encoder's next use.
func (e *Encoder) Encode(m *sink.Message, reply string) *gonats.Msg {
	h := e.template(m)
	h.id[0] = m.ID
	if h.verify {
		h.previous[0] = strconv.FormatUint(m.Previous, 10)
	}
	if h.structured {
		h.kind[0] = m.ContentType
	}
	for i := range m.Attributes {
		h.values[i][0] = escape(m.Attributes[i].Value)
	}
	e.msg.Subject, e.msg.Reply, e.msg.Header, e.msg.Data = m.Subject, reply, h.header, m.Data
	return &e.msg
}

func (e *Encoder) template(m *sink.Message) *template {
	verify := m.Verify && !m.Shared
	for i, h := range e.templates {
		if h.verify == verify && h.fits(m.Attributes) {
			if i > 0 {
				e.templates[i], e.templates[i-1] = e.templates[i-1], h
			}
			return h
		}
	}
	h := newTemplate(m.Attributes, e.stream, verify)
	if len(e.templates) == maxTemplates {
		e.templates = e.templates[:maxTemplates-1]
	}
	e.templates = append(e.templates, h)
	return h
}

func newTemplate(attributes []sink.Attribute, stream []string, verify bool) *template {
	h := &template{structured: len(attributes) == 0, verify: verify, header: make(gonats.Header, len(attributes)+4)}
	h.id = make([]string, 1)
	h.header[headerID] = h.id
	h.header[headerStream] = stream
	if verify {
		h.previous = make([]string, 1)
		h.header[headerPrevious] = h.previous
	}
	if h.structured {
		h.kind = make([]string, 1)
		h.header[headerContent] = h.kind
	}
	for _, a := range attributes {
		v := make([]string, 1)
		h.names = append(h.names, strings.Clone(a.Name))
		h.values = append(h.values, v)
		h.header[prefix+a.Name] = v
	}
	return h
}

func (h *template) fits(attributes []sink.Attribute) bool {
	if len(h.names) != len(attributes) {
		return false
	}
	for i := range attributes {
		if h.names[i] != attributes[i].Name {
			return false
		}
	}
	return true
}

// special marks what the NATS binding wants percent-encoded: space, double quote, percent, and all outside 0x21 to
// 0x7E.
var special = func() (t [256]bool) {
	for c := range t {
		t[c] = c < 0x21 || c > 0x7e || c == '"' || c == '%'
	}
	return t
}()

// escape percent-encodes v where it must be, exactly there.
func escape(v string) string {
	for i := range len(v) {
		if special[v[i]] {
			return escapeFrom(v, i)
		}
	}
	return v
}

func escapeFrom(v string, i int) string {
	const digits = "0123456789ABCDEF"
	b := make([]byte, 0, len(v)+16)
	b = append(b, v[:i]...)
	for ; i < len(v); i++ {
		if c := v[i]; special[c] {
			b = append(b, '%', digits[c>>4], digits[c&15])
		} else {
			b = append(b, c)
		}
	}
	return string(b)
}

// unescape is the inverse of escape; what is no encoding stays as it is.
func unescape(v string) string {
	if strings.IndexByte(v, '%') < 0 {
		return v
	}
	b := make([]byte, 0, len(v))
	for i := 0; i < len(v); i++ {
		if v[i] == '%' && i+2 < len(v) {
			if n, err := strconv.ParseUint(v[i+1:i+3], 16, 8); err == nil {
				b = append(b, byte(n))
				i += 2
				continue
			}
		}
		b = append(b, v[i])
	}
	return string(b)
}

// Decode returns a stored message as it was published: the inverse of [Encoder.Encode].
// The attributes of binary mode are in no particular order. Sequence and Time are the caller's to fill in.
func Decode(header gonats.Header, data []byte) sink.Stored {
	st := sink.Stored{Data: data}
	for name, values := range header {
		if len(values) == 0 {
			continue
		}
		switch lower := strings.ToLower(name); {
		case strings.HasPrefix(lower, prefix):
			a := sink.Attribute{Name: lower[len(prefix):], Value: unescape(values[0])}
			st.Attributes = append(st.Attributes, a)
			if a.Name == contentName && st.ContentType == "" {
				st.ContentType = a.Value
			}
		case lower == headerContent:
			st.ContentType = values[0]
		case name == headerID:
			st.ID = values[0]
		}
	}
	return st
}
