// SPDX-License-Identifier: Apache-2.0

package cmdutil

import (
	"errors"
	"regexp"
	"strconv"
	"time"
)

// Age is a flag's value: a duration as Go writes it, or whole days or weeks, which a configuration file does not take.
type Age time.Duration

var longAge = regexp.MustCompile(`^([0-9]{1,4})([dw])$`)

// Set implements pflag.Value.
func (a *Age) Set(text string) error {
	if parts := longAge.FindStringSubmatch(text); parts != nil {
		n, _ := strconv.Atoi(parts[1])
		day := 24 * time.Hour
		*a = Age(time.Duration(n) * map[string]time.Duration{"d": day, "w": 7 * day}[parts[2]])
		return nil
	}
	d, err := time.ParseDuration(text)
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
