// SPDX-License-Identifier: Apache-2.0

package config

import "github.com/kube-eventbridge/kube-eventbridge/internal/config/rules"

// Default returns what an empty file means. It has no pipeline, so it is not valid as it is.
func Default() *Config {
	c := new(Config)
	rules.SetDefaults(c, whole.Keys)
	return c
}

// Validate reports everything that is wrong with c, as a [Problems] without places, or nil.
func (c *Config) Validate() error {
	if found := c.check().Problems; found != nil {
		return found
	}
	return nil
}

// checker collects what it finds in a configuration.
type checker struct {
	*Config
	rules.Report
}

// maxPipelines bounds the comparison of each with all others.
const maxPipelines = 200

// check returns what is wrong with c, and what is allowed and costs something.
func (c *Config) check() rules.Report {
	k := &checker{Config: c}
	if len(c.Pipelines) > maxPipelines {
		k.Add("pipelines", "has %d, and a process has at most %d; spread them over several", len(c.Pipelines), maxPipelines)
		c.Pipelines = c.Pipelines[:maxPipelines]
	}
	k.Check(c, &whole)
	k.rules()
	return k.Report
}
