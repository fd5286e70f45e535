// SPDX-License-Identifier: Apache-2.0

package jsonscan

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestMembers_and_elements_are_as_they_are_written(t *testing.T) {
	for object, want := range map[string]string{
		``: "", `[]`: "", `{}`: "", `{"a":1,"b"`: ` "a"=1`, `{"a":[1,{"b":2}], "c" : "x,}" }`: ` "a"=[1,{"b":2}] "c"="x,}"`,
	} {
		got := ""
		for name, value := range Members([]byte(object)) {
			got += fmt.Sprintf(" %s=%s", name, value)
		}
		assert.Equal(t, want, got, object)
	}
	for list, want := range map[string]string{
		``: "", `{}`: "", `[]`: "", `[ ]`: "", `[1, "]" ,[2]]`: ` 1 "]" [2]`,
		`[1 2`: " 1",
	} {
		got := ""
		for value := range Elements([]byte(list)) {
			got += " " + string(value)
		}
		assert.Equal(t, want, got, list)
	}
}
