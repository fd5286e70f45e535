// SPDX-License-Identifier: Apache-2.0

package file

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"maps"
	"slices"
	"strconv"
	"strings"

	bolt "go.etcd.io/bbolt"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	"github.com/kube-eventbridge/kube-eventbridge/checkpoint/internal/codec"
)

// The file's buckets and keys:
//
//	meta     format    the format, as a decimal number
//	         identity  cluster uid, cluster, pipeline; then a checksum
//	         log       what is known of the log, then a checksum; missing while nothing is known
//	streams  <name>    the stream's state, then a checksum
//	rows     <name>    a bucket of rows by key; see appendRow
//
// Values are as the package codec writes them. A checksum is the CRC-32C of the key and all before it, little endian.
//
// A file without the bucket meta was never committed to.
var (
	bucketMeta    = []byte("meta")
	bucketStreams = []byte("streams")
	bucketRows    = []byte("rows")
	keyFormat     = []byte("format")
	keyIdentity   = []byte("identity")
	keyLog        = []byte("log")
)

var format = strconv.Itoa(checkpoint.Format)

// Pages are mostly rewritten with rows of the same size, and rarely get new ones.
const fillPercent = 0.9

// Between two looks at the context.
const rowsPerLook = 1024

// admit refuses what is not ours.
func (s *Store) admit(tx *bolt.Tx) error {
	has, err := s.identity(tx)
	if err != nil {
		return err
	}
	if has != (checkpoint.Identity{}) && has != s.want {
		return &checkpoint.ForeignError{Path: s.path, Has: has, Want: s.want}
	}
	return nil
}

// identity returns the identity of the last commit; zero if there was none.
func (s *Store) identity(tx *bolt.Tx) (has checkpoint.Identity, err error) {
	meta := tx.Bucket(bucketMeta)
	if meta == nil {
		if k, _ := tx.Cursor().First(); k != nil {
			return has, s.damaged(fmt.Errorf("it is no checkpoint: it has %q", k))
		}
		return has, nil
	}
	if f := meta.Get(keyFormat); string(f) != format {
		return has, &checkpoint.FormatError{Path: s.path, Format: string(f)}
	}
	if tx.Bucket(bucketStreams) == nil || tx.Bucket(bucketRows) == nil {
		return has, s.damaged(errors.New("a bucket is missing"))
	}
	b, err := unseal(keyIdentity, meta.Get(keyIdentity))
	if err != nil {
		return has, s.damaged(fmt.Errorf("identity: %w", err))
	}
	d := codec.NewDecoder(b)
	has = d.Identity()
	if err := d.Done(); err != nil {
		return has, s.damaged(fmt.Errorf("identity: %w", err))
	}
	return has, nil
}

// damaged says that the file cannot be read, although the disk could be.
func (s *Store) damaged(err error) error {
	return &checkpoint.DamagedError{
		Path: s.path, Err: err, Advice: "bring back a copy, or move the file away",
	}
}

func (s *Store) read(ctx context.Context, tx *bolt.Tx) (*checkpoint.State, error) {
	has, err := s.identity(tx)
	if err != nil {
		return nil, err
	}
	state := &checkpoint.State{
		Identity: has, Streams: map[string]checkpoint.Stream{},
		Rows: map[string]map[string]checkpoint.Row{},
	}
	if has == (checkpoint.Identity{}) {
		return state, nil
	}
	if state.Log, err = decodeLog(tx.Bucket(bucketMeta).Get(keyLog)); err != nil {
		return nil, s.damaged(fmt.Errorf("log: %w", err))
	}
	err = tx.Bucket(bucketStreams).ForEach(func(name, value []byte) error {
		stream, err := decodeStream(name, value)
		if err != nil {
			return s.damaged(fmt.Errorf("stream %q: %w", name, err))
		}
		state.Streams[string(name)] = stream
		return nil
	})
	if err != nil {
		return nil, err
	}
	all := tx.Bucket(bucketRows)
	err = all.ForEach(func(name, value []byte) error {
		if value != nil {
			return s.damaged(fmt.Errorf("rows of %q: no bucket", name))
		}
		rows, err := s.readRows(ctx, name, all.Bucket(name))
		if len(rows) > 0 {
			state.Rows[string(name)] = rows
		}
		return err
	})
	return state, err
}

func (s *Store) readRows(ctx context.Context, stream []byte, b *bolt.Bucket) (map[string]checkpoint.Row, error) {
	rows, salt, n := map[string]checkpoint.Row{}, salt(stream), 0
	return rows, b.ForEach(func(k, v []byte) error {
		if n++; n%rowsPerLook == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		key, row, err := decodeRow(salt, k, v)
		if err != nil {
			return s.damaged(fmt.Errorf("row %q of %q: %w", k, stream, err))
		}
		rows[key] = row
		return nil
	})
}

