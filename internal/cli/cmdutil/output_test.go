// SPDX-License-Identifier: Apache-2.0

package cmdutil

import (
	"bytes"
	"fmt"
	"io"
	"testing"
	"unicode"

	"github.com/goccy/go-yaml"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// hostile is what a stored name, or a server's answer, may have.
const hostile = "\x1b]0;title\x07 \x1b[2J\u202e\r\n\tä"

func TestPrintAs_text_moves_no_terminal(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, PrintAs(&out, "", nil, func(w io.Writer) error {
		_, err := fmt.Fprintln(w, hostile)
		return err
	}))
	assert.Equal(t, " ]0;title   [2J  \n ä\n", out.String())
}

func TestPrintAs_json_and_yaml_move_no_terminal(t *testing.T) {
	const hostile = hostile + "\u009b31m"
	v := struct {
		Stream string            `json:"stream"`
		By     map[string]string `json:"by"`
	}{hostile, map[string]string{hostile: hostile}}
	for _, output := range []string{"json", "yaml"} {
		var out bytes.Buffer
		require.NoError(t, PrintAs(&out, output, v, nil))
		for _, r := range out.String() {
			assert.True(t, unicode.IsPrint(r) || r == '\n', "%s has %q", output, r)
		}
		got := v
		got.Stream, got.By = "", nil
		require.NoError(t, yaml.Unmarshal(out.Bytes(), &got), output)
		assert.Equal(t, v, got, output)
	}
}
