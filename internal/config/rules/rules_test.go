// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestClosest_is_what_was_probably_meant_or_nothing(t *testing.T) {
	words := []string{"name", "sink", "stop", "binary", "checkpoint", "recovery", "recover"}
	for s, want := range map[string]string{
		"nam": "name", "snik": "sink", "sinkk": "sink", "drop": "", "bin": "binary", "chekcpoint": "checkpoint",
		"chekpoints": "checkpoint", "reco": "", "NAME": "name", "x": "", "": "",
	} {
		got, _ := Closest(s, words)
		assert.Equal(t, want, got, "%q is taken", s)
	}
}

type host struct {
	Name     string
	Replicas int
	Wait     time.Duration
	UserFile string
	Ports    []int
	Part     *part
	Most     share
	Tags     map[string]string
}

// share is a number, or a part in percent.
type share struct{ text string }

func (s *share) UnmarshalText(text []byte) error {
	s.text = string(text)
	if strings.Trim(s.text, "0123456789%") != "" {
		return ErrNot
	}
	return nil
}

type part struct{ Kind, Other string }

var parts = []Rule{
	{Key: "kind", Kind: Choice("one", "two").Also("type"), Standard: Required},
	{Key: "other", Kind: Text.OnlyWith("kind", "two"), Purpose: "Some text."},
}

var hosts = Mapping([]Rule{
	{Key: "name", Kind: Matching("^[a-z]+$", "a name", "use letters"), Standard: "web"},
	{Key: "replicas", Kind: Number.Between(1, 5), Standard: "1"},
	{Key: "wait", Kind: Duration.AtLeast(int64(time.Minute)).OrZero(), Standard: "0s"},
	{Key: "userFile", Kind: Text.Without("name")},
	{Key: "ports", Kind: List(Number).Some().Unique(), Standard: "[80, 443]"},
	{Key: "part", Kind: Mapping(parts), Standard: Optional},
	{Key: "most", Kind: Kind{Form: ShareForm, What: "a share", Write: "write 5 or 20%"}},
	{Key: "tags", Kind: TextsOf(Matching("^[a-z]+$", "a tag", "use letters"), Matching("^[0-9]*$", "a number", "use digits"))},
}).WithEither("name", "part")

func TestDecode_fills_in_what_is_written_and_defaults(t *testing.T) {
	var got host
	d := Decode("f", []byte("wait: 90s\npart:\n  kind: two\nmost: 5\ntags: {a: 1}\n"), &got, &hosts)
	require.Empty(t, d.Problems())
	want := host{
		Name: "web", Replicas: 1, Wait: 90 * time.Second, Ports: []int{80, 443}, Part: &part{Kind: "two"},
		Most: share{"5"}, Tags: map[string]string{"a": "1"},
	}
	assert.Equal(t, want, got)
	other := want
	other.Wait, other.Part = 0, &part{Kind: "one"}
	assert.Equal(t, []string{"wait", "part.kind"}, Differences(&got, &other, hosts.Keys))
}

func TestReport_says_what_is_wrong_where_and_what_is_valid(t *testing.T) {
	for text, want := range map[string]string{
		"nam: a":                      "f:1:1: nam: is not a key here, did you mean name?; valid keys: name, replicas, wait, userFile, ports, part, most, tags",
		"user: a":                     "f:1:1: user: is not a key here, as a secret never stands in this file; use userFile",
		"kind: one":                   "f:1:1: kind: is not a key here, but in part; valid keys: name, replicas, wait, userFile, ports, part, most, tags",
		"part: {type: one}":           "f:1:8: part.type: is not a key here, did you mean kind?; valid keys: kind, other",
		"part: {kind: on}":            `f:1:14: part.kind: "on" is not a choice, did you mean one?; valid: one, two`,
		"part: {}":                    "f:1:1: part.kind: is missing; valid: one, two",
		"part: a":                     "f:1:7: part: is a text, not a mapping; valid keys: kind, other",
		"name: 7":                     "f:1:7: name: is the number 7, not a name; use letters",
		"name: B":                     `f:1:7: name: "B" is not a name; use letters`,
		"replicas: 9":                 "f:1:11: replicas: 9 is out of range; write 1 to 5",
		"replicas: a":                 `f:1:11: replicas: "a" is not a whole number; write one such as 3`,
		"wait: 1s":                    "f:1:7: wait: 1s is too little; write at least 1m, or 0s",
		"ports: [1, 2, 1]":            `f:1:15: ports[2]: "1" is there twice; keep one`,
		"ports: []":                   "f:1:1: ports: none is given; write one such as 3",
		"userFile: u":                 "f:1:11: userFile: is there beside name; keep one",
		"wait: 0s\nwait: 1m":          "f:2:1: wait: is there twice, first in line 1; keep one",
		"name: *a":                    "f:1:7: name: anchors, aliases and merge keys are not supported; write the value out, in quotes if it begins with *",
		"most: a few":                 `f:1:7: most: "a few" is not a share; write 5 or 20%`,
		"most: [5]":                   "f:1:1: most: is a list, not a share; write 5 or 20%",
		"tags: {A: 1}":                `f:1:8: tags.A: "A" is not a tag; use letters`,
		"tags: {a: b}":                `f:1:8: tags.a: "b" is not a number; use digits`,
		"name: \"\"":                  "f:1:7: name: is missing or empty, and so is part; give one of them",
		"part: {kind: one, other: x}": "f:1:26: part.other: is not for kind one, but for two; remove it",
	} {
		var got host
		d, report := Decode("f", []byte(text), &got, &hosts), Report{}
		report.Check(&got, &hosts)
		found := d.Problems()
		for _, p := range report.Problems {
			if !d.Known(p.Path) {
				found = append(found, p)
			}
		}
		assert.Equal(t, want, d.Place(found).Error(), text)
	}
}

func TestParseDuration_takes_whole_days_and_weeks(t *testing.T) {
	const day = 24 * time.Hour
	for text, want := range map[string]time.Duration{
		"30s": 30 * time.Second, "7d": 7 * day, "2w": 14 * day, "1w2d3h": 9*day + 3*time.Hour, "-1d": -day, "0": 0,
		"1d12h": 36 * time.Hour, "1.5h": 90 * time.Minute,
	} {
		got, err := ParseDuration(text)
		require.NoError(t, err, text)
		assert.Equal(t, want, got, text)
	}
	for _, text := range []string{"", "d", "1.5d", "0.5w", "7days", "1 d", "99999999d", "yesterday"} {
		_, err := ParseDuration(text)
		assert.Error(t, err, text)
	}
}
