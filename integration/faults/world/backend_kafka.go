// SPDX-License-Identifier: Apache-2.0

package world

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"golang.org/x/sync/errgroup"

	"github.com/kube-eventbridge/kube-eventbridge/integration/internal/proxy"
	"github.com/kube-eventbridge/kube-eventbridge/integration/internal/rig"
	"github.com/kube-eventbridge/kube-eventbridge/integration/kafkabroker"
)

const (
	// Partitions is how many the log has on Kafka.
	Partitions = 6

	kafkaBrokers    = 3
	topicLog        = "kubernetes"
	topicCheckpoint = "kube-eventbridge-checkpoints"
	// kafkaTimeout is after how long the bridge takes a request to Kafka for unanswered.
	kafkaTimeout = 10 * time.Second
)

// kafkaBackend is three real brokers, each behind a proxy.
type kafkaBackend struct {
	cluster *kafkabroker.Cluster
	proxied *wire
	ways    map[int]*proxy.Proxy // by replica, until it has asked for it

	mu sync.Mutex // guards what follows
	// fronts are those of the wire, and reached is where a replica reaches a broker.
	fronts  map[brokerOf]*proxy.Front
	reached map[brokerOf]string
	// log has what was read of the log, also what is no longer there; nil before the first time, and when it was
	// deleted.
	log *rig.KafkaTopic
}

// brokerOf is a broker as a replica sees it.
type brokerOf struct{ replica, broker int }

// newKafkaBackend starts brokers with a listener for each replica.
func newKafkaBackend(ctx context.Context, dir string, replicas int, log io.Writer) (b *kafkaBackend, err error) {
	b = &kafkaBackend{
		proxied: newWire(kafkaProtocol(topicLog, topicCheckpoint)),
		ways:    map[int]*proxy.Proxy{}, fronts: map[brokerOf]*proxy.Front{}, reached: map[brokerOf]string{},
	}
	listeners := []kafkabroker.Listener{{}}
	for n := range max(1, replicas) {
		if replicas > 0 {
			b.ways[n+1] = proxy.New(proxy.Handler{})
		}
		listeners = append(listeners, kafkabroker.Listener{Name: listenerOf(n + 1), Advertise: b.advertise(n + 1)})
	}
	b.cluster, err = kafkabroker.Start(ctx, kafkabroker.Config{
		Brokers: kafkaBrokers, Dir: dir, Log: log, Listeners: listeners,
		Properties: map[string]string{"broker.session.timeout.ms": "4000"}, // on a busy machine no broker answers within two
	})
	if err != nil {
		return nil, errors.Join(err, b.closeProxies())
	}
	return b, nil
}

// advertise returns the function that puts the wire before a broker for a replica, and the replica's way before that,
// or moves what is there to the broker's new address. It returns where the replica reaches the broker.
func (b *kafkaBackend) advertise(replica int) func(broker int, address string) (string, error) {
	return func(broker int, address string) (string, error) {
		b.mu.Lock()
		defer b.mu.Unlock()
		at := brokerOf{replica, broker}
		if front := b.fronts[at]; front != nil {
			front.Move(address)
			return b.reached[at], nil
		}
		front, err := b.proxied.Before(address)
		if err != nil {
			return "", err
		}
		b.fronts[at], b.reached[at] = front, front.Address()
		if way := b.ways[replica]; way != nil {
			if front, err = way.Before(front.Address()); err != nil {
				return "", err
			}
			b.reached[at] = front.Address()
		}
		return b.reached[at], nil
	}
}

// frontsOf are those before a broker.
func (b *kafkaBackend) frontsOf(broker int) (all []*proxy.Front) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for at, front := range b.fronts {
		if at.broker == broker {
			all = append(all, front)
		}
	}
	return all
}

func (b *kafkaBackend) close() error {
	b.forgetLog()
	return errors.Join(b.closeProxies(), b.cluster.Close())
}

