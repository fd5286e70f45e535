// SPDX-License-Identifier: Apache-2.0

package nats

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	"github.com/kube-eventbridge/kube-eventbridge/checkpoint/storetest"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
)

func TestDiscard_removes_an_older_versions_checkpoint_and_no_other(t *testing.T) {
	srv := newServer(t)
	cfg, js := at(srv.ClientURL()), client(t, srv)
	other := cfg
	other.Name = "prod-eu-1.audit-2"
	kept := mustOpen(t.Context(), t, other)
	require.NoError(t, kept.Commit(t.Context(), benchRows(0, 5, 1)))
	kv := must.Get(js.KeyValue(t.Context(), testBucket))(t)
	for n := range 3 {
		message := []byte{1, 'w', 0, 0, 0, 0, 0, 0, 0, 0, 1, byte(n + 1), 0}
		must.Get(kv.Put(t.Context(), fmt.Sprint("prod-eu-1.audit.", n+1), message))(t)
	}
	_, err := Open(t.Context(), cfg, audit)
	var old *checkpoint.FormatError
	require.ErrorAs(t, err, &old)
	assert.True(t, old.Old(), "%v", err)

	require.NoError(t, Discard(t.Context(), cfg, audit))
	s := mustOpen(t.Context(), t, cfg)
	storetest.MustHold(t.Context(), t, s, storetest.Empty())
	require.NoError(t, s.Commit(t.Context(), benchRows(0, 5, 2)))
	want := storetest.After(storetest.Empty(), benchRows(0, 5, 2))
	require.NoError(t, Discard(t.Context(), cfg, audit), "of this version's format")
	storetest.MustHold(t.Context(), t, s, want)
	storetest.MustHold(t.Context(), t, kept, storetest.After(storetest.Empty(), benchRows(0, 5, 1)))
}
