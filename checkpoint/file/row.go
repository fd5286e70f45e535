// SPDX-License-Identifier: Apache-2.0

package file

import (
	"encoding/binary"
	"errors"
	"hash/crc32"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	"github.com/kube-eventbridge/kube-eventbridge/checkpoint/internal/codec"
)

// A row is stored as the package codec writes it, with the CRC-32C of the stream's name, the key and all of that behind
// it, little endian.
//
// The checksum is there because the pages of the file have none.
const sumSize = 4

var (
	errRow      = errors.New("not a row")
	errChecksum = errors.New("a row's checksum is wrong")

	castagnoli = crc32.MakeTable(crc32.Castagnoli)
)

// salt is the part of a row's checksum that all rows of a stream share.
func salt(stream []byte) uint32 { return crc32.Checksum(stream, castagnoli) }

func rowSum(salt uint32, key, encoded []byte) uint32 {
	return crc32.Update(crc32.Update(salt, castagnoli, key), castagnoli, encoded)
}

// appendRow appends the encoded row to b.
func appendRow(b []byte, salt uint32, key []byte, r *checkpoint.Row) []byte {
	start := len(b)
	b = codec.AppendRow(b, r)
	return binary.LittleEndian.AppendUint32(b, rowSum(salt, key, b[start:]))
}

// decodeRow returns the key and the row that b holds. Nothing of them refers to key or b.
func decodeRow(salt uint32, key, b []byte) (string, checkpoint.Row, error) {
	if len(b) < 1+sumSize {
		return "", checkpoint.Row{}, errRow
	}
	body := b[:len(b)-sumSize]
	if rowSum(salt, key, body) != binary.LittleEndian.Uint32(b[len(body):]) {
		return "", checkpoint.Row{}, errChecksum
	}
	return codec.DecodeRow(key, body)
}
