// SPDX-License-Identifier: Apache-2.0

package proxy

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
)

// MaxFrame is more than any message may have.
const MaxFrame = 64 << 20

// KafkaProduce is the number of the request that publishes.
const KafkaProduce = 0

// ReadKafka reads a request or an answer of Kafka's protocol, as it came: four bytes say how many follow.
func ReadKafka(r *bufio.Reader) ([]byte, error) {
	size, err := r.Peek(4)
	if err != nil {
		return nil, err
	}
	n := int32(binary.BigEndian.Uint32(size)) //nolint:gosec // it is signed on the wire
	if n < 4 || n > MaxFrame {
		return nil, fmt.Errorf("a frame of %d bytes", n)
	}
	frame := make([]byte, 4+n)
	_, err = io.ReadFull(r, frame)
	return frame, err
}

// KafkaAPI is the number that says what a request is.
func KafkaAPI(request []byte) int16 { return int16(binary.BigEndian.Uint16(request[4:])) } //nolint:gosec // it is signed on the wire
