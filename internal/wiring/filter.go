// SPDX-License-Identifier: Apache-2.0

package wiring

import (
	"crypto/rand"
	"strings"

	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge"
	"github.com/kube-eventbridge/kube-eventbridge/internal/config"
	"github.com/kube-eventbridge/kube-eventbridge/internal/filter"
	"github.com/kube-eventbridge/kube-eventbridge/source"
)

// filterOf returns which changes of a resource are published, nil if all are, and whether it takes their states before
// to know.
func filterOf(p *config.Pipeline, r *config.Resource) (f bridge.Filter, previous bool, err error) {
	ignored, err := paths(r.IgnoreChanges)
	if err != nil {
		return nil, false, err
	}
	c := filter.Config{IgnoreChanges: ignored, DropErrors: r.OnFilterError == config.OnFilterErrorDrop}
	if c.DigestKey, err = digestKey(p, r); err != nil {
		return nil, false, err
	}
	for _, op := range r.Operations {
		c.Operations = append(c.Operations, map[config.Operation]source.Op{
			config.Added: source.Added, config.Updated: source.Updated, config.Deleted: source.Deleted,
		}[op])
	}
	if r.Filter != "" {
		if c.Expression, err = filter.ParseExpression(r.Filter); err != nil {
			return nil, false, err
		}
		previous = c.Expression.Old()
	}
	if f := filter.New(c); f != nil {
		return f, previous, nil
	}
	return nil, false, nil
}

// digestKey returns what keeps digests, which are in the checkpoint, from confirming a guess of what does not leave the
// process otherwise; nil where there is nothing of the kind. Without a key in the configuration it is one of this
// process, and the digests of an earlier one tell nothing.
func digestKey(p *config.Pipeline, r *config.Resource) ([]byte, error) {
	named := strings.HasPrefix(r.Resource.String(), "secret") // also secret and secrets.v1
	secrets := !p.Encoding.Secrets.Values && (named || r.Resource.Wildcard())
	if !secrets && len(p.Encoding.Redact)+len(r.Redact) == 0 {
		return nil, nil
	}
	key, err := p.Encoding.Secrets.HashKey()
	if err != nil || key != nil {
		return key, err
	}
	return []byte(rand.Text()), nil
}
