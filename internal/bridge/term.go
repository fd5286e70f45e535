// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"context"
)

// lost has f called when the term is not held any more, and returns how to end that. There may be no term.
func (t *Term) lost(f func()) (stop func() bool) {
	if t == nil {
		return func() bool { return true }
	}
	return context.AfterFunc(t.Held, f)
}

// held reports whether the pipeline may publish and commit; without a term it always may.
func (t *Term) held() bool { return t == nil || t.Held.Err() == nil }

// assume makes the term's number known, and durable before anything is published under it: a number that the checkpoint
// has is another writer's. The error is ctx's, or permanent.
func (p *session) assume(ctx context.Context) error {
	t := p.cfg.Term
	if t == nil {
		return nil
	}
	if p.term == 0 {
		p.term = p.journal.NextTerm(t.Number)
	}
	for _, spec := range p.entries.all() {
		spec.Encoding.WriterTerm = int(p.term)
	}
	return p.journal.SaveTerm(ctx, p.term)
}

// sayPublishing tells a person where events go from now on, and with a term the number that they carry.
func (p *session) sayPublishing() {
	if p.cfg.Term == nil {
		p.cfg.Log.Info("publishing", "to", p.cfg.Target)
		return
	}
	p.cfg.Log.Info("publishing", "to", p.cfg.Target, "writerterm", p.term)
}
