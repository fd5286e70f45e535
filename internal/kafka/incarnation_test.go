// SPDX-License-Identifier: Apache-2.0

package kafka

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"io"
	"testing"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/assert"
)

// metadataAnswer is an answer of version 10 behind its length: one broker with a tag, a cluster, and a topic with a
// partition.
func metadataAnswer(code byte) []byte {
	b := []byte{
		0, 0, 0, 0, // correlation id
		1, 9, 2, 'x', 'y', // a tag of the header
		0, 0, 0, 0, // throttle
		2, 0, 0, 0, 1, 5, 'h', 'o', 's', 't', 0, 0, 0x23, 0x84, 0, 1, 0, 1, 'z', // a broker without a rack, and a tag
		4, 'c', 'i', 'd', // cluster
		0, 0, 0, 1, // controller
		2, 0, code, 6, 't', 'o', 'p', 'i', 'c', // topics
		1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16,
		0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, // what is not read
	}
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(b))), b...)
}

// conversation is a connection on which an answer waits.
type conversation struct {
	bytes.Buffer
	answer *bytes.Reader
}

func (e *conversation) Read(p []byte) (int, error) { return e.answer.Read(p) }

func TestIncarnation_reads_an_answer_and_leaves_what_follows(t *testing.T) {
	for code, want := range map[byte]kafkago.Error{0: 0, 3: kafkago.UnknownTopicOrPartition} {
		e := &conversation{answer: bytes.NewReader(append(metadataAnswer(code), "next"...))}
		i := &incarnation{client: "me", topic: "topic"}
		if _, err := i.RawExchange(e); err != nil || i.cluster != "cid" || i.id != "AQIDBAUGBwgJCgsMDQ4PEA" ||
			i.code != want {
			t.Errorf("%+v, %v", i, err)
		}
		rest, _ := io.ReadAll(e.answer)
		assert.Equal(t, "next", string(rest), "%q is left", rest)
		request := "\x00\x03\x00\x0a\x00\x00\x00\x00\x00\x02me\x00\x02" + string(make([]byte, 16)) +
			"\x06topic\x00\x00\x00\x00\x00"
		assert.Equal(t, string(binary.BigEndian.AppendUint32(nil, uint32(len(request))))+request, e.String(),
			"it asks")
	}
}

func TestIncarnation_of_an_answer_that_is_cut_off_is_an_error(t *testing.T) {
	whole := metadataAnswer(0)
	for n := range len(whole) - 13 { // up to the id
		i := &incarnation{}
		assert.Error(t, i.read(&wire{Reader: bufio.NewReader(bytes.NewReader(whole[4:max(4, n)]))}),
			"%d bytes: %+v", n, i)
	}
}

func FuzzIncarnation(f *testing.F) {
	f.Add(metadataAnswer(0)[4:])
	f.Fuzz(func(_ *testing.T, answer []byte) {
		_ = (&incarnation{}).read(&wire{Reader: bufio.NewReader(bytes.NewReader(answer))})
	})
}
