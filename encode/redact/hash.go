// SPDX-License-Identifier: Apache-2.0

package redact

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"slices"

	"github.com/go-json-experiment/json/jsontext"
)

// MinHashKey is how many bytes a key of [Hashes] has at least.
const MinHashKey = 16

// Hashes tells whoever has no key whether the value of a Secret is another one than before, and nothing else of it: the
// hash is the first 8 bytes of the HMAC-SHA256 of namespace, name and key with a zero byte behind each, and the value.
// The key of an annotation is "metadata.annotations/" and its name. So equal values in different places have different
// hashes. However it is formatted, it says [redacted].
type Hashes struct{ key []byte }

// NewHashes returns hashes with a key, of which it keeps a copy. It panics if the key is shorter than MinHashKey.
func NewHashes(key []byte) *Hashes {
	if len(key) < MinHashKey {
		panic(fmt.Sprintf("BUG: a key of %d bytes", len(key)))
	}
	return &Hashes{slices.Clone(key)}
}

// Derive returns the HMAC-SHA256 of a text with the key, which tells nothing of the key.
func (h *Hashes) Derive(text string) []byte {
	sum := hmac.New(sha256.New, h.key)
	_, _ = io.WriteString(sum, text)
	return sum.Sum(nil)
}

// Format implements fmt.Formatter for every verb.
func (*Hashes) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, replaced) }

// hasher makes the masks of one Secret. Without hashes they are all the same.
type hasher struct {
	*Hashes
	namespace, name string
}

// appendMask appends what stands for v, the value of key, which is base64 if coded.
func (h hasher) appendMask(dst []byte, key string, v jsontext.Value, coded bool) []byte {
	text := h.mask(key, v, coded)
	return append(base64.StdEncoding.AppendEncode(append(dst, '"'), []byte(text)), '"')
}

// appendAnnotationMask appends what stands for v, the value of an annotation.
func (h hasher) appendAnnotationMask(dst []byte, name string, v jsontext.Value) []byte {
	text := h.mask("metadata.annotations/"+name, v, false) // no key of data has a slash
	return append(append(append(dst, '"'), text...), '"')
}

// mask returns what stands for v, the value at key.
func (h hasher) mask(key string, v jsontext.Value, coded bool) string {
	if h.Hashes == nil {
		return replaced
	}
	value, ok := plain(v, coded)
	if !ok {
		return replaced
	}
	sum := hmac.New(sha256.New, h.key)
	for _, s := range []string{h.namespace, h.name, key} {
		_, _ = io.WriteString(sum, s+"\x00")
	}
	_, _ = sum.Write(value)
	return fmt.Sprintf("[redacted hmac-sha256:%x]", sum.Sum(nil)[:8])
}

// plain returns the bytes that a JSON value stands for; false where it stands for none.
func plain(v jsontext.Value, coded bool) ([]byte, bool) {
	if v.Kind() != '"' {
		return nil, false
	}
	text, err := jsontext.AppendUnquote(nil, v)
	if err == nil && coded {
		text, err = base64.StdEncoding.AppendDecode(nil, text)
	}
	return text, err == nil
}
