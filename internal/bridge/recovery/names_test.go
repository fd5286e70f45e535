// SPDX-License-Identifier: Apache-2.0

package recovery

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	"github.com/kube-eventbridge/kube-eventbridge/source"
)

// What the log has of a version that is not read any more is about the objects of the one that is.
func TestNames_finds_a_stream_by_any_version(t *testing.T) {
	names := newNames(map[string]checkpoint.Stream{
		"widgets.v1.x.io": {}, "widgets.v1.x.io/a": {}, "gadgets.v1.x.io": {}, "gadgets.v2.x.io": {},
	})
	for asked, want := range map[string]string{
		"widgets.v1beta1.x.io": "widgets.v1.x.io", "widgets.v1beta1.x.io/a": "widgets.v1.x.io/a",
		"widgets.v1beta1.x.io/b": "",
		"gadgets.v2.x.io":        "gadgets.v2.x.io", "widgets.v1.y.io": "", "things.v1.x.io": "",
	} {
		at, ok := source.ParseName(asked)
		require.True(t, ok, asked)
		got, ok := names.find(at)
		assert.True(t, got == want && ok == (want != ""), "%s: got %q", asked, got)
	}
}
