// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"testing"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	"github.com/kube-eventbridge/kube-eventbridge/source"
)

// What is read back or listed is ahead of the position. A watch from there would show what is older than that, so whoever goes on after a crash lists
// first.
func TestHistory_a_list_is_owed_from_what_is_read_back_until_it_is_complete(t *testing.T) {
	log, store := newReadableLog(), &memoryStore{}
	r, s := saved(t, log, store)
	owed := func(when string, want source.Owed) {
		t.Helper()
		if now := s.owed(); now != want {
			t.Errorf("%s: owed %+v, want %+v", when, now, want)
		}
		if has := store.state.Streams[s.name].Owed; has != (checkpoint.Owed{Version: want.Version, Cause: want.Cause}) {
			t.Errorf("%s: the store says %+v", when, has)
		}
	}
	restart := func() {
		t.Helper()
		_ = r.stop()
		r = start(t, log, store)
		s = r.stream(nil)
	}
	owed("in the beginning", source.Owed{})

	note(t, s, source.Progress{Kind: source.Recovering, Version: "40", Cause: "expired"})
	owed("before anything is read back", source.Owed{Version: "40", Cause: "expired"})
	send(t, s, source.Updated, "a", "u1", "15", source.ReasonRecovered)
	r.settle()
	restart()
	owed("after a crash", source.Owed{Version: "40", Cause: "expired"})
	if version, _, ok := s.Resume(); !ok || version != "10" {
		t.Errorf("it resumes at %q", version)
	}

	note(t, s, source.Progress{Kind: source.Gap, Version: "41", Cause: "expired; nothing"})
	if err := r.save(t.Context()); err != nil {
		t.Fatal(err)
	}
	restart()
	owed("in the middle of the list", source.Owed{Version: "41", Cause: "expired; nothing", Announced: true})

	note(t, s, source.Progress{Kind: source.Gap, Version: "41", Cause: "expired; nothing"})
	send(t, s, source.Added, "a", "u1", "41", source.ReasonRelist)
	note(t, s, source.Progress{Kind: source.Listed, Version: "41", Objects: 1})
	owed("when the list is complete", source.Owed{})
	checkOnce(t, log)
}
