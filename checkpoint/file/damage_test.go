// SPDX-License-Identifier: Apache-2.0

package file

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	bolt "go.etcd.io/bbolt"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
)

// written returns the bytes of a file, and the states of its last two commits.
func written(t *testing.T) (content []byte, states []*checkpoint.State) {
	t.Helper()
	const rows = 600
	path := filepath.Join(t.TempDir(), "audit.db")
	s := mustOpen(t, path)
	mustCommit(t, s, batch(rows, 1))
	for v := 2; v <= 3; v++ {
		b := batch(rows/3, v)
		b.Drop = map[string][]string{"pods.v1": {"namespace-9/object-999999", "namespace-0/object-120"}}
		delete(b.Put["pods.v1"], b.Drop["pods.v1"][1])
		mustCommit(t, s, b)
		states = append(states, mustLoad(t, s))
	}
	mustClose(t, s)
	content = must.Get(os.ReadFile(path))(t)
	return content, states
}

// mustSurvive opens a damaged file, and now and then commits to it if it opens. Either an error names it and it is left
// as it is, or nothing is lost but the last commit.
func mustSurvive(t *testing.T, path string, content []byte, states []*checkpoint.State, damage string) (refused bool) {
	t.Helper()
	overwrite(t, path, content)
	s, err := Open(path, identity)
	var state *checkpoint.State
	if err == nil {
		state, err = s.Load(t.Context())
		if err == nil && !same(state, states[0]) && !same(state, states[1]) {
			t.Fatalf("%s: the damage went unnoticed, and %d of %d rows are there", damage, len(state.Rows["pods.v1"]),
				len(states[1].Rows["pods.v1"]))
		}
		if err == nil && rand.IntN(16) == 0 {
			require.NoError(t, s.Commit(t.Context(), batch(20, 4)), "%s: loaded, but not committed", damage)
		}
		require.NoError(t, s.Close(), "%s: close", damage)
	}
	if err == nil {
		return false
	}
	var wrongFormat *checkpoint.FormatError
	var damaged *checkpoint.DamagedError
	require.True(t, (errors.As(err, &damaged) || errors.As(err, &wrongFormat)) && strings.Contains(err.Error(), path),
		"%s: error %T: %v", damage, err, err)
	require.True(t, checkpoint.IsPermanent(err), "%s: %v passes by itself, it says", damage, err)
	require.Equal(t, content, must.Get(os.ReadFile(path))(t), "%s: the damaged file was changed", damage)
	return true
}

func TestOpen_notices_a_file_that_was_cut_short(t *testing.T) {
	content, states := written(t)
	path := filepath.Join(t.TempDir(), "audit.db")
	for size := 1; size < len(content); size += 1 + len(content)/40 {
		assert.True(t, mustSurvive(t, path, content[:size], states, "cut short") || size >= len(content)/2,
			"%d of %d bytes were taken for the whole file", size, len(content))
	}
}

func TestOpen_notices_flipped_bits(t *testing.T) {
	content, states := written(t)
	path := filepath.Join(t.TempDir(), "audit.db")
	page, refused, n := os.Getpagesize(), 0, 0
	flip := func(bit int) {
		content[bit/8] ^= 1 << (bit % 8)
		n++
		if mustSurvive(t, path, content, states, "a flipped bit") {
			refused++
		}
		content[bit/8] ^= 1 << (bit % 8)
	}
	// Of each page all of the header and of the first element's, of the meta pages everything.
	for start := 0; start < len(content); start += page {
		size := headerSize + elementSize
		if start < 2*page {
			size = headerSize + metaSize
		}
		for bit := start * 8; bit < (start+size)*8; bit += 1 + rand.IntN(60) {
			flip(bit)
		}
	}
	for range 80 {
		flip(rand.IntN(len(content) * 8))
	}
	t.Logf("%d of %d flips were noticed, the others hit nothing, or only the last commit", refused, n)
	assert.GreaterOrEqual(t, refused, n/10, "hardly anything was noticed")
}

func TestOpen_notices_pages_that_were_not_written(t *testing.T) {
	content, states := written(t)
	path := filepath.Join(t.TempDir(), "audit.db")
	page := os.Getpagesize()
	for start := 2 * page; start < len(content); start += page {
		for _, with := range [][]byte{
			make([]byte, page), content[:page], content[len(content)-page:],
			content[2*page : 3*page],
		} {
			hurt := bytes.Clone(content)
			copy(hurt[start:], with)
			mustSurvive(t, path, hurt, states, "a page overwritten")
		}
	}
}

// A pointer to another page that is whole in itself is noticed by the pages that nothing refers to any more.
func TestOpen_notices_a_part_of_the_tree_that_was_cut_off(t *testing.T) {
	content, states := written(t)
	path := filepath.Join(t.TempDir(), "audit.db")
	overwrite(t, path, content)
	var root uint64
	db, err := bolt.Open(path, 0o600, &bolt.Options{ReadOnly: true})
	require.NoError(t, err)
	err = db.View(func(tx *bolt.Tx) error {
		root = uint64(tx.Bucket(bucketRows).Bucket([]byte("pods.v1")).Root())
		return nil
	})
	require.NoError(t, errors.Join(err, db.Close()))
	at := int(root)*os.Getpagesize() + headerSize
	child := native.Uint64(content[at+8:])
	from := append([]byte("pods.v1"), native.AppendUint64(nil, root)...)
	to := append([]byte("pods.v1"), native.AppendUint64(nil, child)...)
	hurt := bytes.ReplaceAll(content, from, to)
	require.False(t, bytes.Equal(hurt, content), "nothing was cut off")
	assert.True(t, mustSurvive(t, path, hurt, states, "a part cut off"), "nothing was noticed")
}
