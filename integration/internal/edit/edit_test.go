// SPDX-License-Identifier: Apache-2.0

package edit

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestApply(t *testing.T) {
	root := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(root, "max.go"), []byte("a b b"), 0o600))
	files, err := Apply(root, Change{"max.go", "a", "c"}, Change{"max.go", "c b", "d"})
	assert.NoError(t, err)
	assert.Equal(t, map[string]string{"max.go": "d b"}, files)
	for _, stale := range []Change{{"max.go", "b", "c"}, {"max.go", "x", "c"}, {"min.go", "a", "c"}} {
		_, err := Apply(root, stale)
		assert.ErrorContains(t, err, stale.File)
	}
}
