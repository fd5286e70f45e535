// SPDX-License-Identifier: Apache-2.0

package drive

import (
	"context"
	"errors"
	"fmt"
)

// Spread updates objects objects so often that it is updates times in all, in turn and one after the other, and creates those that
// are missing first. They are of the first configured kind and have names of their own. It returns when all is acknowledged; with no updates
// it only creates. A request whose answer is lost is made again with the same content, so that no state is there twice.
func (d *Driver) Spread(ctx context.Context, objects, updates int) error {
	w := d.writer(d.cfg.Writers)
	w.slots = nil
	for i := range objects {
		s := &slot{kind: d.cfg.Kinds[0], name: fmt.Sprintf("spread-%d", i)}
		if s.kind.Namespaced {
			s.namespace = d.cfg.Namespaces[0]
		}
		w.slots = append(w.slots, s)
		if err := w.make(ctx, s); err != nil {
			return fmt.Errorf("create %s %s: %w", s.kind.Kind, s.name, err)
		}
	}
	// Contents are counted, and an earlier call may have counted as far.
	w.changes += 1_000_000 * (d.Counts().Updated + 1)
	for i := range updates {
		s := w.slots[i%objects]
		if err := w.update(ctx, s); err != nil {
			return fmt.Errorf("update %s %s: %w", s.kind.Kind, s.name, err)
		}
	}
	return nil
}

// make creates an object without finalizer, unless it exists.
func (w *writer) make(ctx context.Context, s *slot) error {
	if err := w.look(ctx, s); err != nil || s.exists {
		return err
	}
	if err := w.create(ctx, s); err != nil && !errors.Is(err, errRefused) {
		return err
	}
	if !s.held {
		return nil
	}
	return w.hold(ctx, s)
}
