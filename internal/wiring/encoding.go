// SPDX-License-Identifier: Apache-2.0

package wiring

import (
	"fmt"
	"slices"

	"github.com/kube-eventbridge/kube-eventbridge/encode/jsonscan"
	"github.com/kube-eventbridge/kube-eventbridge/encode/redact"
	"github.com/kube-eventbridge/kube-eventbridge/internal/config"
	"github.com/kube-eventbridge/kube-eventbridge/internal/exit"
)

// secretHashes returns how a pipeline shows that a Secret's value changed; nil if it does not. It reads the file of the
// key.
func secretHashes(c *config.Pipeline) (*redact.Hashes, error) {
	key, err := c.Encoding.Secrets.HashKey()
	if err != nil {
		return nil, &exit.InputError{Err: fmt.Errorf("pipeline %s: %w", c.Name, err)}
	}
	if key == (config.Secret{}) {
		return nil, nil
	}
	return redact.NewHashes([]byte(key.Reveal())), nil
}

// paths parses lists of paths.
func paths(lists ...[]string) ([]jsonscan.Path, error) {
	var all []jsonscan.Path
	for _, s := range slices.Concat(lists...) {
		p, err := jsonscan.ParsePath(s)
		if err != nil {
			return nil, err
		}
		all = append(all, p)
	}
	return all, nil
}
