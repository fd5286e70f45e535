// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"testing"

	"github.com/kube-eventbridge/kube-eventbridge/encode"
	"github.com/kube-eventbridge/kube-eventbridge/source"
	"github.com/stretchr/testify/require"
)

func inKnative() *StreamSpec {
	return &StreamSpec{Encoding: encode.Config{Profile: encode.Knative, Host: "https://10.96.0.1:443"}}
}

const link = "/apis/v1/namespaces/default/configmaps/"

// Types, sources and subjects of a log may be another's; what a dead process published is known all the same.
func TestProfile_what_died_with_its_process_is_read_back(t *testing.T) {
	log, store := newReadableLog(), &crashingStore{}
	store.left.Store(1 << 30)
	r := start(t, log, store)
	s := r.stream(inKnative())
	snapshot(t, s, "10", "a u1 5")
	require.NoError(t, r.save(t.Context()))
	store.left.Store(0)
	send(t, s, source.Added, "b", "u2", "11", source.ReasonWatch)
	r.settle()
	send(t, s, source.Updated, "a", "u1", "12", source.ReasonWatch)
	r.settle()
	_ = r.stop()
	log.forgetIDs()

	r = start(t, log, &store.memoryStore)
	s = r.stream(inKnative())
	send(t, s, source.Added, "b", "u2", "11", source.ReasonWatch) // the watch repeats what the log has
	send(t, s, source.Updated, "a", "u1", "12", source.ReasonWatch)
	r.settle()
	relist(t, s, "20", "a u1 12")
	r.settle()
	expect(t, log.lines(), "snapshot-started 10", "add "+link+"a u1 5 snapshot", "snapshot-completed 10",
		"add "+link+"b u2 11 watch", "update "+link+"a u1 12 watch", "gap 20", "delete "+link+"b u2 11 relist")
}

// Where the tail was not read, the broker's check of the last message tells.
func TestProfile_the_last_message_of_an_object_teaches_the_ledger(t *testing.T) {
	log := newFakeLog()
	r := start(t, log, &memoryStore{})
	send(t, r.stream(inKnative()), source.Added, "a", "u1", "12", source.ReasonWatch)
	r.settle()
	_ = r.stop()
	log.forgetIDs()

	r = start(t, log, &memoryStore{})
	s := r.stream(inKnative())
	send(t, s, source.Added, "a", "u1", "11", source.ReasonWatch)
	send(t, s, source.Updated, "a", "u1", "13", source.ReasonWatch)
	r.settle()
	expect(t, log.lines(), "add "+link+"a u1 12 watch", "update "+link+"a u1 13 watch")
}

// A profile can be changed with the checkpoint kept: ids stay what they are.
func TestProfile_a_change_of_it_repeats_nothing(t *testing.T) {
	log, store := newReadableLog(), &memoryStore{}
	r := start(t, log, store)
	snapshot(t, r.stream(nil), "10", "a u1 5")
	_ = r.stop()

	r = start(t, log, store)
	relist(t, r.stream(inKnative()), "20", "a u1 5")
	r.settle()
	expect(t, log.lines(), "snapshot-started 10", "added default/a u1 5 snapshot", "snapshot-completed 10", "gap 20")
}
