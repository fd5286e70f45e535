// SPDX-License-Identifier: Apache-2.0

package sequence_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/kube-eventbridge/kube-eventbridge/internal/sequence"
)

func drawSequence(t *rapid.T, name string) sequence.Sequence {
	return sequence.Sequence{
		Epoch:   rapid.Uint64Range(0, sequence.MaxEpoch).Draw(t, name+"'s epoch"),
		Version: rapid.Uint64().Draw(t, name+"'s version"),
		Step:    rapid.Uint8Range(sequence.State, sequence.End).Draw(t, name+"'s step"),
	}
}

func TestSequence_compares_as_its_text(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := drawSequence(t, "a"), drawSequence(t, "b")
		if rapid.Bool().Draw(t, "one epoch") {
			b.Epoch = a.Epoch
		}
		if rapid.Bool().Draw(t, "one version") {
			b.Version = a.Version
		}
		got, want := strings.Compare(a.String(), b.String()), a.Compare(b)
		require.Equal(t, want, got, "%s and %s compare as", a, b)
	})
}

func TestSequence_has_digits_of_a_fixed_number(t *testing.T) {
	assert.Equal(t, "0000000007.00000000000000000042.1",
		sequence.Sequence{Epoch: 7, Version: 42, Step: sequence.End}.String())
}

func TestParse_inverts_String(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := drawSequence(t, "a")
		got, err := sequence.Parse(a.String())
		require.True(t, err == nil && got == a, "%s is parsed as %v: %v", a, got, err)
	})
}

func TestParse_refuses_other_texts(t *testing.T) {
	for _, text := range []string{
		"", "00000000000000000042", "0000000001.00000000000000000042", "1.42.0", "0000000001.00000000000000000042.2",
		"0000000001.00000000000000000042.0.0", "0000000001.99999999999999999999.0", "10000000000.00000000000000000042.0",
	} {
		got, err := sequence.Parse(text)
		assert.Error(t, err, "%q is parsed as %v", text, got)
	}
}

func TestID_has_the_three_numbers(t *testing.T) {
	id := sequence.Sequence{Epoch: 1700000000, Version: 42, Step: sequence.End}.ID("uid")
	if want := "uid.1700000000.42.1"; id != want {
		t.Errorf("id %s, want %s", id, want)
	}
	if got, want := sequence.Rejected(sequence.Republished(id, 7)), id+".r7.rejected"; got != want {
		t.Errorf("id %s, want %s", got, want)
	}
}

func TestApplies_is_one_comparison(t *testing.T) {
	const (
		before = "0000000007.00000000000000000041.0"
		at     = "0000000007.00000000000000000042.0"
		after  = "0000000008.00000000000000000001.0"
	)
	for _, test := range []struct {
		remembered, event    string
		whole, atEqual, want bool
	}{
		{"", at, false, false, true},
		{at, after, false, false, true},
		{at, before, true, true, false},
		{at, at, true, false, false},
		{at, at, true, true, true},
		{at, at, false, true, false},
	} {
		got := sequence.Applies(test.remembered, test.event, test.whole, test.atEqual)
		assert.Equal(t, test.want, got, "%+v", test)
	}
}

func TestNextEpoch_is_greater_than_all_known(t *testing.T) {
	for _, test := range []struct {
		given, seen uint64
		now         int64
		want        uint64
	}{
		{0, 0, 1700000000, 1700000000},
		{1700000000, 0, 1700000000, 1700000001},
		{1700000000, 1700000009, 1700000005, 1700000010},
		{3, 0, -1, 4},
	} {
		got := sequence.NextEpoch(test.given, test.seen, time.Unix(test.now, 0))
		assert.Equal(t, test.want, got, "after %d given and %d seen, at %d", test.given, test.seen, test.now)
	}
}

func TestFound_decides_how_to_start(t *testing.T) {
	at := func(parts ...sequence.Partition) sequence.Found {
		return sequence.Found{Checkpoint: true, Given: 5, Partitions: parts}
	}
	end := sequence.Partition{Mark: 9, First: 1, Last: 9}
	unknown, newer, other := at(end), at(end), at(end)
	unknown.Checkpoint, newer.Seen, other.OtherLog = false, 6, true
	both := other
	both.Seen = 6
	for name, test := range map[string]struct {
		found sequence.Found
		want  sequence.Start
	}{
		"no checkpoint":               {unknown, sequence.CheckpointLost},
		"the end of the log":          {at(end), sequence.Resume},
		"more in the log":             {at(sequence.Partition{Mark: 9, First: 10, Last: 12}), sequence.Resume},
		"removed behind the mark":     {at(sequence.Partition{Mark: 9, First: 11, Last: 12}), sequence.CheckpointLost},
		"a number not given":          {newer, sequence.CheckpointLost},
		"one partition is short":      {at(end, sequence.Partition{Mark: 4, First: 1, Last: 3}), sequence.LogLost},
		"another log":                 {other, sequence.LogLost},
		"checkpoint and log are lost": {both, sequence.LogLost},
		"another message at the mark": {at(sequence.Partition{Mark: 4, First: 1, Last: 9, Changed: true}), sequence.LogLost},
	} {
		t.Run(name, func(t *testing.T) {
			got := test.found.Decide()
			assert.Equal(t, test.want, got, "start")
		})
	}
}

func TestFound_may_lack_the_last_event_of_an_object(t *testing.T) {
	whole, begun := sequence.Partition{First: 1, Last: 9}, sequence.Partition{First: 2, Last: 9}
	assert.False(t, (&sequence.Found{Partitions: []sequence.Partition{whole, {First: 1}}}).Trimmed())
	assert.True(t, (&sequence.Found{Partitions: []sequence.Partition{whole, begun}}).Trimmed())
}
