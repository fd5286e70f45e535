// SPDX-License-Identifier: Apache-2.0

// Package edit makes small changes to files of the tree, of which a compiler reads the outcome.
package edit

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Change is a place of a file of the bridge, which has the old text once. The file's path begins at the tree's root.
type Change struct{ File, Old, New string }

// Apply makes the changes in the tree at root, which stays as it is. It returns the text of each changed file, by path
// from the root. The error says which text a file does not have once.
func Apply(root string, changes ...Change) (map[string]string, error) {
	files := map[string]string{}
	for _, c := range changes {
		if files[c.File] == "" {
			text, err := os.ReadFile(filepath.Join(root, c.File))
			if err != nil {
				return nil, err
			}
			files[c.File] = string(text)
		}
		if n := strings.Count(files[c.File], c.Old); n != 1 {
			return nil, fmt.Errorf("%s has this text %d times, and not once: %q", c.File, n, c.Old)
		}
		files[c.File] = strings.Replace(files[c.File], c.Old, c.New, 1)
	}
	return files, nil
}
