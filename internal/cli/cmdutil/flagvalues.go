// SPDX-License-Identifier: Apache-2.0

package cmdutil

import (
	"errors"
	"fmt"
	"time"

	"github.com/kube-eventbridge/kube-eventbridge/internal/config"
)

// Age is a flag's value: a duration as in a configuration file.
type Age time.Duration

// Set implements pflag.Value.
func (a *Age) Set(text string) error {
	d, err := config.ParseDuration(text)
	if err != nil {
		if _, err := time.Parse(time.RFC3339Nano, text); err == nil {
			return errors.New("it is a time; write --since-time, or a duration such as 30s, 10m, 2h or 1d")
		}
		return errors.New("it is not a duration; write one such as 30s, 10m, 2h or 1d")
	}
	*a = Age(d)
	return nil
}

// String implements pflag.Value; what is not given is empty, so that help shows no default.
func (a *Age) String() string {
	if *a == 0 {
		return ""
	}
	return time.Duration(*a).String()
}

// Type implements pflag.Value.
func (*Age) Type() string { return "duration" }

// ParseMoment reads a point in time as people write it: a date, which is its midnight, a date with a time of day, a
// time in RFC 3339, today, yesterday, now, or a duration before now, such as 7d. What names no zone is in that of now.
func ParseMoment(text string, now time.Time) (time.Time, error) {
	midnight := time.Date(now.Year(), now.Month(), now.Day(), 0, 0, 0, 0, now.Location())
	switch text {
	case "now":
		return now, nil
	case "today":
		return midnight, nil
	case "yesterday":
		return midnight.AddDate(0, 0, -1), nil
	}
	for _, layout := range []string{
		time.RFC3339Nano, time.DateOnly, time.DateTime, "2006-01-02 15:04", "2006-01-02T15:04:05", "2006-01-02T15:04",
	} {
		if at, err := time.ParseInLocation(layout, text, now.Location()); err == nil {
			return at, nil
		}
	}
	if d, err := config.ParseDuration(text); err == nil && d >= 0 {
		return now.Add(-d), nil
	}
	return time.Time{}, fmt.Errorf("%q is not a time; write one such as 2026-11-17, \"2026-11-17 15:04\", "+
		"2026-11-17T15:04:05Z, yesterday or 7d", text)
}
