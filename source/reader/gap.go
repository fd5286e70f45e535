// SPDX-License-Identifier: Apache-2.0

package reader

import (
	"context"
	"fmt"
	"hash/maphash"
	"iter"
	"time"

	"github.com/kube-eventbridge/kube-eventbridge/source"
	"github.com/kube-eventbridge/kube-eventbridge/source/kube"
	"github.com/kube-eventbridge/kube-eventbridge/source/rawjson"
)

// maxChased is how many lists in a row are made at the oldest version that can be watched, where each time that is no
// longer possible when the list is published: then the newest version leaves more time.
const maxChased = 3

// gap is why a watch could not go on, and what is known of what it would have shown.
type gap struct {
	// why has the API server's word, or that of who has asked for the list.
	why source.Why
	// oldest is the oldest version that can be watched; empty where it is not known, or no list can be made there. Read
	// is the newest version that a watch has shown.
	oldest, read string
	// unread: a watch has expired, and nothing was read back yet.
	unread bool
	// asked: a list at oldest was asked for, and nothing is to be read back.
	asked bool
	// account says what was read back and what was not; empty where that was not tried.
	account string
	// reads is how many requests were made to read back, and until when it may go on; zero before the first.
	reads int
	until time.Time
}

// text says for a person why there is a gap, and what of it is not known.
func (g *gap) text() string {
	if g.account == "" {
		return g.why.Message
	}
	return g.why.Message + "; " + g.account
}

// announced forgets what was read back: a list that has to be begun again is behind a gap of its own, and at the newest
// version.
func (g *gap) announced() { g.oldest, g.account, g.unread = "", "", false }

// begin reads the first page of a list: of the one that leaves the smallest gap, or else of the newest.
func (w *wire) begin(ctx context.Context) (rawjson.ListMeta, [][]byte, error) {
	if w.gap.oldest == "" {
		if w.gap.unread {
			return w.beginNewest(ctx)
		}
		w.chased = 0
		return w.firstPage(ctx, "")
	}
	if !w.gap.asked {
		w.chased++
	}
	meta, first, err := w.beginOldest(ctx)
	if err == nil || ctx.Err() != nil {
		return meta, first, err
	}
	message := fmt.Sprintf("%s; no list could be made there: %v", w.gap.text(), err)
	w.gap.announced()
	w.gap.why.Message = message
	if kube.Expired(err) {
		return w.beginNewest(ctx)
	}
	return w.begin(ctx)
}

// beginNewest begins a list at the newest version. Before that it reads back what the API server still has of the time
// since the position, where it has forgotten only a part of that.
func (w *wire) beginNewest(ctx context.Context) (rawjson.ListMeta, [][]byte, error) {
	w.chased = 0
	meta, first, err := w.firstPage(ctx, "")
	if err != nil {
		return meta, first, err
	}
	if _, known, ok := w.history.Resume(); ok {
		// Any other failure leaves the gap as large as it is without reading back.
		if err := w.readBack(ctx, meta.ResourceVersion, known); ctx.Err() != nil {
			return meta, first, err
		}
	}
	return meta, first, nil
}

// beginOldest begins a list at the oldest version that can still be watched, so that the changes since then come by
// watch, when it has read back what lies before; of a list that was asked for all of that was shown. It is not older
// than anything that was shown, so that what it lacks no longer exists.
func (w *wire) beginOldest(ctx context.Context) (rawjson.ListMeta, [][]byte, error) {
	version := source.Later(w.gap.oldest, w.gap.read)
	_, known, ok := w.history.Resume()
	if ok {
		for id := range known {
			version = source.Later(version, id.ResourceVersion)
		}
	}
	if ok && !w.gap.asked {
		if err := w.readBack(ctx, version, known); err != nil {
			return rawjson.ListMeta{}, nil, err
		}
	}
	return w.firstPage(ctx, version)
}

// difference is an object that is not, at the end of a gap, what was published of it. Both are without a name where
// there is no such object.
type difference struct{ published, end source.Ident }

// differences compares what was published with the list at a version, of which it reads metadata only. Of what does not
// differ it holds two hashes each.
func (w *wire) differences(
	ctx context.Context, version string, known iter.Seq2[source.Ident, bool],
) ([]difference, error) {
	c := comparison{seed: maphash.MakeSeed(), published: map[uint64]uint64{}, found: map[uint64]int{}}
	for id := range known {
		c.published[c.key(id)] = c.state(id)
	}
	take := func(raw []byte) error {
		id, err := source.ParseIdent(raw, w.stream.Namespaced)
		if err == nil {
			c.item(id)
		}
		return err
	}
	for q := (kube.PageQuery{Limit: kube.PageSize, Exact: version, Identities: true}); ; {
		meta, err := w.page(ctx, q, new(kube.Patience).Spent, take)
		if err != nil {
			return nil, err
		}
		if meta.Continue == "" {
			return c.result(known), nil
		}
		q = kube.PageQuery{Limit: kube.PageSize, Token: meta.Continue, Identities: true}
	}
}

type comparison struct {
	seed maphash.Seed
	// published are the states of what was published and was not found as it is, by key; found are places in differing,
	// by key.
	published map[uint64]uint64
	found     map[uint64]int
	differing []difference
}

func (c *comparison) key(id source.Ident) uint64 {
	return maphash.Comparable(c.seed, [2]string{id.Namespace, id.Name})
}

func (c *comparison) state(id source.Ident) uint64 {
	return maphash.Comparable(c.seed, [2]string{id.UID, id.ResourceVersion})
}

func (c *comparison) item(id source.Ident) {
	key := c.key(id)
	if state, ok := c.published[key]; ok && state == c.state(id) {
		delete(c.published, key)
		return
	}
	c.found[key] = len(c.differing)
	c.differing = append(c.differing, difference{end: id})
}

// result adds what was published of the objects that differ, as it is by now, and the objects that were not found.
func (c *comparison) result(known iter.Seq2[source.Ident, bool]) []difference {
	for id := range known {
		key := c.key(id)
		if _, left := c.published[key]; !left {
			continue
		}
		if i, ok := c.found[key]; ok {
			c.differing[i].published = id
		} else {
			c.differing = append(c.differing, difference{published: id})
		}
	}
	return c.differing
}
