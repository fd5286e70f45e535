// SPDX-License-Identifier: Apache-2.0

package redact

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/kube-eventbridge/kube-eventbridge/encode/jsonscan"
)

func TestCheckPath_refuses_what_attributes_are_made_of(t *testing.T) {
	for s, covers := range map[string]string{
		"metadata": "metadata.name", "[*]": "apiVersion", "metadata[*]": "metadata.name", "metadata.name": "metadata.name",
		"kind":    "kind",
		"kind[*]": "kind", "metadata.managedFields[*].manager": "metadata.managedFields",
	} {
		err := CheckPath(jsonscan.MustParsePath(s))
		assert.True(t, err != nil && strings.Contains(err.Error(), "attributes of every event are made of "+covers+";"),
			"%s: got %v, want one about %s", s, err, covers)
	}
	for _, s := range []string{"[*].uid", "[*].containers"} {
		err := CheckPath(jsonscan.MustParsePath(s))
		assert.True(t, err != nil && strings.Contains(err.Error(), "begin with a name"), "%s: %v", s, err)
	}
	for _, s := range []string{
		"spec", "metadata.annotations", "metadata.labels[*]", "metadata.generateName", "data[*]",
		"spec.name",
	} {
		assert.NoError(t, CheckPath(jsonscan.MustParsePath(s)), s)
	}
}
