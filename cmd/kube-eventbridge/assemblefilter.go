// SPDX-License-Identifier: Apache-2.0

package main

import (
	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge"
	"github.com/kube-eventbridge/kube-eventbridge/internal/config"
	"github.com/kube-eventbridge/kube-eventbridge/internal/filter"
	"github.com/kube-eventbridge/kube-eventbridge/source"
)

// filterOf returns which changes of a resource are published; nil if all are.
func filterOf(r *config.Resource) (bridge.Filter, error) {
	ignored, err := paths(r.IgnoreChanges)
	if err != nil {
		return nil, err
	}
	c := filter.Config{IgnoreChanges: ignored}
	for _, op := range r.Operations {
		c.Operations = append(c.Operations, map[config.Operation]source.Op{
			config.Added: source.Added, config.Updated: source.Updated, config.Deleted: source.Deleted,
		}[op])
	}
	if r.Filter != "" {
		if c.Expression, err = filter.ParseExpression(r.Filter); err != nil {
			return nil, err
		}
	}
	if f := filter.New(c); f != nil {
		return f, nil
	}
	return nil, nil //nolint:nilnil // without a filter everything is published
}
