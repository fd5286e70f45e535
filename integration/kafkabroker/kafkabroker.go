// SPDX-License-Identifier: Apache-2.0

// Package kafkabroker runs real Apache Kafka, in KRaft mode, as child processes of a test or a measurement, and breaks
// it on demand.
//
// Kafka's jars are fetched once (see [Install]). Brokers listen on 127.0.0.1 only, are kept small (see [Config]) and
// keep their ports and their data across all stops and starts, so clients made once keep working. Beside the listeners
// that a test asks for, each has one that asks for nothing and permits everything, which this package itself uses.
package kafkabroker

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/segmentio/kafka-go"
	"golang.org/x/sync/errgroup"
)

// Config says how a cluster runs. The zero value is valid: one broker, without security.
type Config struct {
	// Brokers is how many there are. One, the default, is its own controller. More have one controller beside them, a
	// process of its own; with three or more, topics have three replicas, and writes with acks=all need two of them,
	// where the topic says nothing else.
	Brokers int
	// Dir is where the data, the certificates and the logs go, which a person may want to see afterwards; it is made if
	// missing, must not hold another cluster, and stays. If empty it is a temporary directory that Close removes.
	Dir string
	// Listeners are the ports of every broker, with different names; if empty, one that is Plaintext.
	Listeners []Listener
	// Users and their passwords, for PLAIN and both kinds of SCRAM. Names and passwords are letters, digits, and . _ -
	Users map[string]string
	// Authorizer makes brokers ask what a client may do: nothing, unless [Cluster.Allow] allows it to its user. Without
	// it everybody may do everything. Who comes to a Plaintext listener, or without a certificate to a TLS one, has no
	// name and may do everything also with it.
	Authorizer bool
	// Properties are further lines of server.properties; they win over those that this package writes. Unlike Kafka by
	// default, topics are not made because somebody asks for them, leaders do not go back by themselves, a broker that
	// is silent for two seconds loses its partitions, and what runs now and then in the background (compaction,
	// retention, expiry of producers) runs about every second.
	Properties map[string]string
	// JVMOptions are further options of java for the brokers; they win too. A broker has 256 MB of heap, the simplest
	// compiler and the serial collector: fast to start, not to run. To measure throughput give it more, and
	// "-XX:TieredStopAtLevel=4", "-XX:-UseSerialGC", "-XX:+UseG1GC".
	JVMOptions []string
	// Log receives the progress of [Install]. What brokers print goes to files in Dir, log.txt of each broker.
	Log io.Writer
}

// complete sets what was left out, and refuses what cannot be.
func (c *Config) complete() error {
	c.Brokers = max(c.Brokers, 1)
	if len(c.Listeners) == 0 {
		c.Listeners = []Listener{{}}
	}
	c.Listeners = append([]Listener(nil), c.Listeners...) // the caller's stay as they are
	seen := map[string]bool{}
	for i := range c.Listeners {
		l := &c.Listeners[i]
		if err := l.complete(); err != nil {
			return err
		}
		if seen[l.Name] {
			return fmt.Errorf("listener %s: there are two of this name", l.Name)
		}
		seen[l.Name] = true
	}
	return checkUsers(c.Users)
}

// Cluster is one or more brokers. Its methods may be called concurrently; those that start and stop the same broker
// wait for each other. Brokers are numbered from 0, which is also the number that Kafka has for them.
type Cluster struct {
	cfg       Config
	dir       string
	ownsDir   bool
	id        string
	inst      *installation
	ca        *authority
	issuer    *issuer
	nodes     []*node // the brokers by number, then the controller if it is not a broker
	transport *kafka.Transport
	closing   sync.Once
	closed    chan struct{}
}

// A few seconds are usual; two cores that others keep busy may need a hundred times that.
const startTimeout = 5 * time.Minute

var (
	errClosed   = errors.New("cluster is closed")
	errNoBroker = errors.New("no broker runs")
)

// Start starts the brokers and returns once each of them is ready: it knows all others, gives out producer ids, with
// and without a transactional id, and has stored a record of a topic that was created a moment before. On an error
// nothing is left running. The caller must call Close; on Linux the processes also end when this process is killed.
func Start(ctx context.Context, cfg Config) (*Cluster, error) {
	if err := cfg.complete(); err != nil {
		return nil, fmt.Errorf("configure Kafka: %w", err)
	}
	inst, err := install(ctx, cfg.Log)
	if err != nil {
		return nil, err
	}
	return start(ctx, cfg, inst)
}

