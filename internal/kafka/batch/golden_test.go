// SPDX-License-Identifier: Apache-2.0

package batch

import (
	"encoding/hex"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"math"
	"strings"
	"testing"
)

// What MemoryRecordsBuilder of kafka-clients 4.3.1 makes of goldenRecords, for producer 4711, epoch 3 and sequence 0x7ffffffe.
const golden = `
	0000000000000000  baseOffset
	000000a6          batchLength: 166 more bytes
	ffffffff          partitionLeaderEpoch -1
	02                magic
	7a6b5714          crc
	0000              attributes: no compression, CreateTime
	00000002          lastOffsetDelta
	0000018bcfe5687b  baseTimestamp 1700000000123
	0000018bcfe56be8  maxTimestamp 1700000001000
	0000000000001267  producerId 4711
	0003              producerEpoch
	7ffffffe          baseSequence: the records have 0x7ffffffe, 0x7fffffff and 0
	00000003          recordsCount

	a801 00 00 00     84 bytes, attributes, timestampDelta 0, offsetDelta 0
	3e 6b6c75737465722f636f72652f706f64732f64656661756c742f7765622d30  key: 31 bytes
	04 7b7d           value {}
	06                3 headers
	0a 63655f6964 02 31  ce_id: 1
	18 636f6e74656e742d74797065 20 6170706c69636174696f6e2f6a736f6e  content-type: application/json
	0a 656d707479 00  empty: empty

	0c 00 05 02       6 bytes, attributes, timestampDelta -3, offsetDelta 1
	00                empty key
	01                null value
	00                no headers

	2e 00 da0d 04     23 bytes, attributes, timestampDelta 877, offsetDelta 2
	02 6b             key k
	00                empty value
	02                1 header
	0e 6772c3b6c39f65 0c e697a5e69cac  größe: 日本
`

func goldenRecords() []Record {
	return []Record{
		{
			Key: "kluster/core/pods/default/web-0", Value: []byte("{}"), Timestamp: 1700000000123,
			Headers: []Header{{"ce_id", "1"}, {"content-type", "application/json"}, {"empty", ""}},
		},
		{Timestamp: 1700000000120},
		{Key: "k", Value: []byte{}, Timestamp: 1700000001000, Headers: []Header{{"größe", "日本"}}},
	}
}

func TestSeal_gives_the_bytes_that_Java_gives(t *testing.T) {
	var b Builder
	for _, r := range goldenRecords() {
		require.True(t, b.Append(&r, math.MaxInt), "a record was refused")
	}
	got, want := hex.EncodeToString(b.Seal(4711, 3, 0x7ffffffe)), goldenHex()
	assert.Equal(t, want, got)
}

// goldenHex is golden without the words, which stand behind two spaces.
func goldenHex() string {
	var s strings.Builder
	for line := range strings.Lines(golden) {
		digits, _, _ := strings.Cut(strings.TrimSpace(line), "  ")
		s.WriteString(strings.ReplaceAll(digits, " ", ""))
	}
	return s.String()
}