// forgetLog has the log read from its beginning the next time.
func (b *kafkaBackend) forgetLog() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.log != nil {
		b.log.Close()
		b.log = nil
	}
}

// closeProxies closes the wire and the ways that no replica has asked for.
func (b *kafkaBackend) closeProxies() error {
	errs := []error{b.proxied.close()}
	for _, way := range b.ways {
		errs = append(errs, way.Close())
	}
	return errors.Join(errs...)
}

func (b *kafkaBackend) wire() *wire { return b.proxied }

// listenerOf is what the brokers call the listener that a replica comes to: a broker tells the addresses of the
// listener at which it is asked.
func listenerOf(replica int) string { return fmt.Sprintf("PROXIED%d", replica) }

func (b *kafkaBackend) way(replica int) (*proxy.Proxy, error) {
	way := b.ways[replica]
	delete(b.ways, replica)
	return way, nil
}

func (b *kafkaBackend) committed() time.Time { return b.proxied.lastCommit() }

func (b *kafkaBackend) removeCheckpoint(ctx context.Context) error {
	return b.deleteTopic(ctx, topicCheckpoint)
}

func (b *kafkaBackend) sink(r *replica) string {
	return fmt.Sprintf(`kafka: {brokers: ["%s"], create: {partitions: %d, replicas: %d, settings: {min.insync.replicas: `+
		`2}}}`,
		strings.Join(b.cluster.AddressesOf(listenerOf(r.number)), `", "`), Partitions, kafkaBrokers)
}

// start starts the brokers that do not run.
func (b *kafkaBackend) start(ctx context.Context) error {
	g, ctx := errgroup.WithContext(context.WithoutCancel(ctx))
	for n := range kafkaBrokers {
		if b.cluster.PID(n) == 0 {
			g.Go(func() error { return b.cluster.Restart(ctx, n) })
		}
	}
	return g.Wait()
}

// stop ends all brokers at once, with SIGKILL.
func (b *kafkaBackend) stop() { _ = b.kill(0, 1, 2) } // a process that cannot be killed has ended

func (b *kafkaBackend) kill(brokers ...int) error {
	var g errgroup.Group
	for _, n := range brokers {
		g.Go(func() error { return b.cluster.Kill(n) })
	}
	return g.Wait()
}

// end is the sum of the ends of all partitions.
func (b *kafkaBackend) end() (uint64, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	var all []kafka.OffsetRequest
	for p := range Partitions {
		all = append(all, kafka.LastOffsetOf(p))
	}
	res, err := b.cluster.Admin().ListOffsets(ctx,
		&kafka.ListOffsetsRequest{Topics: map[string][]kafka.OffsetRequest{topicLog: all}})
	if err != nil {
		return 0, fmt.Errorf("look up topic %s: %w", topicLog, err)
	}
	sum, found := int64(0), res.Topics[topicLog]
	for _, p := range found {
		if p.Error != nil {
			return 0, fmt.Errorf("look up topic %s: %w", topicLog, p.Error)
		}
		sum += p.LastOffset
	}
	if len(found) < Partitions {
		return 0, fmt.Errorf("there is no topic %s", topicLog)
	}
	return uint64(sum), nil //nolint:gosec // offsets are not negative
}

// client returns one that shares nothing with the bridge.
func (b *kafkaBackend) client() (*kgo.Client, error) {
	return kgo.NewClient(kgo.SeedBrokers(b.cluster.Addresses()...))
}

// admin asks something.
func (b *kafkaBackend) admin(do func(*kadm.Client) error) error {
	c, err := b.client()
	if err != nil {
		return err
	}
	defer c.Close()
	return do(kadm.NewClient(c))
}

