// SPDX-License-Identifier: Apache-2.0

package reader

import (
	"bytes"
	"context"
	"strconv"

	"github.com/kube-eventbridge/kube-eventbridge/source"
	"github.com/kube-eventbridge/kube-eventbridge/source/kube"
	"github.com/kube-eventbridge/kube-eventbridge/source/rawjson"
)

// trail is what is read back of one object, from the end of a gap to what was published.
type trail struct {
	*recovery
	difference
	// floor is the version up to which all is published, or on its way.
	floor uint64
	// steps are newest first.
	steps []*past
	// held is the size of the bodies in them.
	held int
	// why is set where not all was found.
	why error
}

// past is a state that an object had, or its end.
type past struct {
	source.Ident
	op      source.Op
	version uint64
	// body is nil if it has to be read once more, as of version; of an end it is that of the state before, with the
	// version of the end.
	body *source.Body
}

func (p *past) release() {
	if p != nil {
		p.body.Release()
		p.body = nil
	}
}

// ended is the end of what was last in state p.
func ended(p *past, version uint64) *past {
	e := &past{Ident: p.Ident, op: source.Deleted, version: version}
	e.ResourceVersion = strconv.FormatUint(version, 10)
	e.body = withVersion(p.body, e.ResourceVersion)
	return e
}

// trail returns where the reading of an object begins; nil where there is nothing to read.
func (r *recovery) trail(d difference) *trail {
	t := &trail{recovery: r, difference: d, floor: r.from}
	if d.published.Name != "" {
		version, ok := source.Number(d.published.ResourceVersion)
		if !ok {
			return nil
		}
		t.floor = max(t.floor, version)
	}
	end := r.to
	if d.end.Name != "" {
		var ok bool
		if end, ok = source.Number(d.end.ResourceVersion); !ok {
			return nil
		}
	}
	if end <= t.floor {
		return nil
	}
	return t
}

// follow goes back from the end of the gap. The error says why it did not get as far as what was published.
func (t *trail) follow(ctx context.Context) (err error) {
	absent := t.to
	if t.end.Name != "" {
		version, _ := source.Number(t.end.ResourceVersion)
		absent, err = t.down(ctx, t.end, version)
	}
	if n := len(t.steps); err == nil && n > 0 && t.published.Name == "" {
		t.steps[n-1].op = source.Added
	}
	// On a stream with selectors, what was published can have left and come back several times.
	for err == nil && absent != 0 && t.published.Name != "" {
		last, end, lost := t.bisect(ctx, absent)
		if last == nil {
			return lost
		}
		t.push(ended(last, end))
		if last.version <= t.floor {
			last.release()
			return nil
		}
		t.push(last)
		absent, err = t.down(ctx, last.Ident, last.version)
	}
	return err
}

// down reads the states before a version, one after the other. It returns the version at which there was none, 0 where
// what was published is reached.
func (t *trail) down(ctx context.Context, id source.Ident, version uint64) (absent uint64, err error) {
	for version-1 > t.floor {
		p, err := t.read(ctx, id, version-1)
		if err != nil {
			return 0, err
		}
		if p == nil {
			if n := len(t.steps); n > 0 {
				t.steps[n-1].op = source.Added
			}
			return version - 1, nil
		}
		if p.version <= t.floor {
			p.release()
			return 0, nil
		}
		version = p.version
		t.push(p)
	}
	return 0, nil
}

// bisect looks for the end of what was published, which is not there at absent any more: it returns its last state, and
// the version of the end; no state where it is not there from the start, because its end is on its way already.
func (t *trail) bisect(ctx context.Context, absent uint64) (last *past, end uint64, err error) {
	there := t.floor
	last, err = t.alive(ctx, there)
	if err == nil && last == nil {
		return nil, 0, nil
	}
	// Where the history is gone it may have been there still: what is left of the history decides.
	for absent-there > 1 && (err == nil || kube.Expired(err)) {
		at := there + (absent-there)/2
		var p *past
		switch p, err = t.alive(ctx, at); {
		case err == nil && p == nil:
			absent = at
		case err == nil || kube.Expired(err):
			last.release()
			last, there = p, at
		}
	}
	switch {
	case err != nil && !kube.Expired(err):
		last.release()
		return nil, 0, err
	case last == nil:
		return nil, 0, gone()
	}
	return last, absent, nil
}

// alive reads what was published as it was at a version; nil where it was not there.
func (t *trail) alive(ctx context.Context, at uint64) (*past, error) {
	p, err := t.read(ctx, t.published, at)
	if p != nil && p.UID != t.published.UID {
		p.release()
		p = nil
	}
	return p, err
}

// push adds an older state.
func (t *trail) push(p *past) {
	if size := len(p.body.Bytes()); t.held+size <= maxHeld {
		t.held += size
	} else {
		p.release()
	}
	t.steps = append(t.steps, p)
}

// again reads once more what was not held.
func (t *trail) again(ctx context.Context, p *past) error {
	at := p.version
	if p.op == source.Deleted {
		at--
	}
	found, err := t.read(ctx, p.Ident, at)
	if err != nil {
		return err
	}
	if found == nil || found.UID != p.UID {
		found.release()
		return rawjson.Unreadable("%q is not what it was at %d", p.Name, at)
	}
	p.body = found.body
	if p.op == source.Deleted {
		p.body = withVersion(found.body, p.ResourceVersion)
		found.release()
	}
	return nil
}

// release gives back what was not delivered.
func (t *trail) release() {
	for _, p := range t.steps {
		p.release()
	}
}

// withVersion copies an object, with another resourceVersion: an API server shows the end of an object as its last
// state, with the version of its end.
func withVersion(b *source.Body, version string) *source.Body {
	raw := b.Bytes()
	from, err := rawjson.FindVersion(raw)
	// What was found is a part of raw, unless something is escaped in it, which no writer does to a number.
	at := cap(raw) - cap(from)
	if err != nil || len(from) == 0 || !bytes.HasPrefix(raw[min(at, len(raw)):], from) {
		return source.NewBody(raw)
	}
	return source.NewBody(raw[:at], []byte(version), raw[at+len(from):])
}
