// SPDX-License-Identifier: Apache-2.0

package cmdutil

import (
	"errors"
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
