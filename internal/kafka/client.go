// SPDX-License-Identifier: Apache-2.0

package kafka

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"time"

	kafkago "github.com/segmentio/kafka-go"
)

// Config says where a cluster is and as whom to speak to it.
type Config struct {
	// Brokers are addresses, host:port, of some brokers; name several, as one that is away cannot tell of the others.
	Brokers []string
	// ClientID is what brokers call the client (default "kube-eventbridge").
	ClientID string
	Auth     Auth
	TLS      TLS
	// Timeout is how long an answer is waited for (default 10 s).
	Timeout time.Duration
	// Topics are those that are spoken of. Brokers tell about each topic that they have every second or so where none
	// is named.
	Topics []string
}

// ErrClosed says that the client was closed.
var ErrClosed = errors.New("the client is closed")

const (
	defaultClientID = "kube-eventbridge"
	defaultTimeout  = 10 * time.Second
	dialTimeout     = 5 * time.Second
	// metadataAge is how old the knowledge of who leads a partition may be, and how long a broker may take to tell.
	metadataAge = 2 * time.Second
	// renewEvery is how often the pool may be thrown away.
	renewEvery = 200 * time.Millisecond
)

// Client speaks to one cluster. Its methods may be called concurrently; each fails when ctx ends, or after
// [Config].Timeout. Errors are those of [Explain].
type Client struct {
	cfg       Config
	addr      net.Addr
	dialer    *dialer
	transport *kafkago.Transport
	client    *kafkago.Client
	coalescer *coalescer
	leaders   leaders
	// life ends when the client is closed.
	life context.Context
	end  context.CancelFunc

	mu      sync.Mutex
	renewed time.Time
}

// Format implements [fmt.Formatter] for every verb: what the client is made of holds its password.
func (c *Client) Format(f fmt.State, _ rune) {
	_, _ = io.WriteString(f, "client of "+strings.Join(c.cfg.Brokers, ","))
}

// NewClient checks c and returns a client that has not spoken to anybody yet.
func NewClient(c Config) (*Client, error) {
	if c.ClientID == "" {
		c.ClientID = defaultClientID
	}
	if c.Timeout <= 0 {
		c.Timeout = defaultTimeout
	}
	if len(c.Brokers) == 0 {
		return nil, errors.New("no broker is named")
	}
	mechanism, err := c.Auth.mechanism()
	if err != nil {
		return nil, err
	}
	tls, err := c.TLS.config()
	if err != nil {
		return nil, err
	}
	life, end := context.WithCancel(context.Background())
	d := newDialer(c.Timeout)
	transport := &kafkago.Transport{
		Dial: d.dial, DialTimeout: dialTimeout, MetadataTTL: metadataAge, MetadataTopics: c.Topics, ClientID: c.ClientID,
		TLS: tls, SASL: mechanism, Context: life,
	}
	addr := kafkago.TCP(c.Brokers...)
	client := &Client{
		cfg: c, addr: addr, dialer: d, transport: transport, client: &kafkago.Client{Addr: addr, Transport: transport},
		life: life, end: end,
	}
	client.coalescer = newCoalescer(client.send)
	client.leaders.known = client.known
	return client, nil
}

// Close ends the requests that are under way and closes all connections, whatever is waited for on them. What is asked
// for later fails with [ErrClosed].
func (c *Client) Close() {
	c.end()
	c.dialer.close()
	c.transport.CloseIdleConnections()
	c.coalescer.close()
}

// renew throws the connections away, and what is known of the cluster: a connection that died unnoticed costs a whole
// timeout, and who leads a partition is asked for only once in a while. Requests that are under way are not disturbed.
func (c *Client) renew() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now := time.Now(); now.Sub(c.renewed) >= renewEvery {
		c.renewed = now
		c.transport.CloseIdleConnections()
	}
}

// do makes one request, which takes a permission. After a failure the next one begins on a new connection.
func (c *Client) do(ctx context.Context, what, permission string, request func(ctx context.Context) error) error {
	alive, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(c.life, cancel)()
	limited, cancelLimit := context.WithTimeout(alive, c.cfg.Timeout)
	defer cancelLimit()
	err := request(limited)
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return fmt.Errorf("%s: %w", what, ctx.Err())
	case c.life.Err() != nil:
		return fmt.Errorf("%s: %w", what, ErrClosed)
	}
	if unrouted(err) {
		// Why brokers have not told is what the library answers this one with.
		if _, cause := c.client.Metadata(limited, &kafkago.MetadataRequest{}); cause != nil {
			err = cause
		}
	}
	if misrouted(err) {
		c.renew()
	}
	return fmt.Errorf("%s: %w", what, c.explain(err, permission))
}

// Producer is an idempotent producer's identity.
type Producer struct {
	ID    int64
	Epoch int16
}

// transactionTimeout has to be within the broker's limit, 15 minutes by default. No transaction is ever begun.
const transactionTimeout = time.Minute

// InitProducer returns a producer id. With a transactional id it is the id's own, in its next epoch: batches of older
// epochs are refused by each partition that has seen a batch of the new one. A previous producer makes the broker
// refuse if another one has come since; nil is no previous one.
func (c *Client) InitProducer(ctx context.Context, transactionalID string, previous *Producer) (p Producer, err error) {
	request := &kafkago.InitProducerIDRequest{
		TransactionalID: transactionalID, TransactionTimeoutMs: int(transactionTimeout.Milliseconds()), ProducerID: -1,
		ProducerEpoch: -1,
	}
	if previous != nil {
		request.ProducerID, request.ProducerEpoch = int(previous.ID), int(previous.Epoch)
	}
	permission := "operation IdempotentWrite on the Cluster, or Write on a Topic"
	if transactionalID != "" {
		permission = "operation Write on TransactionalId " + transactionalID
	}
	err = c.do(ctx, "ask for a producer id", permission, func(ctx context.Context) error {
		res, err := c.client.InitProducerID(ctx, request)
		switch {
		case err != nil:
			return err
		case res.Error != nil:
			return res.Error
		}
		p = Producer{ID: int64(res.Producer.ProducerID), Epoch: int16(res.Producer.ProducerEpoch)} //nolint:gosec // it was an int16 on the wire
		return nil
	})
	return p, err
}
