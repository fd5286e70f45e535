// SPDX-License-Identifier: Apache-2.0

package source

import (
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// permission is whether reading back is of use still. That it may not be done can pass, while credentials are
// exchanged.
type permission struct {
	mu sync.Mutex
	// refusals are those since something was answered; for good is the last one of too many.
	refusals int
	forGood  error
}

// note takes note of how a read ended.
func (p *permission) note(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case apierrors.IsForbidden(err), apierrors.IsUnauthorized(err):
		if p.refusals++; p.refusals >= maxDenied {
			p.forGood = err
		}
	case err == nil, unanswerable(err):
		p.refusals = 0
	}
}

// lacking returns why nothing more is to be read.
func (p *permission) lacking() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.forGood
}
