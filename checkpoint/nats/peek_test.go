// SPDX-License-Identifier: Apache-2.0

package nats

import (
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
)

func TestPeeker_follows_what_is_committed_and_leaves_the_owner_alone(t *testing.T) {
	srv := newServer(t)
	p, err := NewPeeker(at(srv.ClientURL()), audit)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = p.Close() }()
	peek := func() map[string]checkpoint.Stream {
		t.Helper()
		streams, err := p.Peek(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return streams
	}
	if got := peek(); len(got) != 0 {
		t.Errorf("without a bucket there is %v", got)
	}
	random := rand.New(rand.NewPCG(1, 2))
	want := emptyState()
	for process := range 3 { // each takes over
		s := mustOpen(t.Context(), t, at(srv.ClientURL()))
		for n := range 20 {
			b := someBatch(random)
			mustCommit(t.Context(), t, s, b)
			want = apply(want, b)
			if n%3 == 0 {
				continue // several commits between two looks
			}
			if got := peek(); !reflect.DeepEqual(got, want.Streams) {
				t.Fatalf("process %d, commit %d: got %v, want %v", process, n, got, want.Streams)
			}
			if n := len(p.read.content.rows); n != 0 {
				t.Fatalf("it keeps rows of %d streams", n)
			}
		}
	}
}

func TestPeeker_goes_on_when_the_server_is_back(t *testing.T) {
	srv := newServer(t)
	s := mustOpen(t.Context(), t, at(srv.ClientURL()))
	b := someBatch(rand.New(rand.NewPCG(3, 4)))
	b.Streams["pods.v1"] = checkpoint.Stream{Position: "7"}
	mustCommit(t.Context(), t, s, b)
	cfg := at(srv.ClientURL())
	cfg.Patience = 1 // one attempt
	p, err := NewPeeker(cfg, audit)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = p.Close() }()
	check := func() {
		t.Helper()
		if got, err := p.Peek(t.Context()); err != nil || got["pods.v1"].Position != "7" {
			t.Fatalf("got %v, %v", got, err)
		}
	}
	check()
	js := client(t, srv)
	if err := js.DeleteKeyValue(t.Context(), testBucket); err != nil {
		t.Fatal(err)
	}
	if got, err := p.Peek(t.Context()); err == nil && len(got) != 0 {
		t.Errorf("of a bucket that is deleted: %v", got)
	}
	mustCommit(t.Context(), t, mustOpen(t.Context(), t, at(srv.ClientURL())), b)
	check()
}
