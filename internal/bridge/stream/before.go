// SPDX-License-Identifier: Apache-2.0

package stream

import (
	"context"
	"time"

	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge/ledger"
	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge/previous"
	"github.com/kube-eventbridge/kube-eventbridge/internal/sequence"
	"github.com/kube-eventbridge/kube-eventbridge/source"
	"github.com/kube-eventbridge/kube-eventbridge/source/kube"
)

// PrimeTime bounds how long a stream waits for what was before a restart: an API server that answers has told of some
// hundred thousand objects by then, and events are late meanwhile.
const PrimeTime = 20 * time.Second

// PreviousStates is what was before the changes of a stream.
type PreviousStates struct {
	*Stream
	previous.States
}

// Prime finds out what was before the process began, of what is still so at the API server and told in time; of other
// objects it is not known. The error is ctx's.
func (s *PreviousStates) Prime(ctx context.Context) error {
	at := s.primeAt()
	if at == "" {
		return nil
	}
	bounded, cancel := context.WithTimeout(ctx, s.Env.PrimeTime)
	defer cancel()
	began := time.Now()
	err := kube.ObjectsAt(bounded, s.Env.Client, s.At(), at, func(id source.Ident, body *source.Body) error {
		if row, ok := s.Ledger.Get(id.Key()); ok {
			s.States.Load(row, id, body)
		}
		return nil
	})
	objects, _ := s.Cache.Total()
	log := s.Env.Log.With("stream", s.Name, "objects", objects, "of", s.Ledger.Len())
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		log.Info("the previous state of some objects is not known: the first update of each is published whole, and "+
			"filters that need the state publish it", "err", err)
	default:
		log.Info("previous states are read", "after", time.Since(began).Round(time.Millisecond).String())
	}
	return nil
}

// primeAt returns the version at which most objects are as the rows have them: the position's, or a newer one's that
// the log has. It is empty where nothing is to be resumed.
func (s *PreviousStates) primeAt() string {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	at := s.position()
	if s.Cache == nil || at == "" || s.Saved.Owes.List >= sequence.Reselect {
		return ""
	}
	for _, row := range s.Ledger.All() {
		if s.compares(&row) && ledger.After(row.ResourceVersion, at) {
			at = row.ResourceVersion
		}
	}
	return at
}
