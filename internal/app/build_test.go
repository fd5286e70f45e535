// SPDX-License-Identifier: Apache-2.0

package app

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestBuild_is_what_the_linker_says(t *testing.T) {
	b := NewBuild("v1.2.3", "0123456789abcdef")
	assert.Equal(t, "v1.2.3", b.Version)
	assert.Equal(t, "0123456789abcdef", b.Commit)
	assert.True(t, strings.HasPrefix(b.Go, "go") && strings.Contains(b.Platform, "/"), "%+v", b)
	assert.Equal(t, "kube-eventbridge/v1.2.3 ("+b.Platform+") commit/0123456789ab", b.UserAgent())
	b = NewBuild("", "")
	assert.True(t, b.Version != "" && b.Commit != "", "got %+v", b)
}
