// SPDX-License-Identifier: Apache-2.0

package world

import (
	"context"
	"fmt"
	"time"

	"github.com/kube-eventbridge/kube-eventbridge/integration/internal/proxy"
	"github.com/kube-eventbridge/kube-eventbridge/integration/internal/rig"
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
	// sink is what a replica's file says of it.
	sink(*replica) string
	// way is that of the replica of a number to all of its servers. The caller closes it. It is called once, before
	// sink.
	way(replica int) (*proxy.Proxy, error)
	// committed is when a commit of the checkpoint was acknowledged at last, removeCheckpoint removes that, and
	// checkpointText is all that it has: where the checkpoint is there.
	committed() time.Time
	removeCheckpoint(ctx context.Context) error
	checkpointText(ctx context.Context) ([]byte, error)
	// end is a number that changes when the log grows; it is an error if there is no log, or no answer.
	end() (uint64, error)
	readLog(ctx context.Context) ([]rig.Message, error)
	// deleteLog removes the log with all its messages.
	deleteLog(ctx context.Context) error
	// wire is what the bridge is connected to.
	wire() *wire
}

// StopBroker stops the broker, with what it has stored; it may be stopped already. It is for those who inject no fault
// meanwhile.
func (w *World) StopBroker() { w.broker.stop() }

// StartBroker starts the broker again. It must be stopped.
func (w *World) StartBroker(ctx context.Context) error { return w.broker.start(ctx) }

// ReadLog returns the whole log as it is at the beginning of the call, in its order, straight from the broker. It has
// no messages where there is no log. If the log loses its end meanwhile, only the end of ctx ends the wait for it.
func (w *World) ReadLog(ctx context.Context) ([]rig.Message, error) {
	log, err := w.broker.readLog(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the log: %w", err)
	}
	return log, nil
}