// readLog returns also what was deleted of the log's beginning, if that was read before. It is an error that wraps
// [ErrAstray] if there is a topic that the bridge has no use for.
func (b *kafkaBackend) readLog(ctx context.Context) ([]rig.Message, error) {
	if err := b.admin(func(a *kadm.Client) error { return astray(a.ListTopics(ctx)) }); err != nil {
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.log == nil {
		log, err := rig.KafkaLog(topicLog, b.cluster.Addresses())
		if err != nil {
			return nil, err
		}
		b.log = log
	}
	return read(ctx, b.log)
}

// astray returns which of the topics is neither the log's nor the checkpoint's.
func astray(topics kadm.TopicDetails, err error) error {
	for _, topic := range topics.Names() {
		if topic != topicLog && topic != topicCheckpoint && !topics[topic].IsInternal {
			return fmt.Errorf("%w: topic %s", ErrAstray, topic)
		}
	}
	return err
}

// read returns all that a topic has now; of a topic that is missing, nothing.
func read(ctx context.Context, log *rig.KafkaTopic) ([]rig.Message, error) {
	messages, err := log.Read(ctx)
	if errors.Is(err, kerr.UnknownTopicOrPartition) {
		return nil, nil
	}
	return slices.Clone(messages), err
}

// deleteRecords deletes the beginning of the log: all that was read from it once.
func (b *kafkaBackend) deleteRecords(ctx context.Context, read []rig.Message) error {
	to := kadm.Offsets{}
	for _, m := range read {
		to.Add(kadm.Offset{Topic: topicLog, Partition: m.Partition, At: int64(m.Sequence) + 1}) //nolint:gosec // it came from an offset
	}
	return b.admin(func(a *kadm.Client) error {
		res, err := a.DeleteRecords(ctx, to)
		return errors.Join(err, res.Error())
	})
}

func (b *kafkaBackend) deleteLog(ctx context.Context) error {
	defer b.forgetLog()
	return b.deleteTopic(ctx, topicLog)
}

// deleteTopic returns once no broker knows the topic any more.
func (b *kafkaBackend) deleteTopic(ctx context.Context, topic string) error {
	err := b.admin(func(a *kadm.Client) error {
		res, err := a.DeleteTopics(ctx, topic)
		if err == nil {
			err = res.Error()
		}
		return err
	})
	if err != nil && !errors.Is(err, kerr.UnknownTopicOrPartition) {
		return fmt.Errorf("delete topic %s: %w", topic, err)
	}
	return poll(ctx, patience, "all brokers to forget topic "+topic, func() bool { return !b.isKnown(ctx, topic) })
}

// isKnown reports whether a broker that runs knows a topic, or does not say.
func (b *kafkaBackend) isKnown(ctx context.Context, topic string) bool {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	c, err := b.client()
	if err != nil {
		return true
	}
	defer c.Close()
	for n := range kafkaBrokers {
		ask := kmsg.NewPtrMetadataRequest()
		ask.Topics = []kmsg.MetadataRequestTopic{{Topic: &topic}}
		res, err := ask.RequestWith(ctx, c.Broker(n))
		if b.cluster.PID(n) != 0 && (err != nil || len(res.Topics) != 1 ||
			!errors.Is(kerr.ErrorForCode(res.Topics[0].ErrorCode), kerr.UnknownTopicOrPartition)) {
			return true
		}
	}
	return false
}

// checkpointText is all that the checkpoint's topic has.
func (b *kafkaBackend) checkpointText(ctx context.Context) (text []byte, err error) {
	log, err := rig.KafkaLog(topicCheckpoint, b.cluster.Addresses())
	if err != nil {
		return nil, err
	}
	defer log.Close()
	messages, err := read(ctx, log)
	for _, m := range messages {
		text = append(append(append(text, m.Key...), '\n'), append(m.Data, '\n')...)
	}
	return text, err
}

// incarnation is what tells a topic from one of the same name that was there before.
func (b *kafkaBackend) incarnation(ctx context.Context) (id kadm.TopicID, err error) {
	err = b.admin(func(a *kadm.Client) error {
		found, err := a.ListTopics(ctx, topicLog)
		if err != nil {
			return err
		}
		id = found[topicLog].ID
		return found[topicLog].Err
	})
	return id, err
}
