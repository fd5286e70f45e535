// SPDX-License-Identifier: Apache-2.0

package file

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	bolt "go.etcd.io/bbolt"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
	"github.com/kube-eventbridge/kube-eventbridge/internal/sequence"
)

var identity = checkpoint.Identity{ClusterUID: "uid", Cluster: "prod", Pipeline: "audit"}

func mustOpen(t testing.TB, path string) *Store {
	t.Helper()
	s := must.Get(Open(path, identity))(t)
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func mustClose(t testing.TB, s *Store) {
	t.Helper()
	require.NoError(t, s.Close())
}

func mustCommit(t testing.TB, s *Store, b *checkpoint.Batch) {
	t.Helper()
	require.NoError(t, s.Commit(context.WithoutCancel(t.Context()), b))
}

func mustLoad(t testing.TB, s *Store) *checkpoint.State {
	t.Helper()
	return must.Get(s.Load(t.Context()))(t)
}

// batch puts n rows of a stream at version v.
func batch(n, v int) *checkpoint.Batch {
	rows := make(map[string]checkpoint.Row, n)
	for i := range n {
		rows[fmt.Sprintf("namespace-%d/object-%d", i%10, i)] = rowOf(i, v)
	}
	return &checkpoint.Batch{
		Identity: identity,
		Log:      logOf(v),
		Streams: map[string]checkpoint.Stream{"pods.v1": {
			Position: fmt.Sprint(v), Fingerprint: "f", Epoch: uint64(v),
			Owes: checkpoint.Owes{List: sequence.Relist, From: "1", Cause: "expired"},
		}},
		Put: map[string]map[string]checkpoint.Row{
			"pods.v1":  rows,
			"small.v1": {"a": {UID: "x", ResourceVersion: fmt.Sprint(v)}},
		},
	}
}

// logOf returns what is known of a log at version v: more than fits on a page.
func logOf(v int) *checkpoint.Log {
	l := &checkpoint.Log{ID: "l", Marks: map[int32]uint64{}, Ends: map[int32]uint64{}, IDs: map[int32]string{}, Given: 3}
	for partition := range int32(100) {
		l.Marks[partition], l.Ends[partition] = uint64(v), uint64(v)+uint64(partition)
		l.IDs[partition] = fmt.Sprintf("0f7d2a30-0c5b-4b8e-9a11-%012x.3.%d.0", partition, v)
	}
	return l
}

func rowOf(i, v int) checkpoint.Row {
	return checkpoint.Row{
		UID:             fmt.Sprintf("%08x-0c5b-4b8e-9a11-%012x", rand.New(rand.NewPCG(uint64(i), 2)).Uint32(), i),
		ResourceVersion: fmt.Sprint(v), Epoch: 3, Version: uint64(v), Sequence: uint64(v + i),
	}
}

func same(a, b *checkpoint.State) bool {
	sameStream := func(a, b checkpoint.Stream) bool { return a.Equal(&b) }
	return a.Identity == b.Identity && reflect.DeepEqual(a.Log, b.Log) &&
		maps.EqualFunc(a.Streams, b.Streams, sameStream) &&
		maps.EqualFunc(a.Rows, b.Rows, func(a, b map[string]checkpoint.Row) bool { return maps.Equal(a, b) })
}

func TestOpen_creates_what_only_the_owner_may_read(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a", "b", "audit.db")
	mustOpen(t, path)
	for p, want := range map[string]fs.FileMode{
		path: 0o600, filepath.Dir(path): 0o700,
		filepath.Dir(filepath.Dir(path)): 0o700,
	} {
		info := must.Get(os.Stat(p))(t)
		assert.Equal(t, want, info.Mode().Perm(), "%s: mode %v", p, info.Mode())
	}
}

func TestOpen_narrows_a_file_that_others_may_read(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.db")
	mustClose(t, mustOpen(t, path))
	require.NoError(t, os.Chmod(path, 0o664))
	mustOpen(t, path)
	info := must.Get(os.Stat(path))(t)
	assert.EqualValues(t, 0o600, info.Mode().Perm(), "mode %v", info.Mode())
}

func TestInUse_is_while_somebody_has_it_open(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.db")
	store := mustOpen(t, path)
	used := must.Get(InUse(path))(t)
	assert.True(t, used, "in use is %v while it is open", used)
	mustClose(t, store)
	used = must.Get(InUse(path))(t)
	assert.False(t, used, "in use is %v when it is closed", used)
	used, err := InUse(path + ".none")
	assert.True(t, err != nil && !used, "in use is %v where there is none, error %v", used, err)
	mustOpen(t, path)
}

func TestOpen_refuses(t *testing.T) {
	var busy *BusyError
	var damaged *checkpoint.DamagedError
	var other *checkpoint.FormatError
	for _, c := range []struct {
		name    string
		prepare func(t *testing.T, path string)
		as      any
		says    string
	}{
		{"a file in use", func(t *testing.T, path string) { mustOpen(t, path) }, &busy, "in use by another kube-eventbridge"},
		{
			"a text", func(t *testing.T, path string) { overwrite(t, path, bytes.Repeat([]byte("position: 5\n"), 9000)) },
			&damaged, "move the file away",
		},
		{
			"a few bytes", func(t *testing.T, path string) { overwrite(t, path, []byte("5\n")) }, &damaged,
			"move the file away",
		},
		{
			"zeros", func(t *testing.T, path string) { overwrite(t, path, make([]byte, 1<<16)) }, &damaged,
			"move the file away",
		},
		{
			"another program's database", func(t *testing.T, path string) { edit(t, path, "accounts", "alice", "5") }, &damaged,
			"it is no checkpoint",
		},
		{"an older format", func(t *testing.T, path string) {
			commitOnce(t, path)
			edit(t, path, "meta", "format", "1")
		}, &other, "run kube-eventbridge checkpoint reset, and name a new JetStream stream or topic"},
		{"a newer format", func(t *testing.T, path string) {
			commitOnce(t, path)
			edit(t, path, "meta", "format", "3")
		}, &other, "run the version that wrote it"},
		{"a checkpoint without streams", func(t *testing.T, path string) {
			commitOnce(t, path)
			update(t, path, func(tx *bolt.Tx) error { return tx.DeleteBucket(bucketStreams) })
		}, &damaged, "a bucket is missing"},
		{"a checkpoint without rows", func(t *testing.T, path string) {
			commitOnce(t, path)
			update(t, path, func(tx *bolt.Tx) error { return tx.DeleteBucket(bucketRows) })
		}, &damaged, "a bucket is missing"},
		{"a directory", func(t *testing.T, path string) {
			require.NoError(t, os.Mkdir(path, 0o700))
		}, nil, "not a regular file"},
		{
			"a path below a file", func(t *testing.T, path string) { overwrite(t, filepath.Dir(path), nil) }, nil,
			"not a directory",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "dir", "audit.db")
			if c.name != "a path below a file" {
				require.NoError(t, os.Mkdir(filepath.Dir(path), 0o700))
			}
			c.prepare(t, path)
			before, _ := os.ReadFile(path)
			for range 2 { // a refusal does not leave the file locked
				_, err := Open(path, identity)
				require.Error(t, err, "opened")
				assert.True(t, c.as == nil || errors.As(err, c.as), "error %T", err)
				assert.Equal(t, (c.as == any(&damaged) || c.as == any(&other)), checkpoint.IsPermanent(err),
					"whether to try again is not said by %T", err)
				require.Contains(t, err.Error(), path, "%q does not name, or does not say", err)
				assert.Contains(t, err.Error(), c.says, "%q does not name, or does not say", err)
			}
			after, _ := os.ReadFile(path)
			assert.Equal(t, after, before, "the file was changed")
		})
	}
}

