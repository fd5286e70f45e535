// SPDX-License-Identifier: Apache-2.0

package inert

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestLine_removes_what_neither_readers_nor_terminals_need(t *testing.T) {
	for text, want := range map[string]string{
		"dial nats://me:geheim@broker:4222: refused": "dial nats://[redacted]@broker:4222: refused",
		"nats://me:ge@im@a:1,nats://b's:x@c:2: away": "nats://[redacted]@a:1,nats://[redacted]@c:2: away",
		"two\nlines\tand \x1b[31mred\x1b[0m":         "two lines and  [31mred [0m",
		"b\xffd and \u202eright to left":             "b\ufffdd and right to left",
		"größer <img src=x onerror=alert(1)>":        "größer <img src=x onerror=alert(1)>",
	} {
		assert.Equal(t, want, Line(text), "%q", text)
	}
	if got := Line(strings.Repeat("ü", 5000)); len(got) > maxText+3 || !strings.HasSuffix(got, "ü…") {
		t.Errorf("a long text becomes %d bytes, %q at the end", len(got), got[len(got)-5:])
	}
}
