// SPDX-License-Identifier: Apache-2.0

package nats

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	"github.com/kube-eventbridge/kube-eventbridge/checkpoint/storetest"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
)

func TestPeeker_keeps_the_contract(t *testing.T) {
	srv := newServer(t)
	p := must.Get(NewPeeker(at(srv.ClientURL()), storetest.Identity))(t)
	defer func() { _ = p.Close() }()
	storetest.Peek(t, p, func() storetest.Store { return mustOpen(t.Context(), t, at(srv.ClientURL())) })
	n := len(p.read.content.rows)
	assert.Equal(t, 0, n, "it keeps rows of %d streams", n)
}

func TestPeeker_goes_on_when_the_server_is_back(t *testing.T) {
	srv := newServer(t)
	s := mustOpen(t.Context(), t, at(srv.ClientURL()))
	b := storetest.SomeBatch(rand.New(rand.NewPCG(3, 4)))
	b.Streams["pods.v1"] = checkpoint.Stream{Position: "7"}
	require.NoError(t, s.Commit(t.Context(), b))
	cfg := at(srv.ClientURL())
	cfg.Patience = 1 // one attempt
	p := must.Get(NewPeeker(cfg, audit))(t)
	defer func() { _ = p.Close() }()
	check := func() {
		t.Helper()
		got, err := p.Peek(t.Context())
		require.True(t, err == nil && got["pods.v1"].Position == "7", "got %v, %v", got, err)
	}
	check()
	js := client(t, srv)
	require.NoError(t, js.DeleteKeyValue(t.Context(), testBucket))
	if got, err := p.Peek(t.Context()); err == nil && len(got) != 0 {
		t.Errorf("of a bucket that is deleted: %v", got)
	}
	require.NoError(t, mustOpen(t.Context(), t, at(srv.ClientURL())).Commit(t.Context(), b))
	check()
}