func overwrite(t *testing.T, path string, b []byte) {
	t.Helper()
	require.NoError(t, os.WriteFile(path, b, 0o600))
}

func commitOnce(t *testing.T, path string) {
	t.Helper()
	s := mustOpen(t, path)
	mustCommit(t, s, batch(3, 1))
	mustClose(t, s)
}

// update changes a file behind the store's back.
func update(t *testing.T, path string, fn func(*bolt.Tx) error) {
	t.Helper()
	db := must.Get(bolt.Open(path, 0o600, nil))(t)
	require.NoError(t, errors.Join(db.Update(fn), db.Close()))
}

func edit(t *testing.T, path, bucket, key, value string) {
	t.Helper()
	update(t, path, func(tx *bolt.Tx) error {
		b, err := tx.CreateBucketIfNotExists([]byte(bucket))
		if err != nil {
			return err
		}
		return b.Put([]byte(key), []byte(value))
	})
}

func TestLoad_notices_what_does_not_belong_there(t *testing.T) {
	for name, change := range map[string]func(rows *bolt.Bucket) error{
		"a value in place of a stream's rows": func(rows *bolt.Bucket) error {
			return rows.Put([]byte("deployments.v1.apps"),
				[]byte("5"))
		},
		"a row of another stream": func(rows *bolt.Bucket) error {
			v := rows.Bucket([]byte("small.v1")).Get([]byte("a"))
			return rows.Bucket([]byte("pods.v1")).Put([]byte("a"), v)
		},
		"a bucket in place of a row": func(rows *bolt.Bucket) error {
			_, err := rows.Bucket([]byte("pods.v1")).CreateBucket([]byte("b"))
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "audit.db")
			commitOnce(t, path)
			update(t, path, func(tx *bolt.Tx) error { return change(tx.Bucket(bucketRows)) })
			_, err := mustOpen(t, path).Load(t.Context())
			var damaged *checkpoint.DamagedError
			require.True(t, errors.As(err, &damaged))
			assert.Contains(t, err.Error(), path)
		})
	}
}

