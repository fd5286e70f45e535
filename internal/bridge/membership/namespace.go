// SPDX-License-Identifier: Apache-2.0

package membership

import "slices"

// byNamespace has what is in namespaces, and in all of them under the empty name. The nil one has nothing.
type byNamespace[T any] struct {
	all []T
	// in has the indices in all.
	in map[string][]int
}

func (b *byNamespace[T]) add(namespace string, v T) {
	if b.in == nil {
		b.in = map[string][]int{}
	}
	b.in[namespace] = append(b.in[namespace], len(b.all))
	b.all = append(b.all, v)
}

// meeting returns what may have objects in common with a namespace, or with all for the empty name, in the order in
// which it was added.
func (b *byNamespace[T]) meeting(namespace string) []T {
	if b == nil || namespace == "" {
		return b.every()
	}
	indices := slices.Concat(b.in[""], b.in[namespace])
	slices.Sort(indices)
	met := make([]T, len(indices))
	for i, at := range indices {
		met[i] = b.all[at]
	}
	return met
}

func (b *byNamespace[T]) every() []T {
	if b == nil {
		return nil
	}
	return b.all
}

// entry returns the value of a key, which it makes if it is missing.
func entry[K comparable, T any](m map[K]*byNamespace[T], key K) *byNamespace[T] {
	if m[key] == nil {
		m[key] = &byNamespace[T]{}
	}
	return m[key]
}
