// SPDX-License-Identifier: Apache-2.0

package kafka

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	"github.com/kube-eventbridge/kube-eventbridge/checkpoint/storetest"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
)

func discardFake(ctx context.Context, f *fake) error {
	return discard(ctx, Config{Topic: "checkpoints"}.withDefaults(audit), audit, f)
}

// age makes what the topic has of audit's checkpoint that of an older version.
func age(f *fake, p int32) {
	for key, value := range f.live() {
		if value = bytes.Clone(value); strings.Contains(key, "audit") && len(value) > 0 {
			value[0] = 1
			f.put(p, key, value)
		}
	}
}

func TestDiscard_removes_an_older_versions_checkpoint_and_no_other(t *testing.T) {
	f := newFake(3)
	f.settings[settingSize] = "900"
	old := mustOpen(t.Context(), t, f)
	require.NoError(t, old.Commit(t.Context(), manyRows(60, 1)))
	p := home(f)
	other := audit
	other.Pipeline = "other"
	kept := must.Get(openFake(t.Context(), f, Config{}, other))(t)
	b := manyRows(5, 2)
	b.Identity = other
	require.NoError(t, kept.Commit(t.Context(), b))
	age(f, p)
	_, err := openFake(t.Context(), f, Config{}, audit)
	var unknown *checkpoint.FormatError
	require.ErrorAs(t, err, &unknown)

	require.NoError(t, discardFake(t.Context(), f))
	err = old.Commit(t.Context(), manyRows(1, 3))
	assert.True(t, checkpoint.IsTaken(err), "the older version commits again: %v", err)
	s := mustOpen(t.Context(), t, f)
	storetest.MustHold(t.Context(), t, s, storetest.Empty())
	require.NoError(t, s.Commit(t.Context(), manyRows(3, 4)))
	require.NoError(t, discardFake(t.Context(), f), "of this version's format")
	storetest.MustHold(t.Context(), t, s, storetest.After(storetest.Empty(), manyRows(3, 4)))
	storetest.MustHold(t.Context(), t, kept, storetest.After(storetest.Empty(), b))
}

func TestDiscard_that_is_cut_short_goes_on(t *testing.T) {
	f := newFake(1)
	f.settings[settingSize] = "900"
	require.NoError(t, mustOpen(t.Context(), t, f).Commit(t.Context(), manyRows(60, 1)))
	age(f, 0)
	before := len(f.logs[0])
	require.NoError(t, discardFake(t.Context(), f))
	whole := f
	for n := before; n < len(whole.logs[0]); n++ {
		f := whole.copy(0, n)
		f.settings[settingSize] = "900"
		_, err := openFake(t.Context(), f, Config{}, audit)
		var unknown *checkpoint.FormatError
		require.ErrorAs(t, err, &unknown, "after %d batches", n-before)
		require.NoError(t, discardFake(t.Context(), f))
		storetest.MustHold(t.Context(), t, mustOpen(t.Context(), t, f), storetest.Empty())
	}
}
