// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"pgregory.net/rapid"

	"github.com/kube-eventbridge/kube-eventbridge/internal/replica/keys"
	"github.com/kube-eventbridge/kube-eventbridge/internal/sequence"
)

func at(epoch, version uint64) sequence.Sequence {
	return sequence.Sequence{Epoch: epoch, Version: version}
}

func TestDecide(t *testing.T) {
	wants := func(c keys.Claim, s sequence.Sequence) keys.Desired {
		return keys.Desired{Claim: c, Sequence: s, Origin: 1}
	}
	has := func(s sequence.Sequence) keys.Actual {
		return keys.Actual{Owner: keys.Ours, UID: "u", Version: "5", Applied: s, Origin: 1}
	}
	terminating := has(at(1, 7))
	terminating.Terminating = true
	other := has(at(1, 7))
	other.Origin = 2
	detached := has(at(1, 7))
	detached.Owner = keys.Detached
	def := Config{Existing: Refuse, Deletes: true}
	for _, c := range []struct {
		name     string
		desired  keys.Desired
		actual   keys.Actual
		accepted bool
		config   Config
		want     Action
	}{
		{"nothing is known of an object of ours", keys.Desired{}, has(at(1, 7)), false, def, Action{}},
		{"an object is new", wants(keys.Whole, at(1, 7)), keys.Actual{}, false, def, Action{Do: Create}},
		{"an object has changed", wants(keys.Whole, at(1, 8)), has(at(1, 7)), true, def, Action{Do: Change}},
		{"an epoch has begun", wants(keys.Whole, at(2, 3)), has(at(1, 7)), true, def, Action{Do: Change}},
		{"all is right", wants(keys.Whole, at(1, 7)), has(at(1, 7)), true, def, Action{}},
		{"somebody has changed ours", wants(keys.Whole, at(1, 7)), has(at(1, 7)), false, def, Action{Do: Verify}},
		{"the target is ahead", wants(keys.Whole, at(1, 7)), has(at(1, 8)), false, def, Action{}},
		{"another leader deletes, then one is behind", wants(keys.Gone, at(1, 7)), has(at(1, 8)), false, def, Action{}},
		{"an object is gone", wants(keys.Gone, at(1, 8)), has(at(1, 7)), true, def, Action{Do: Delete}},
		{"an object is gone on both sides", wants(keys.Gone, at(1, 8)), keys.Actual{}, false, def, Action{}},
		{"an object is gone, and ours is going", wants(keys.Gone, at(1, 8)), terminating, false, def, Action{}},
		{"an object is gone, and another one is there", wants(keys.Gone, at(1, 8)), detached, false, def, Action{}},
		{
			"deletes are off", wants(keys.Gone, at(1, 8)), has(at(1, 7)), true,
			Config{Existing: Refuse},
			Action{Park, DeletesDisabled},
		},
		{
			"an object is not selected any more", wants(keys.Deselected, at(1, 8)), has(at(1, 7)), true, def,
			Action{Park, KeptDeselected},
		},
		{
			"an object is not selected any more, and shall go", wants(keys.Deselected, at(1, 8)), has(at(1, 7)), true,
			Config{Deletes: true, DeleteDeselected: true},
			Action{Do: Delete},
		},
		{"another object has the name", wants(keys.Whole, at(1, 9)), other, true, def, Action{Do: Recreate}},
		{"ours is going", wants(keys.Whole, at(1, 9)), terminating, true, def, Action{Park, IsTerminating}},
		{"a person has taken the label away", wants(keys.Whole, at(1, 9)), detached, false, def, Action{Park, DetachedObject}},
		{
			"a person has taken the label away, and all is adopted", wants(keys.Whole, at(1, 9)), detached, false,
			Config{Existing: Adopt},
			Action{Do: Change},
		},
		{"values are redacted", wants(keys.Redacted, at(1, 9)), has(at(1, 7)), true, def, Action{Park, HasRedactions}},
		{"only metadata is there", wants(keys.Reduced, at(1, 9)), keys.Actual{}, false, def, Action{Park, IsReduced}},
		{"the broker has refused it", wants(keys.Rejected, at(1, 9)), keys.Actual{}, false, def, Action{Park, WasRejected}},
	} {
		t.Run(c.name, func(t *testing.T) {
			assert.Equal(t, c.want, Decide(c.desired, c.actual, c.accepted, c.config))
		})
	}
}

func TestDecide_never_goes_back_and_touches_only_what_is_ours(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		number := rapid.Uint64Range(0, 3)
		sequences := rapid.Custom(func(t *rapid.T) sequence.Sequence {
			return sequence.Sequence{
				Epoch: number.Draw(t, "epoch"), Version: number.Draw(t, "version"), Step: rapid.Uint8Range(0, 1).Draw(t, "step"),
			}
		})
		d := keys.Desired{
			Claim: keys.Claim(rapid.Uint8Range(0, uint8(keys.Gone)).Draw(t, "claim")), Sequence: sequences.Draw(t, "desired"),
			Origin: uint32(number.Draw(t, "origin")),
		}
		a := keys.Actual{
			Owner:       keys.Owner(rapid.Uint8Range(0, uint8(keys.Detached)).Draw(t, "owner")),
			Terminating: rapid.Bool().Draw(t, "terminating"), Applied: sequences.Draw(t, "applied"),
			Origin: uint32(number.Draw(t, "written for")),
		}
		c := Config{
			Existing: rapid.SampledFrom([]Existing{Refuse, Adopt, Overwrite}).Draw(t, "existing"),
			Deletes:  rapid.Bool().Draw(t, "deletes"), DeleteDeselected: rapid.Bool().Draw(t, "deselected"),
		}
		got := Decide(d, a, rapid.Bool().Draw(t, "accepted"), c)
		writes := got.Do != Leave && got.Do != Park
		switch {
		case writes && a.Owner == keys.Ours && a.Applied.After(d.Sequence):
			t.Fatalf("%v goes back", got)
		case writes && d.Claim == keys.Unknown:
			t.Fatalf("%v of what the log does not know", got)
		case got.Do == Delete && (a.Owner != keys.Ours || !c.Deletes || d.Claim.Exists()):
			t.Fatalf("%v is not allowed", got)
		case got.Do == Recreate && a.Owner != keys.Ours, got.Do == Change && a.Owner == keys.Detached && c.Existing == Refuse:
			t.Fatalf("%v touches what is not ours", got)
		case writes && d.Claim.Exists() && d.Claim != keys.Whole:
			t.Fatalf("%v writes what is not whole", got)
		}
	})
}
