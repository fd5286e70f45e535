// SPDX-License-Identifier: Apache-2.0

package world

import (
	"context"
	"fmt"
	"time"
)

// The kinds of brokers, of [Config], and of checkpoints.
const (
	NATS  = "nats"
	Kafka = "kafka"

	CheckpointFile  = "file"
	CheckpointNATS  = NATS
	CheckpointKafka = Kafka
)

// backend is a world's broker, and what stands between it and the bridge.
type backend interface {
	// start starts it again with what it has stored, stop returns when it has ended; it may be stopped already.
	start(ctx context.Context) error
	stop()
	// close ends it for good, and what stands before it.
	close() error
	// url is where it is reached without what stands before it.
	url() string
	// sink is what a replica's file says of it.
	sink(*replica) string
	// ways are those of the replica of a number to it, one to each of its servers; whoever asks closes them. They are called for once, before the sink.
	ways(replica int) ([]*way, error)
	// committed is when a commit of the checkpoint was acknowledged at last, removeCheckpoint removes that, and checkpointText is all that it has: where the
	// checkpoint is there.
	committed() time.Time
	removeCheckpoint(ctx context.Context) error
	checkpointText(ctx context.Context) ([]byte, error)
	// end is a number that changes when the log grows; it is an error if there is no log, or nobody who says.
	end() (uint64, error)
	readLog(ctx context.Context) ([]Message, error)
	// deleteLog removes the log with all its messages.
	deleteLog(ctx context.Context) error
	// wire is what the bridge is connected to.
	wire() wire
}

// wire passes on what the bridge and its broker say to each other. It can keep back the answers to what is published to the log.
type wire interface {
	// set says what happens to answers from now on. What is held stays so.
	set(mode)
	// release passes on what has been held for so long. What was held for a connection that has ended is lost.
	release(older time.Duration) (n int)
	// forget loses what is held, and passes on what comes from now on.
	forget() (n int)
	// cut ends every connection at once, as a firewall that forgets them does.
	cut() (n int)
	// heal passes everything on again.
	heal()
	now() (stats wireStats, held int)
}

// mode is what happens to answers on their way to the bridge.
type mode int

const (
	pass mode = iota
	hold
	drop
)

// wireStats counts since the world was made.
type wireStats struct {
	// Published is how often the bridge has published to the log, Answered the answers it got, Lost those it did not get.
	Published, Answered, Lost int
	// Connected counts connections, Cut those that were ended here.
	Connected, Cut int
}

// StopBroker stops the broker, with what it has stored; it may be stopped already. It is for those who inject no fault meanwhile.
func (w *World) StopBroker() { w.broker.stop() }

// StartBroker starts the broker again. It must be stopped.
func (w *World) StartBroker(ctx context.Context) error { return w.broker.start(ctx) }

// BrokerURL is where the broker is reached without the proxy.
func (w *World) BrokerURL() string { return w.broker.url() }

// Message is one message of the log, as it is there.
type Message struct {
	// Sequence is the place in the log; on Kafka it is the offset in the partition.
	Sequence uint64
	// Time is when the broker has stored it; on Kafka it is what the bridge took for the time.
	Time time.Time
	// Subject is NATS's.
	Subject string
	Header  map[string][]string
	Data    []byte

	// What follows is Kafka's. Producer and Epoch are those that the record was sent with.
	Partition int32  `json:",omitempty"`
	Key       string `json:",omitempty"`
	Producer  int64  `json:",omitempty"`
	Epoch     int16  `json:",omitempty"`
}

// ReadLog returns the whole log as it is at the beginning of the call, in its order, straight from the broker. It has no messages where there is
// no log. If the log loses its end meanwhile, only the end of ctx ends the wait for it.
func (w *World) ReadLog(ctx context.Context) ([]Message, error) {
	log, err := w.broker.readLog(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the log: %w", err)
	}
	return log, nil
}
