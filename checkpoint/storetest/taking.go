// SPDX-License-Identifier: Apache-2.0

package storetest

import (
	"errors"
	"sync"
)

// Taking keeps the contract's word that a second user is refused on open, for stores where he is not: where he takes
// over, and the first one is refused with his next commit. The zero Taking is ready to use.
type Taking struct {
	mu   sync.Mutex
	open map[string]bool
}

// Take opens the store at a place that is not open.
func (o *Taking) Take(place string, open func() (Store, error)) (Store, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.open[place] {
		return nil, errors.New("it is open")
	}
	s, err := open()
	if err != nil {
		return nil, err
	}
	if o.open == nil {
		o.open = map[string]bool{}
	}
	o.open[place] = true
	return &taken{s, func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		delete(o.open, place)
	}}, nil
}

type taken struct {
	Store
	free func()
}

// Close implements Store.
func (t *taken) Close() error {
	t.free()
	return t.Store.Close()
}
