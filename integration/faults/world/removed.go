// SPDX-License-Identifier: Apache-2.0

package world

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/kube-eventbridge/kube-eventbridge/integration/internal/rig"
)

// Removed is a log that a fault has taken away, in whole or its end, as it was read just before. A bridge that ran
// meanwhile may have written more.
type Removed struct {
	Kind     Kind
	Messages []rig.Message
}

// reading is for how long a fault may read the log.
const reading = 30 * time.Second

// keepLog keeps the log, which is about to be taken away, for whoever judges it, and in a file for a person. A log that
// cannot be read is not to be taken away: the error is [ErrMissed].
func (i *injection) keepLog(ctx context.Context, kind Kind) error {
	ctx, cancel := context.WithTimeout(ctx, reading)
	defer cancel()
	messages, err := i.ReadLog(ctx)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrMissed, err)
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.removed = append(i.removed, Removed{kind, messages})
	return writeLog(filepath.Join(i.dir, fmt.Sprintf("removed-%03d.jsonl", len(i.removed))), messages)
}

func writeLog(path string, messages []rig.Message) (err error) {
	f, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("keep the log: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	to := json.NewEncoder(f)
	for _, m := range messages {
		if err := to.Encode(m); err != nil {
			return fmt.Errorf("keep the log: %w", err)
		}
	}
	return nil
}

// Removed returns the logs that faults have taken away so far, oldest first.
func (w *World) Removed() []Removed {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.removed)
}
