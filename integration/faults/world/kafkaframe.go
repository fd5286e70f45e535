// SPDX-License-Identifier: Apache-2.0

package world

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// readKafkaFrame reads a request or an answer, as it came: four bytes say how many follow.
func readKafkaFrame(r io.Reader) ([]byte, error) {
	var size [4]byte
	if _, err := io.ReadFull(r, size[:]); err != nil {
		return nil, err
	}
	n := int32(binary.BigEndian.Uint32(size[:])) //nolint:gosec // it is signed on the wire
	if n < 4 || n > maxFrame {
		return nil, fmt.Errorf("a frame of %d bytes", n)
	}
	frame := append(size[:], make([]byte, n)...)
	_, err := io.ReadFull(r, frame[4:])
	return frame, err
}

// correlation is the number by which an answer is found to belong to a request; both have it.
func requestCorrelation(frame []byte) uint32 { return binary.BigEndian.Uint32(frame[8:]) }
func answerCorrelation(frame []byte) uint32  { return binary.BigEndian.Uint32(frame[4:]) }

const (
	apiProduce = 0
	// lastPlainProduce is the last version of a Produce request without compact fields.
	lastPlainProduce = 8
)

var errFrame = errors.New("a frame that is too short")

// fields reads a frame from its beginning; what is not there is an error in the end.
type fields struct {
	rest []byte
	err  error
}

func (f *fields) take(n int) []byte {
	if f.err != nil || n < 0 || n > len(f.rest) {
		f.err = errFrame
		return make([]byte, max(0, min(n, 8)))
	}
	taken := f.rest[:n]
	f.rest = f.rest[n:]
	return taken
}

func (f *fields) int16() int16 { return int16(binary.BigEndian.Uint16(f.take(2))) } //nolint:gosec // it is signed on the wire
func (f *fields) int32() int32 { return int32(binary.BigEndian.Uint32(f.take(4))) } //nolint:gosec // it is signed on the wire

// text reads a string, which may be null.
func (f *fields) text() string { return string(f.take(int(max(f.int16(), 0)))) }

// producedTo returns the topic of a client's frame that publishes something; empty if it is another one. A request has one topic here.
func producedTo(frame []byte) (topic string) {
	f := &fields{rest: frame[4:]}
	api, version := f.int16(), f.int16()
	if f.err != nil || api != apiProduce || version > lastPlainProduce {
		return ""
	}
	f.take(4) // correlation
	f.text()  // client id
	if version >= 3 {
		f.text() // transactional id
	}
	f.take(2 + 4) // acks, timeout
	if f.int32() < 1 {
		return ""
	}
	if topic = f.text(); f.err != nil {
		return ""
	}
	return topic
}

// producedWith returns the error code in the answer to a Produce request; 0 is none.
func producedWith(frame []byte) (code int16, err error) {
	f := &fields{rest: frame[8:]}
	if f.int32() < 1 {
		return 0, errors.New("an answer without a topic")
	}
	f.text()
	if f.int32() < 1 {
		return 0, errors.New("an answer without a partition")
	}
	f.take(4) // the partition
	code = f.int16()
	return code, f.err
}