// Every bit of the small values is covered by a checksum that knows what the value is for.
func TestLoad_notices_a_changed_value(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.db")
	commitOnce(t, path)
	for _, c := range []struct {
		bucket, key []byte
		from        []byte // instead of a flipped bit, the value of this key of meta
	}{
		{bucketMeta, keyLog, nil},
		{bucketMeta, keyLog, keyIdentity},
		{bucketMeta, keyIdentity, keyLog},
		{bucketStreams, []byte("pods.v1"), nil},
		{bucketStreams, []byte("pods.v1"), keyIdentity},
	} {
		content := must.Get(os.ReadFile(path))(t)
		update(t, path, func(tx *bolt.Tx) error {
			v := bytes.Clone(tx.Bucket(c.bucket).Get(c.key))
			if bit := rand.IntN(len(v) * 8); c.from == nil {
				v[bit/8] ^= 1 << (bit % 8)
			} else {
				v = bytes.Clone(tx.Bucket(bucketMeta).Get(c.from))
			}
			return tx.Bucket(c.bucket).Put(c.key, v)
		})
		s, err := Open(path, identity)
		if err == nil {
			_, err = s.Load(t.Context())
			mustClose(t, s)
		}
		var damaged *checkpoint.DamagedError
		require.True(t, errors.As(err, &damaged), "%s of %s, with %q", c.key, c.bucket, c.from)
		assert.Contains(t, err.Error(), path, "%s of %s, with %q", c.key, c.bucket, c.from)
		overwrite(t, path, content)
	}
}

func TestStore_is_done_after_Close(t *testing.T) {
	s := mustOpen(t, filepath.Join(t.TempDir(), "audit.db"))
	mustClose(t, s)
	mustClose(t, s)
	assert.ErrorIs(t, s.Commit(t.Context(), batch(1, 1)), errClosed, "commit")
	assert.ErrorIs(t, must.Err(s.Load(t.Context())), errClosed, "load")
}

func TestStore_refuses_what_it_cannot_store_and_stays_usable(t *testing.T) {
	s := mustOpen(t, filepath.Join(t.TempDir(), "audit.db"))
	mustCommit(t, s, batch(3, 1))
	before := mustLoad(t, s)
	for name, b := range map[string]*checkpoint.Batch{
		"a row without a key": {Identity: identity, Put: map[string]map[string]checkpoint.Row{"pods.v1": {
			"":  {UID: "x"},
			"b": {UID: "b"},
		}}},
		"an endless key": {
			Identity: identity,
			Put:      map[string]map[string]checkpoint.Row{"pods.v1": {strings.Repeat("x", 1<<16): {}}},
		},
		"rows without a stream": {Identity: identity, Put: map[string]map[string]checkpoint.Row{"": {"b": {UID: "b"}}}},
		"a stream without name": {Identity: identity, Streams: map[string]checkpoint.Stream{"": {}}},
	} {
		assert.Error(t, s.Commit(t.Context(), b), "%s: committed", name)
	}
	assert.True(t, same(mustLoad(t, s), before), "something of it was committed")
	mustCommit(t, s, batch(3, 2))
}

func TestStore_that_panicked_is_not_used_again(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.db")
	s := mustOpen(t, path)
	err := s.use(t.Context(), func() error { return s.db.Update(func(*bolt.Tx) error { panic("page 7 already freed") }) })
	var damaged *checkpoint.DamagedError
	require.True(t, errors.As(err, &damaged))
	assert.Contains(t, err.Error(), "page 7")
	assert.ErrorAs(t, s.Commit(t.Context(), batch(1, 1)), &damaged, "commit")
	mustClose(t, s)
	mustOpen(t, path) // it is not locked
}

func TestInspect(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.db")
	assert.ErrorIs(t, must.Err(Inspect(t.Context(), path)), fs.ErrNotExist, "no file")
	s := mustOpen(t, path)
	mustCommit(t, s, batch(100, 1))
	want := mustLoad(t, s)
	var busy *BusyError
	assert.ErrorAs(t, must.Err(Inspect(t.Context(), path)), &busy, "in use")
	mustClose(t, s)
	before, _ := os.ReadFile(path)
	got := must.Get(Inspect(t.Context(), path))(t)
	assert.True(t, same(got, want), "%+v", got)
	after, _ := os.ReadFile(path)
	assert.Equal(t, after, before, "the file was changed")
}

func TestLog_has_the_same_bytes_whenever_it_is_the_same(t *testing.T) {
	want := encodeLog(logOf(7))
	for range 20 {
		require.Equal(t, want, encodeLog(logOf(7)), "the order of a map is in the file")
	}
	got := must.Get(decodeLog(want))(t)
	assert.Equal(t, logOf(7), &got, "decoded as %+v", got)
}

// Whatever the bytes, decoding ends, with an error or with a log that is encoded and decoded alike.
func FuzzLog(f *testing.F) {
	for _, l := range []*checkpoint.Log{{}, logOf(1), {Marks: map[int32]uint64{-1: 1}, Resyncs: 1}} {
		b := encodeLog(l)
		f.Add(b[:len(b)-sumSize])
	}
	f.Add([]byte{0, 1, 0xff, 0xff, 0xff, 0xff, 0x1f, 1, 0})
	f.Add([]byte{0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1})
	f.Add([]byte{0, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1})
	f.Fuzz(func(t *testing.T, b []byte) {
		got, err := decodeLog(seal(keyLog, b))
		if err != nil {
			return
		}
		again := must.Get(decodeLog(encodeLog(&got)))(t)
		assert.Equal(t, got, again)
	})
}
