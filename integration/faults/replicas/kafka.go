// SPDX-License-Identifier: Apache-2.0

package replicas

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"

	"github.com/kube-eventbridge/kube-eventbridge/integration/internal/proxy"
	"github.com/kube-eventbridge/kube-eventbridge/integration/internal/rig"
	"github.com/kube-eventbridge/kube-eventbridge/integration/kafkabroker"
)

const (
	topic      = "kubernetes"
	partitions = 4
)

// kafkaBroker is one broker, with a listener of its own for the replicator.
type kafkaBroker struct {
	cluster *kafkabroker.Cluster
	proxy   *proxy.Proxy
	log     *rig.KafkaTopic

	mu    sync.Mutex // guards what follows
	front *proxy.Front
}

func newKafka(ctx context.Context, dir string, log io.Writer) (b *kafkaBroker, err error) {
	b = &kafkaBroker{proxy: proxy.New(proxy.Handler{})}
	b.cluster, err = kafkabroker.Start(ctx, kafkabroker.Config{
		Dir: dir, Log: log, Listeners: []kafkabroker.Listener{{}, {Name: "PROXIED", Advertise: b.advertise}},
	})
	if err == nil {
		b.log, err = rig.KafkaLog(topic, b.cluster.Addresses())
	}
	if err != nil {
		return nil, errors.Join(err, b.close())
	}
	return b, nil
}

// advertise puts the proxy before the broker.
func (b *kafkaBroker) advertise(_ int, address string) (_ string, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.front != nil {
		b.front.Move(address)
		return b.front.Address(), nil
	}
	if b.front, err = b.proxy.Before(address); err != nil {
		return "", err
	}
	return b.front.Address(), nil
}

func (b *kafkaBroker) sink() string {
	return fmt.Sprintf("{kafka: {brokers: [%q], topic: %s, create: {partitions: %d}}}",
		strings.Join(b.cluster.Addresses(), ","), topic, partitions)
}

func (b *kafkaBroker) from() string {
	return fmt.Sprintf("kafka: {brokers: [%q], topic: %s}", b.front.Address(), topic)
}

func (b *kafkaBroker) way() *proxy.Proxy { return b.proxy }

func (b *kafkaBroker) restart(ctx context.Context, down func() error) error {
	return errors.Join(b.cluster.Kill(0), down(), b.cluster.Restart(ctx, 0))
}

func (b *kafkaBroker) read(ctx context.Context) ([]rig.Message, error) { return b.log.Read(ctx) }

func (b *kafkaBroker) close() error {
	if b.log != nil {
		b.log.Close()
	}
	err := b.proxy.Close()
	if b.cluster != nil {
		err = errors.Join(err, b.cluster.Close())
	}
	return err
}
