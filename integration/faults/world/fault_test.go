// SPDX-License-Identifier: Apache-2.0

package world

import (
	"context"
	"errors"
	"fmt"
	"github.com/stretchr/testify/assert"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/kube-eventbridge/kube-eventbridge/integration/internal/rig"
)

// A pair of which one finds no occasion is the other one.
func TestFaults_of_a_pair_that_miss_do_not_count(t *testing.T) {
	hit := func(context.Context, *injection) error { return nil }
	miss := func(context.Context, *injection) error { return ErrMissed }
	fail := func(context.Context, *injection) error { return ErrUsed }
	for name, c := range map[string]struct {
		first, second func(context.Context, *injection) error
		injected      string
		err           error
	}{
		"both hit":          {hit, hit, "[a b]", nil},
		"the first misses":  {miss, hit, "[b]", nil},
		"the second misses": {hit, miss, "[a]", nil},
		"both miss":         {miss, miss, "[]", ErrMissed},
		"one fails":         {miss, fail, "[]", ErrUsed},
	} {
		t.Run(name, func(t *testing.T) {
			w := &World{}
			both := Fault{Name: "a", w: w, run: c.first}.With(Fault{Name: "b", w: w, run: c.second})
			injected, err := both.inject(t.Context(), rand.New(rand.NewPCG(1, 2)))
			assert.Equal(t, c.injected, fmt.Sprint(injected), "%v was injected", injected)
			assert.ErrorIs(t, err, c.err, "%v was injected", injected)
			if !errors.Is(c.err, ErrMissed) && errors.Is(err, ErrMissed) {
				t.Errorf("it says that it missed: %v", err)
			}
		})
	}
}

// A fault that says nothing of what it did, or of another thing, was not injected.
func TestFault_is_proved_by_what_is_recorded(t *testing.T) {
	now := time.Now()
	did := func(kind Kind) Event {
		return Event{At: now, Kind: kind, Fault: "a", Text: "did it", Before: 9, Kept: 5}
	}
	begins := Event{At: now, Kind: Note, Fault: "a", Text: "begins"}
	kept := []Removed{{LogDeleted, []rig.Message{{}}}}
	for name, c := range map[string]struct {
		loses   Kind
		events  []Event
		removed []Removed
		proved  bool
	}{
		"it did":                       {Note, []Event{begins, did(Note)}, nil, true},
		"it only began":                {Note, []Event{begins}, nil, false},
		"another fault did":            {Note, []Event{begins, {At: now, Kind: Note, Fault: "b", Text: "it"}}, nil, false},
		"a log is gone":                {LogDeleted, []Event{begins, did(LogDeleted)}, kept, true},
		"a log is gone, and not kept":  {LogDeleted, []Event{begins, did(LogDeleted)}, nil, false},
		"a log is kept and not gone":   {Note, []Event{begins, did(Note)}, kept, false},
		"a log is kept, and was empty": {LogDeleted, []Event{begins, did(LogDeleted)}, []Removed{{Kind: LogDeleted}}, false},
		"etcd is restored":             {EtcdRestored, []Event{begins, did(EtcdRestored)}, nil, true},
		"etcd has lost nothing": {
			EtcdRestored, []Event{begins, {At: now, Kind: EtcdRestored, Fault: "a", Before: 5, Kept: 5}}, nil, false,
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := &World{events: c.events, removed: c.removed}
			if err := (Fault{Name: "a", Loses: c.loses, w: w}).Proof(Mark{}); (err == nil) != c.proved {
				t.Errorf("proved: %v", err)
			}
		})
	}
}

func TestFaults_that_may_cause_a_gap_exist(t *testing.T) {
	left := maps.Clone(mayGap)
	for _, f := range slices.Concat(Catalogue(NATS, true, true), Catalogue(Kafka, true, true)) {
		delete(left, f.Name)
	}
	assert.Empty(t, left, "there are no faults of these names")
}
