// SPDX-License-Identifier: Apache-2.0

package sinktest

import (
	"errors"
	"testing"

	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
)

func testIdentity(t *testing.T, h *Harness) {
	h.log(t)
	start(t, h)
	id := h.identity(t)
	if id == "" {
		t.Error("no identity")
	}
	if h.Remake != nil && h.Own == nil {
		h.Remake(t, 0) // nothing is lost: nothing was promised
		again := ""
		must.Succeed(t, "the identity of the new log", func() error {
			if again = h.identity(t); again == id {
				return errors.New("is that of the old one")
			}
			return nil
		})
		id = again
	}
	same := func(when string) {
		t.Helper()
		if again := h.identity(t); again != id {
			t.Errorf("%s the identity is %s, want %s", when, again, id)
		}
	}
	_, places := h.fill(t, 20)
	same("with messages")
	if h.Stop != nil {
		h.Stop(t)
		h.Start(t)
		same("after a restart")
	}
	if h.Purge != nil {
		h.Purge(t)
		same("after its messages were removed")
	}
	beyond := ends(places)
	for partition := range beyond {
		beyond[partition] += 10
	}
	if b := h.expect(t, beyond); b.ID != id || b.Partitions[0].Last >= beyond[0] {
		t.Errorf("more is expected: %+v", b)
	}
}

func testPlaces(t *testing.T, h *Harness) {
	h.log(t)
	start(t, h)
	if st := h.at(t, 0, 1); st != nil {
		t.Errorf("an empty log has %+v", st)
	}
	published, places := h.fill(t, 20)
	for i, p := range places {
		st := h.at(t, p.Partition, p.Sequence)
		if st == nil || st.Sequence != p.Sequence || st.Partition != p.Partition {
			t.Fatalf("at %d/%d: %+v", p.Partition, p.Sequence, st)
		}
		if len(st.Data) != 0 {
			t.Errorf("%s has its data", st.ID)
		}
		st.Data = published[i].Data
		h.compare(t, *st, published[i])
	}
	for partition, last := range ends(places) {
		for _, sequence := range []uint64{0, last + 1, 1 << 40} {
			if st := h.at(t, partition, sequence); st != nil {
				t.Errorf("at %d/%d: %+v", partition, sequence, st)
			}
		}
	}
	if st := h.at(t, 1<<20, 1); st != nil {
		t.Errorf("in a partition that is none: %+v", st)
	}
	if h.Purge != nil {
		h.Purge(t)
		if st := h.at(t, places[0].Partition, places[0].Sequence); st != nil {
			t.Errorf("a message that was removed: %+v", st)
		}
	}
}
