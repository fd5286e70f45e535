// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestFormatError_says_what_it_is_and_what_to_do(t *testing.T) {
	for _, c := range []struct {
		err  *FormatError
		old  bool
		want []string
	}{
		{&FormatError{Path: "P", Format: "1", Where: "W"}, true, []string{
			"checkpoint P was written by an older version", "format 1 (W)", "this version has format 2",
			"run kube-eventbridge checkpoint reset", "new JetStream stream or topic for the log",
		}},
		{&FormatError{Path: "P", Format: "7"}, false, []string{
			`checkpoint P has format "7"`, "knows only format 2", "run the version that wrote it",
		}},
	} {
		assert.Equal(t, c.old, c.err.Old())
		assert.True(t, IsPermanent(c.err))
		for _, text := range c.want {
			assert.Contains(t, c.err.Error(), text)
		}
	}
}
