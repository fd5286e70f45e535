// SPDX-License-Identifier: Apache-2.0

package world

import (
	"encoding/binary"
	"errors"

	"github.com/twmb/franz-go/pkg/kbin"

	"github.com/kube-eventbridge/kube-eventbridge/integration/internal/proxy"
)

// lastPlainProduce is the last version of a Produce request without compact fields.
const lastPlainProduce = 8

// question is a request that has no answer yet.
type question struct {
	of          *proxy.Conn
	correlation uint32
}

// kafkaProtocol is what a wire knows of Kafka, with the names of the topics. It is for one wire.
func kafkaProtocol(log, checkpoint string) protocol {
	topics, asked := map[string]content{log: ofLog, checkpoint: ofCheckpoint}, map[question]content{}
	return protocol{
		read: proxy.ReadKafka, inOrder: true, code: producedWith,
		request: func(c *proxy.Conn, frame []byte) content {
			about := topics[producedTo(frame)]
			if about != other {
				asked[question{c, requestCorrelation(frame)}] = about
			}
			return about
		},
		answer: func(c *proxy.Conn, frame []byte) content {
			of := question{c, answerCorrelation(frame)}
			about := asked[of]
			delete(asked, of)
			return about
		},
	}
}

// correlation is the number by which an answer is found to belong to a request; both have it.
func requestCorrelation(frame []byte) uint32 { return binary.BigEndian.Uint32(frame[8:]) }
func answerCorrelation(frame []byte) uint32  { return binary.BigEndian.Uint32(frame[4:]) }

// producedTo returns the topic of a request that publishes something; empty if it is another one. A request has one
// topic here.
func producedTo(frame []byte) (topic string) {
	f := &kbin.Reader{Src: frame[4:]}
	api, version := f.Int16(), f.Int16()
	if !f.Ok() || api != proxy.KafkaProduce || version > lastPlainProduce {
		return ""
	}
	f.Int32()          // correlation
	f.NullableString() // client id
	if version >= 3 {
		f.NullableString() // transactional id
	}
	f.Int16() // acks
	f.Int32() // timeout
	if f.ArrayLen() < 1 {
		return ""
	}
	if topic = f.String(); !f.Ok() {
		return ""
	}
	return topic
}

// producedWith returns the error code in the answer to a Produce request; 0 is none.
func producedWith(frame []byte) (code int16, err error) {
	f := &kbin.Reader{Src: frame[8:]}
	if f.ArrayLen() < 1 {
		return 0, errors.New("an answer without a topic")
	}
	_ = f.String()
	if f.ArrayLen() < 1 {
		return 0, errors.New("an answer without a partition")
	}
	f.Int32() // the partition
	code = f.Int16()
	if !f.Ok() {
		return 0, kbin.ErrNotEnoughData
	}
	return code, nil
}
