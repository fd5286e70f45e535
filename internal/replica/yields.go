// SPDX-License-Identifier: Apache-2.0

package replica

import (
	"slices"
	"sync"

	"github.com/kube-eventbridge/kube-eventbridge/internal/replica/keys"
)

// yields knows the fields that are left to other managers. It is safe for concurrent use.
type yields struct {
	mu    sync.Mutex
	paths map[keys.ID][]string
}

func newYields() *yields { return &yields{paths: make(map[keys.ID][]string)} }

func (y *yields) add(id keys.ID, paths []string) {
	y.mu.Lock()
	defer y.mu.Unlock()
	all := slices.Concat(y.paths[id], paths)
	slices.Sort(all)
	y.paths[id] = slices.Compact(all)
}

func (y *yields) get(id keys.ID) []string {
	y.mu.Lock()
	defer y.mu.Unlock()
	return y.paths[id]
}

func (y *yields) forget(id keys.ID) {
	y.mu.Lock()
	defer y.mu.Unlock()
	delete(y.paths, id)
}
