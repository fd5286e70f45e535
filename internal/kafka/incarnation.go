// SPDX-License-Identifier: Apache-2.0

package kafka

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
)

// Incarnation returns what the cluster calls itself, and the id of a topic, which is another one when the topic is
// recreated under its name. It is empty where brokers have no such ids: Kafka has them from 2.8 on. The error is
// [ErrNoTopic] if there is none. Nothing of this comes from memory.
func (c *Client) Incarnation(ctx context.Context, topic string) (cluster, id string, err error) {
	err = c.do(ctx, "ask for the id of topic "+topic, "operation Describe on Topic "+topic,
		func(ctx context.Context) error {
			known, err := c.hasTopicIDs(ctx)
			switch {
			case err != nil:
				return err
			case !known:
				res, err := c.client.Metadata(ctx, &kafkago.MetadataRequest{Topics: []string{topic}})
				if err != nil {
					return err
				}
				cluster = res.ClusterID
				if len(res.Topics) != 1 || errors.Is(res.Topics[0].Error, kafkago.UnknownTopicOrPartition) {
					return ErrNoTopic
				}
				return res.Topics[0].Error
			}
			m, err := c.transport.RoundTrip(ctx, c.addr, &incarnation{client: c.cfg.ClientID, topic: topic})
			if err != nil {
				return err
			}
			found := m.(*incarnation)
			cluster, id = found.cluster, found.id
			if c.leaders.identify(topic, id) {
				c.renew() // the next one that is asked is another broker, maybe
			}
			switch found.code {
			case 0:
				return nil
			case kafkago.UnknownTopicOrPartition:
				return ErrNoTopic
			default:
				return found.code
			}
		})
	return cluster, id, err
}

// hasTopicIDs reports whether a broker takes the version of the request that [incarnation] is.
func (c *Client) hasTopicIDs(ctx context.Context) (bool, error) {
	res, err := c.client.ApiVersions(ctx, &kafkago.ApiVersionsRequest{})
	switch {
	case err != nil:
		return false, err
	case res.Error != nil:
		return false, res.Error
	}
	for _, key := range res.ApiKeys {
		if key.ApiKey == int(protocol.Metadata) {
			return key.MinVersion <= metadataVersion && metadataVersion <= key.MaxVersion, nil
		}
	}
	return false, nil
}

// metadataVersion is the first version of the request Metadata that knows ids of topics. kafka-go has none that does.
const metadataVersion = 10

// incarnation is a Metadata request for one topic, and its answer as far as it is needed. It writes and reads itself.
// The format is that of the Kafka documentation, chapter "Metadata API", version 10.
type incarnation struct {
	client, topic string
	// What follows is the answer.
	cluster, id string
	code        kafkago.Error
}

// ApiKey implements [protocol.Message].
func (*incarnation) ApiKey() protocol.ApiKey { return protocol.Metadata }

// Required implements [protocol.RawExchanger].
func (*incarnation) Required(map[protocol.ApiKey]int16) bool { return true }

// RawExchange implements [protocol.RawExchanger].
func (i *incarnation) RawExchange(rw io.ReadWriter) (protocol.Message, error) {
	be := binary.BigEndian
	b := make([]byte, 4, 64+len(i.client)+len(i.topic))
	b = be.AppendUint16(b, uint16(protocol.Metadata))
	b = be.AppendUint16(b, metadataVersion)
	b = be.AppendUint32(b, 0)                     // correlation id: nothing else is under way
	b = be.AppendUint16(b, uint16(len(i.client))) //nolint:gosec // a short name
	b = append(b, i.client...)
	b = append(b, 0, 2)                // no tags; an array of one
	b = append(b, make([]byte, 16)...) // its id is not known
	b = binary.AppendUvarint(b, uint64(len(i.topic)+1))
	b = append(b, i.topic...)
	b = append(b, 0, 0, 0, 0, 0) // no tags; create none, tell no permissions; no tags
	be.PutUint32(b, uint32(len(b)-4))
	if _, err := rw.Write(b); err != nil {
		return nil, fmt.Errorf("write request: %w", err)
	}
	var size [4]byte
	if _, err := io.ReadFull(rw, size[:]); err != nil {
		return nil, fmt.Errorf("read answer: %w", err)
	}
	answer := &io.LimitedReader{R: rw, N: int64(be.Uint32(size[:]))}
	err := i.read(&wire{Reader: bufio.NewReader(answer)})
	if _, rest := io.Copy(io.Discard, answer); err == nil {
		err = rest
	}
	if err != nil {
		return nil, fmt.Errorf("read answer: %w", err)
	}
	return i, nil
}

// read reads an answer up to the id of its first topic.
func (i *incarnation) read(w *wire) error {
	w.skip(4) // correlation id
	w.tags()
	w.skip(4) // throttle
	for range w.length() {
		w.skip(4) // id
		w.text()
		w.skip(4) // port
		w.text()
		w.tags()
	}
	i.cluster = w.text()
	w.skip(4) // controller
	if w.length() < 1 && w.err == nil {
		return errors.New("no topic")
	}
	i.code = kafkago.Error(int16(binary.BigEndian.Uint16(w.bytes(2)))) //nolint:gosec // it is an int16 on the wire
	w.text()
	if id := w.bytes(16); [16]byte(id) != [16]byte{} {
		i.id = base64.RawURLEncoding.EncodeToString(id) // as Kafka's tools print it
	}
	return w.err
}

// wire reads the parts of an answer. After an error they are zero.
type wire struct {
	*bufio.Reader
	err error
}

func (w *wire) bytes(n int) []byte {
	p := make([]byte, n)
	if w.err == nil {
		_, w.err = io.ReadFull(w, p)
	}
	if w.err != nil {
		clear(p)
	}
	return p
}

func (w *wire) skip(n int) {
	if w.err == nil {
		_, w.err = w.Discard(n)
	}
}

func (w *wire) number() int {
	if w.err != nil {
		return 0
	}
	n, err := binary.ReadUvarint(w)
	if err == nil && n > maxWire {
		err = fmt.Errorf("a length of %d", n)
	}
	if w.err = err; err != nil {
		return 0
	}
	return int(n) //nolint:gosec // it was compared
}

// maxWire bounds the lengths of an answer.
const maxWire = 1 << 20

// length is that of an array or a text: null has none.
func (w *wire) length() int { return max(w.number()-1, 0) }

func (w *wire) text() string { return string(w.bytes(w.length())) }

// tags skips fields that versions may add.
func (w *wire) tags() {
	for range w.number() {
		w.number()
		w.skip(w.number())
	}
}
