// SPDX-License-Identifier: Apache-2.0

package stdout

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/kube-eventbridge/kube-eventbridge/sink"
)

// appendEvent appends m as one line of JSON, without its end.
func appendEvent(b []byte, m *sink.Message) ([]byte, error) {
	if len(m.Attributes) == 0 {
		return appendData(b, m.Data)
	}
	b = append(b, '{')
	for _, a := range m.Attributes {
		b = appendString(b, a.Name)
		b = append(b, ':')
		b = appendValue(b, a)
		b = append(b, ',')
	}
	if !isJSON(m.ContentType) {
		b = append(b, `"data_base64":"`...)
		b = base64.StdEncoding.AppendEncode(b, m.Data)
		return append(b, '"', '}'), nil
	}
	b = append(b, `"data":`...)
	b, err := appendData(b, m.Data)
	return append(b, '}'), err
}

func isJSON(contentType string) bool {
	t, _, _ := strings.Cut(contentType, ";")
	return t == "application/json" || strings.HasSuffix(t, "+json")
}

// appendData appends JSON as it is, without line breaks.
func appendData(b, data []byte) ([]byte, error) {
	if bytes.IndexByte(data, '\n') < 0 && bytes.IndexByte(data, '\r') < 0 {
		return append(b, data...), nil
	}
	out := bytes.NewBuffer(b)
	if err := json.Compact(out, data); err != nil {
		return b, fmt.Errorf("data: %w", err)
	}
	return out.Bytes(), nil
}

// appendValue appends an attribute's value: CloudEvents' JSON format has integers as numbers.
func appendValue(b []byte, a sink.Attribute) []byte {
	if a.Integer() {
		if n, err := strconv.ParseInt(a.Value, 10, 32); err == nil {
			return strconv.AppendInt(b, n, 10)
		}
	}
	return appendString(b, a.Value)
}

func appendString(b []byte, s string) []byte {
	const digits = "0123456789abcdef"
	b = append(b, '"')
	for i := 0; i < len(s); {
		c := s[i]
		if c >= utf8.RuneSelf {
			r, n := utf8.DecodeRuneInString(s[i:])
			b = utf8.AppendRune(b, r)
			i += n
			continue
		}
		switch {
		case c == '"' || c == '\\':
			b = append(b, '\\', c)
		case c < ' ':
			b = append(b, '\\', 'u', '0', '0', digits[c>>4], digits[c&15])
		default:
			b = append(b, c)
		}
		i++
	}
	return append(b, '"')
}