func write(ctx context.Context, tx *bolt.Tx, b *checkpoint.Batch) error {
	meta, err := tx.CreateBucketIfNotExists(bucketMeta)
	if err != nil {
		return err
	}
	streams, err := tx.CreateBucketIfNotExists(bucketStreams)
	if err != nil {
		return err
	}
	all, err := tx.CreateBucketIfNotExists(bucketRows)
	if err != nil {
		return err
	}
	if meta.Get(keyFormat) == nil {
		err = errors.Join(meta.Put(keyFormat, []byte(format)), meta.Put(keyIdentity, encodeIdentity(b.Identity)))
	}
	if b.Log != nil {
		err = errors.Join(err, meta.Put(keyLog, encodeLog(b.Log)))
	}
	for _, name := range b.Forget {
		err = errors.Join(err, forget(streams, all, []byte(name)))
	}
	for name, stream := range b.Streams {
		err = errors.Join(err, streams.Put([]byte(name), encodeStream([]byte(name), stream)))
	}
	if err != nil {
		return err
	}
	w := writer{ctx: ctx}
	for _, name := range slices.Sorted(maps.Keys(b.Put)) {
		if err := w.put(all, name, b.Put[name]); err != nil {
			return err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(b.Drop)) {
		if err := w.drop(all, name, b.Drop[name]); err != nil {
			return err
		}
	}
	return ctx.Err()
}

func forget(streams, all *bolt.Bucket, name []byte) error {
	if err := streams.Delete(name); err != nil {
		return err
	}
	if all.Bucket(name) == nil {
		return nil
	}
	return all.DeleteBucket(name)
}

// writer puts rows in the order of their keys, so that each page is visited once.
type writer struct {
	ctx   context.Context
	rows  []checkpoint.Row
	order []place
	key   []byte
	// values is where rows are encoded. The database refers to it until the transaction ends, so it is never
	// overwritten.
	values []byte
	n      int
}

// place is where the row of a key is: rows are too large to be moved about, and a map too slow to be asked again.
type place struct {
	key string
	row int
}

// sort puts the places of all rows in order.
func (w *writer) sort(rows map[string]checkpoint.Row) {
	w.rows, w.order = slices.Grow(w.rows[:0], len(rows)), slices.Grow(w.order[:0], len(rows))
	for key, row := range rows {
		w.order = append(w.order, place{key, len(w.rows)})
		w.rows = append(w.rows, row)
	}
	slices.SortFunc(w.order, func(a, b place) int { return strings.Compare(a.key, b.key) })
}

func (w *writer) look() error {
	if w.n++; w.n%rowsPerLook == 0 {
		return w.ctx.Err()
	}
	return nil
}

func (w *writer) put(all *bolt.Bucket, stream string, rows map[string]checkpoint.Row) error {
	if len(rows) == 0 {
		return nil
	}
	b, err := all.CreateBucketIfNotExists([]byte(stream))
	if err != nil {
		return fmt.Errorf("rows of %q: %w", stream, err)
	}
	b.FillPercent = fillPercent
	salt := salt([]byte(stream))
	w.sort(rows)
	for _, p := range w.order {
		if err := w.look(); err != nil {
			return err
		}
		w.key = append(w.key[:0], p.key...)
		if err := b.Put(w.key, w.encode(salt, &w.rows[p.row])); err != nil {
			return fmt.Errorf("row %q of %q: %w", p.key, stream, err)
		}
	}
	return nil
}

func (w *writer) encode(salt uint32, row *checkpoint.Row) []byte {
	const chunk, typical = 64 << 10, 128
	if cap(w.values)-len(w.values) < typical {
		w.values = make([]byte, 0, chunk)
	}
	start := len(w.values)
	w.values = appendRow(w.values, salt, w.key, row)
	return w.values[start:len(w.values):len(w.values)]
}

func (w *writer) drop(all *bolt.Bucket, stream string, keys []string) error {
	b := all.Bucket([]byte(stream))
	if b == nil {
		return nil
	}
	b.FillPercent = fillPercent
	for _, key := range slices.Sorted(slices.Values(keys)) {
		if err := w.look(); err != nil {
			return err
		}
		if err := b.Delete([]byte(key)); err != nil {
			return fmt.Errorf("row %q of %q: %w", key, stream, err)
		}
	}
	return nil
}

func encodeIdentity(id checkpoint.Identity) []byte {
	return seal(keyIdentity, codec.AppendIdentity(nil, id))
}

func encodeStream(name []byte, s checkpoint.Stream) []byte {
	return seal(name, codec.AppendStream(nil, &s))
}

func decodeStream(name, b []byte) (s checkpoint.Stream, err error) {
	if b, err = unseal(name, b); err != nil {
		return s, err
	}
	return codec.DecodeStream(b)
}

func encodeLog(l *checkpoint.Log) []byte { return seal(keyLog, codec.AppendLog(nil, l)) }

// decodeLog is the inverse of encodeLog, but that what was empty is nil. Nil is a log of which nothing is known.
func decodeLog(b []byte) (l checkpoint.Log, err error) {
	if b == nil {
		return l, nil
	}
	if b, err = unseal(keyLog, b); err != nil {
		return l, err
	}
	return codec.DecodeLog(b)
}

// seal appends a checksum of the key and b.
func seal(key, b []byte) []byte {
	return binary.LittleEndian.AppendUint32(b, crc32.Update(crc32.Checksum(key, castagnoli), castagnoli, b))
}

// unseal returns b without its checksum.
func unseal(key, b []byte) ([]byte, error) {
	n := len(b) - sumSize
	if n < 0 || crc32.Update(crc32.Checksum(key, castagnoli), castagnoli, b[:n]) != binary.LittleEndian.Uint32(b[n:]) {
		return nil, errors.New("its checksum is wrong")
	}
	return b[:n], nil
}