func start(ctx context.Context, cfg Config, inst *installation) (*Cluster, error) {
	id := make([]byte, 16)
	_, _ = rand.Read(id) // it does not fail
	id[0] &= 0x7f        // so that the text does not begin with -, which would make it an option
	c := &Cluster{cfg: cfg, inst: inst, id: base64.RawURLEncoding.EncodeToString(id), closed: make(chan struct{})}
	c.transport = &kafka.Transport{MetadataTTL: time.Second}
	if err := c.prepare(); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	// Another process may take a port between the choice and the use; that ends a start and another choice helps.
	var err error
	for range 3 {
		if err = c.startOnNewPorts(ctx); err == nil {
			return c, nil
		}
		if !strings.Contains(err.Error(), "Address already in use") {
			break
		}
	}
	return nil, errors.Join(err, c.Close())
}

// prepare makes the directory, and in it those of the nodes and the certificates.
func (c *Cluster) prepare() error {
	c.dir = c.cfg.Dir
	if c.dir == "" {
		dir, err := os.MkdirTemp("", "kube-eventbridge-kafka-")
		if err != nil {
			return fmt.Errorf("make directory: %w", err)
		}
		c.dir, c.ownsDir = dir, true
	}
	var err error
	if c.dir, err = filepath.Abs(c.dir); err != nil {
		return fmt.Errorf("make directory: %w", err)
	}
	for i := range c.cfg.Brokers {
		c.nodes = append(c.nodes, &node{
			cluster: c, id: i, name: fmt.Sprintf("broker-%d", i), broker: true,
			controller: c.cfg.Brokers == 1,
		})
	}
	if c.cfg.Brokers > 1 {
		c.nodes = append(c.nodes, &node{cluster: c, id: controllerID, name: "controller", controller: true})
	}
	for _, n := range c.nodes {
		if err := os.MkdirAll(n.path(""), 0o755); err != nil {
			return fmt.Errorf("make directory: %w", err)
		}
	}
	certificates := filepath.Join(c.dir, "certificates")
	if c.ca, err = newAuthority(certificates); err != nil {
		return err
	}
	c.issuer, err = newIssuer(certificates)
	return err
}

func (c *Cluster) startOnNewPorts(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	if err := c.choosePorts(); err != nil {
		return err
	}
	var g errgroup.Group
	for _, n := range c.nodes {
		g.Go(func() error { return n.locked(func() error { return n.start(ctx) }) })
	}
	err := g.Wait()
	if err == nil {
		err = c.ready(ctx, c.brokers())
	}
	if err != nil {
		return errors.Join(err, c.killAll())
	}
	return nil
}

func (c *Cluster) killAll() error {
	var errs []error
	for _, n := range c.nodes {
		n.mu.Lock()
		errs = append(errs, n.process.Load().Kill())
		n.mu.Unlock()
	}
	return errors.Join(errs...)
}

// Close kills all processes, waits for their end and removes a temporary directory. It waits for a Restart that is
// under way. Closing twice is no error.
func (c *Cluster) Close() error {
	var err error
	c.closing.Do(func() {
		close(c.closed)
		err = c.killAll()
		c.transport.CloseIdleConnections()
		if c.ownsDir {
			err = errors.Join(err, os.RemoveAll(c.dir))
		}
	})
	return err
}

// logsSince returns the end of what each process has printed since logSizes was called.
func (c *Cluster) logsSince(sizes map[string]int64) string {
	var b strings.Builder
	for _, n := range c.nodes {
		path := n.path(logName)
		fmt.Fprintf(&b, "the end of %s:\n%s\n", path, logEnd(path, sizes[path]))
	}
	return b.String()
}

func (c *Cluster) logSizes() map[string]int64 {
	sizes := map[string]int64{}
	for _, n := range c.nodes {
		if info, err := os.Stat(n.path(logName)); err == nil {
			sizes[n.path(logName)] = info.Size()
		}
	}
	return sizes
}
