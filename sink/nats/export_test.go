// SPDX-License-Identifier: Apache-2.0

package nats

import "time"

// SetPatience sets how long a replica may be left behind.
func (s *Sink) SetPatience(d time.Duration) { s.stream.patience = d }

// SetOccupied sets how long consumers that were left behind may take the places of new ones.
func (s *Sink) SetOccupied(d time.Duration) { s.occupied = d }
