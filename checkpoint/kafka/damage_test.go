// SPDX-License-Identifier: Apache-2.0

package kafka

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	"github.com/kube-eventbridge/kube-eventbridge/checkpoint/internal/session"
	"github.com/kube-eventbridge/kube-eventbridge/checkpoint/storetest"
	"github.com/kube-eventbridge/kube-eventbridge/internal/kafka"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
)

func TestOpen_refuses_what_it_does_not_understand(t *testing.T) {
	k := newKeys("prod-eu-1/audit")
	chunk := func(number string, changes ...string) []byte {
		return append([]byte{format}, number+strings.Join(changes, "")...)
	}
	for name, c := range map[string]struct {
		key   string
		value []byte
	}{
		"an empty key":                    {k.prefix, []byte{format}},
		"an unknown kind":                 {k.plain('x'), []byte{format}},
		"an unknown kind without a value": {k.plain('x'), nil},
		"an empty value":                  {k.plain(kindHead), []byte{}},
		"a short head":                    {k.plain(kindHead), []byte{format, 1}},
		"a head that is none":             {k.plain(kindHead), appendHead(nil, &head{identity: audit})},
		"a head with more behind it": {
			k.plain(kindHead),
			append(appendHead(nil, &head{number: 9, identity: audit}), 0),
		},
		"a head with a longer key": {k.plain(kindHead) + "x", appendHead(nil, &head{number: 9, identity: audit})},
		"a head without its chunk": {
			k.plain(kindHead),
			appendHead(nil, &head{number: 9, chunks: 1, last: 9, identity: audit}),
		},
		"an origin that says something":       {k.plain(kindOrigin), []byte{format, 1}},
		"a short barrier":                     {k.plain(kindBarrier), []byte{format, 1}},
		"a short log":                         {k.plain(kindLog), []byte{format, 1}},
		"a short stream":                      {k.stream("pods.v1"), []byte{format, 1, 1}},
		"a stream of another kind":            {k.stream("pods.v1"), []byte{format, 1, 2}},
		"a stream with a number never given":  {k.stream("pods.v1"), []byte{format, 77, 0}},
		"a row without a stream":              {k.plain(kindRow), []byte{format}},
		"a row without a stream and a value":  {k.plain(kindRow), nil},
		"a row with a number that has no end": {k.plain(kindRow) + "\xff", []byte{format}},
		"a row that is none":                  {k.row(1, "a/b"), []byte{format, 1, 2, 3}},
		"a chunk with a longer key":           {k.chunk(0) + "x", chunk("\x01")},
		"a chunk with a longer key and null":  {k.chunk(0) + "x", nil},
		"a chunk without a number":            {k.plain(kindChunk), chunk("\x01")},
	} {
		t.Run(name, func(t *testing.T) {
			f, s := openNew(t, 3)
			require.NoError(t, s.Commit(t.Context(), manyRows(2, 1)))
			p := home(f)
			offset := f.next(p)
			f.put(p, c.key, c.value)
			_, err := openFake(t.Context(), f, Config{}, audit)
			var damaged *checkpoint.DamagedError
			var in int32
			var at int64
			if errors.As(err, &damaged) {
				_ = must.Get(fmt.Sscanf(damaged.Err.Error(), "partition %d, offset %d:", &in, &at))(t)
			}
			if damaged == nil || in != p || at < offset || at > f.next(p) || !checkpoint.IsPermanent(err) {
				t.Errorf("error %v, want that it is damaged at %d", err, offset)
			}
			assert.Len(t, f.logs[p][len(f.logs[p])-1].Records, 1, "something was written")
			assert.True(t, must.Err(s.Load(t.Context())) != nil || strings.Contains(name, "never given"),
				"an open store loads it")
		})
	}
}

func TestOpen_refuses_chunks_that_are_not_of_the_commit(t *testing.T) {
	k := newKeys("prod-eu-1/audit")
	for name, value := range map[string]string{
		"another commit's":  "\x08",
		"no commit's":       "",
		"a key cut short":   "\x09\x05x",
		"a value cut short": "\x09\x01x\x05",
		"a record no more":  "\x09\x01x\x02\x02",
	} {
		f := newFake(1)
		f.put(0, k.plain(kindOrigin), []byte{format})
		f.put(0, k.chunk(0), append([]byte{format}, value...))
		f.put(0, k.plain(kindHead), appendHead(nil, &head{number: 9, chunks: 1, last: 9, identity: audit}))
		var damaged *checkpoint.DamagedError
		_, err := openFake(t.Context(), f, Config{}, audit)
		assert.True(t, errors.As(err, &damaged), "%s: error %v, want that it is damaged", name, err)
	}
}

