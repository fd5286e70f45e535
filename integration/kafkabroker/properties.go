// SPDX-License-Identifier: Apache-2.0

package kafkabroker

import (
	"bytes"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/kube-eventbridge/kube-eventbridge/internal/port"
)

// choosePorts gives every listener of every node a free port.
func (c *Cluster) choosePorts() error {
	for _, n := range c.nodes {
		n.ports, n.advertised = map[string]int{}, map[string]string{}
		for _, name := range n.listeners() {
			var err error
			if n.ports[name], err = port.Free(); err != nil {
				return err
			}
			n.advertised[name] = n.address(name)
		}
		if !n.broker {
			continue
		}
		for _, l := range c.cfg.Listeners {
			if l.Advertise == nil {
				continue
			}
			address, err := l.Advertise(n.id, n.address(l.Name))
			if err != nil {
				return fmt.Errorf("advertise %s of %s: %w", l.Name, n.name, err)
			}
			n.advertised[l.Name] = address
		}
	}
	return nil
}

// listeners returns the names of what a node listens on.
func (n *node) listeners() []string {
	var names []string
	if n.broker {
		names = append(names, internalListener)
		for _, l := range n.cluster.cfg.Listeners {
			names = append(names, l.Name)
		}
	}
	if n.controller {
		names = append(names, controllerListener)
	}
	return names
}

func (n *node) address(listener string) string {
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(n.ports[listener]))
}

// Addresses returns where clients find the brokers, by number, on the first listener.
func (c *Cluster) Addresses() []string { return c.AddressesOf(c.cfg.Listeners[0].Name) }

// AddressesOf returns where clients find the brokers on a listener: what it advertises. It panics if there is no
// listener of this name.
func (c *Cluster) AddressesOf(listener string) []string {
	var all []string
	for _, n := range c.brokers() {
		address, ok := n.advertised[listener]
		if !ok {
			panic(fmt.Sprintf("kafkabroker: there is no listener %q", listener))
		}
		all = append(all, address)
	}
	return all
}

// properties returns the node's server.properties.
func (n *node) properties() []byte {
	c := n.cluster
	p := map[string]string{
		"node.id": strconv.Itoa(n.id), "log.dirs": n.path("data"),
		"controller.listener.names": controllerListener,
		"auto.create.topics.enable": "false", "auto.leader.rebalance.enable": "false",
		"broker.session.timeout.ms": "2000", "broker.heartbeat.interval.ms": "500", "group.initial.rebalance.delay.ms": "0",
		// Less memory and fewer threads.
		"log.cleaner.dedupe.buffer.size": "4194304", "num.network.threads": "2", "num.io.threads": "4",
		"offsets.topic.num.partitions": "3", "transaction.state.log.num.partitions": "3",
		"share.coordinator.state.topic.num.partitions": "3",
		// What waits for minutes by default.
		"log.initial.task.delay.ms": "500", "log.cleaner.backoff.ms": "1000", "log.retention.check.interval.ms": "1000",
		"log.segment.delete.delay.ms": "1000", "producer.id.expiration.check.interval.ms": "1000",
	}
	controller := c.nodes[len(c.nodes)-1]
	p["controller.quorum.voters"] = fmt.Sprintf("%d@%s", controller.id, controller.address(controllerListener))
	replicas, needed := strconv.Itoa(min(c.cfg.Brokers, 3)), "1"
	if c.cfg.Brokers >= 3 {
		needed = "2"
	}
	p["default.replication.factor"], p["min.insync.replicas"] = replicas, needed
	for _, topic := range []string{"transaction.state.log", "share.coordinator.state.topic"} {
		p[topic+".replication.factor"], p[topic+".min.isr"] = replicas, needed
	}
	p["offsets.topic.replication.factor"] = replicas
	if c.cfg.Authorizer {
		p["authorizer.class.name"] = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
		p["super.users"] = "User:ANONYMOUS"
	}
	n.listen(p)
	maps.Copy(p, c.cfg.Properties)
	return encodeProperties(p)
}

// listen adds what is said about listeners.
func (n *node) listen(p map[string]string) {
	c := n.cluster
	var roles, listeners, advertised []string
	protocols := []string{internalListener + ":PLAINTEXT", controllerListener + ":PLAINTEXT"}
	for _, name := range n.listeners() {
		listeners = append(listeners, name+"://"+n.address(name))
		if name != controllerListener {
			advertised = append(advertised, name+"://"+n.advertised[name])
		}
	}
	if n.broker {
		roles = append(roles, "broker")
		p["inter.broker.listener.name"], p["advertised.listeners"] = internalListener, strings.Join(advertised, ",")
		maps.Copy(p, c.issuer.properties())
		p["ssl.keystore.type"], p["ssl.keystore.location"] = "PEM", c.ca.brokerFile()
		p["ssl.truststore.type"], p["ssl.truststore.location"] = "PEM", c.ca.caFile()
		p["ssl.principal.mapping.rules"] = "RULE:^CN=(.*?)$/$1/,DEFAULT"
		for _, l := range c.cfg.Listeners {
			protocols = append(protocols, l.Name+":"+string(l.Protocol))
			maps.Copy(p, l.properties(c.cfg.Users))
		}
	}
	if n.controller {
		roles = append(roles, "controller")
	}
	p["process.roles"], p["listeners"] = strings.Join(roles, ","), strings.Join(listeners, ",")
	p["listener.security.protocol.map"] = strings.Join(protocols, ",")
}

// encodeProperties writes what java.util.Properties reads.
func encodeProperties(p map[string]string) []byte {
	var b bytes.Buffer
	escape := strings.NewReplacer(`\`, `\\`, "\n", `\n`, "\r", `\r`, "\t", `\t`, " ", `\ `, "=", `\=`, ":", `\:`, "#",
		`\#`, "!", `\!`)
	for _, key := range slices.Sorted(maps.Keys(p)) {
		fmt.Fprintf(&b, "%s=%s\n", escape.Replace(key), escape.Replace(p[key]))
	}
	return b.Bytes()
}