func TestOpen_refuses_another_versions_checkpoint(t *testing.T) {
	k := newKeys("prod-eu-1/audit")
	for _, key := range []string{
		k.plain(kindHead), k.plain(kindBarrier), k.plain(kindLog), k.stream("x"), k.row(1, "x"),
		k.chunk(1), k.plain('n'),
	} {
		f := newFake(3)
		require.NoError(t, mustOpen(t.Context(), t, f).Commit(t.Context(), manyRows(2, 1)))
		p := home(f)
		offset := f.next(p)
		f.put(p, key, []byte{1, 3, 4})
		_, err := openFake(t.Context(), f, Config{}, audit)
		var unknown *checkpoint.FormatError
		assert.True(t, errors.As(err, &unknown) && unknown.Old() && checkpoint.IsPermanent(err) &&
			unknown.Where == fmt.Sprintf("partition %d, offset %d", p, offset),
			"%q: error %v, want an older version's", key, err)
	}
}

// Retention, or somebody, deletes from the front; compaction never does.
func TestOpen_refuses_a_partition_that_lost_its_beginning(t *testing.T) {
	f := newFake(1)
	f.firsts[0] = 1000 // it has a past
	s := mustOpen(t.Context(), t, f)
	require.NoError(t, s.Commit(t.Context(), manyRows(2, 1)))
	require.NoError(t, s.Commit(t.Context(), position(2)))
	want := storetest.After(storetest.After(storetest.Empty(), manyRows(2, 1)), position(2))
	storetest.MustHold(t.Context(), t, mustOpen(t.Context(), t, f), want)
	for len(f.logs[0]) > 1 {
		f.firsts[0], f.logs[0] = f.logs[0][1].Base, f.logs[0][1:]
		if _, has := f.live()[s.log.keys.plain(kindHead)]; !has {
			break // nothing tells that there was a checkpoint
		}
		_, err := openFake(t.Context(), f, Config{}, audit)
		var damaged *checkpoint.DamagedError
		assert.True(t, errors.As(err, &damaged) && strings.Contains(err.Error(), "what is oldest was deleted"),
			"error %v, want that what was before %d was deleted", err, f.firsts[0])
	}
}

func TestOpen_refuses_rows_without_a_head(t *testing.T) {
	k := newKeys("prod-eu-1/audit")
	f := newFake(1)
	f.put(0, k.stream("pods.v1"), []byte{format, 1, 0})
	var damaged *checkpoint.DamagedError
	_, err := openFake(t.Context(), f, Config{}, audit)
	assert.True(t, errors.As(err, &damaged), "error %v, want that it is damaged", err)
}

// A checkpoint whose records are all removed begins again.
func TestOpen_after_everything_was_removed_begins_again(t *testing.T) {
	f := newFake(1)
	b := manyRows(3, 1)
	b.Log = &checkpoint.Log{ID: "x"}
	require.NoError(t, mustOpen(t.Context(), t, f).Commit(t.Context(), b))
	for key := range f.live() {
		f.put(0, key, nil)
	}
	s := mustOpen(t.Context(), t, f)
	storetest.MustHold(t.Context(), t, s, storetest.Empty())
	commits(t, s, 1)
}

func TestErrors_name_the_place_and_what_to_do(t *testing.T) {
	for _, c := range []struct {
		err  error
		want []string
	}{
		{&checkpoint.TakenError{Path: "P", Err: errors.New("why")}, []string{"P", "why", "one process"}},
		{&LostError{Path: "P", Has: 1, Want: 2}, []string{"P", "commit 1", "at 2", "restart", "min.insync.replicas=2"}},
		{
			(&cursor{session: &session.Session{Path: "P"}, partition: 3}).damaged(4, errors.New("why")),
			[]string{"P", "partition 3", "offset 4", "why", "another topic"},
		},
		{&SettingsError{Topic: "T", Problem: "why", Command: "mend T"}, []string{"topic T", "why", "mend it with: mend T"}},
	} {
		for _, text := range c.want {
			assert.Contains(t, c.err.Error(), text, "%q does", c.err)
		}
		assert.True(t, checkpoint.IsPermanent(c.err), "%q is not permanent", c.err)
	}
	assert.True(t, !checkpoint.IsPermanent(nil) && !checkpoint.IsPermanent(errAway) &&
		!checkpoint.IsPermanent(kafka.ErrNoTopic), "what may pass is permanent")
}
