// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"math"
	"net"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/kube-eventbridge/kube-eventbridge/encode"
)

func (v *validator) kafka(path string, k *Kafka) {
	if len(k.Brokers) == 0 {
		v.add(path+".brokers", "none is given; write at least one, such as localhost:9092")
	}
	for i, b := range k.Brokers {
		v.broker(fmt.Sprintf("%s.brokers[%d]", path, i), b, k.Brokers[:i])
	}
	switch _, err := encode.ParseTemplate(encode.Topic, k.Topic); {
	case err != nil:
		v.add(path+".topic", "%v", err)
	case strings.Trim(k.Topic, ".") == "":
		v.add(path+".topic", "%q is not the name of a topic; use more than dots, as in %s", k.Topic, encode.DefaultTopic)
	}
	if k.Create != nil {
		v.create(path+".create", k.Create, k.Tombstones)
	}
	oneOf(v, path+".compression", k.Compression)
	v.tls(path+".tls", k.TLS)
	if k.SASL != nil {
		v.sasl(path+".sasl", k.SASL, k.TLS != nil)
	}
}

// broker checks an address. It repeats none that may hold a secret.
func (v *validator) broker(path, address string, before []string) {
	const valid = "write host:port, such as localhost:9092"
	scheme, rest, isURL := strings.Cut(address, "://")
	switch {
	case strings.Contains(address, "@"):
		v.add(path, "holds a user, and a secret never stands in this file; use sasl beside brokers")
	case isURL && isBroker(strings.TrimRight(rest, "/")):
		v.add(path, "%q is a URL, and a broker has an address; remove %s://, and say by tls and sasl how to connect", address,
			scheme)
	case !isURL && strings.Contains(address, ","):
		v.add(path, "%q is more than one address; make an item of each", address)
	case !isBroker(address):
		v.add(path, "%q is not the address of a broker; %s", address, valid)
	case containsFold(before, address):
		v.add(path, "%q is there twice; keep one", address)
	}
}

// hostPattern also has the underscores that names in a container's network may have.
var hostPattern = regexp.MustCompile(`^[A-Za-z0-9_]([A-Za-z0-9_.-]*[A-Za-z0-9_.])?$`)

// isBroker reports whether address can be that of a server: a name or an IP address, and a port.
func isBroker(address string) bool {
	host, port, err := net.SplitHostPort(address)
	if err != nil || !isPort(port) {
		return false
	}
	_, ipErr := netip.ParseAddr(host)
	return ipErr == nil || hostPattern.MatchString(host)
}

// isPort reports whether a server can have the port: 1 to 65535.
func isPort(port string) bool {
	n, err := strconv.ParseUint(port, 10, 16)
	return err == nil && n > 0
}

// containsFold reports whether address is one of all: names of hosts are the same in any case.
func containsFold(all []string, address string) bool {
	return slices.ContainsFunc(all, func(a string) bool { return strings.EqualFold(a, address) })
}

// maxPartitions is how many partitions brokers make at once.
const maxPartitions = 10_000

func (v *validator) create(path string, c *KafkaTopic, tombstones bool) {
	v.count(path+".partitions", "partitions", c.Partitions, maxPartitions)
	v.count(path+".replicas", "replicas", c.Replicas, math.MaxInt16)
	if _, nameless := c.Settings[""]; nameless {
		v.add(path+".settings",
			"has a value without a name; write the name of a topic's setting before it, such as retention.ms")
	}
	const cleanup = "cleanup.policy"
	if strings.Contains(c.Settings[cleanup], "compact") && !tombstones {
		v.warn(path+".settings."+cleanup,
			"compaction without tombstones keeps the last event of each deleted object for ever; "+
				"set tombstones: true, or %s: delete", cleanup)
	}
}

// count checks a number that is the brokers' to choose where it is 0.
func (v *validator) count(path, what string, n, most int) {
	if n < 0 || n > most {
		v.add(path, "%d is not a number of %s; give 1 to %d, or 0 for the brokers' default", n, what, most)
	}
}

// sharedTopic refuses what b, at path, publishes of the objects of a into the same topic: a record's key does not tell
// pipelines apart, so that compaction would keep the last of either.
func (v *validator) sharedTopic(path string, a, b *Pipeline) {
	x, y := a.Sink.Kafka, b.Sink.Kafka
	if x == nil || y == nil || !commonBroker(x, y) || v.topic(a) != v.topic(b) {
		return
	}
	mean, others := meanings(b.Resources), meanings(a.Resources)
	for i := range b.Resources {
		for j := range a.Resources {
			r, o := &b.Resources[i], &a.Resources[j]
			if r.Resource != (ResourceName{}) && mean[i].meets(others[j]) && shareNamespace(r.Namespaces, o.Namespaces) {
				v.once(fmt.Sprintf("%s.resources[%d].resource", path, i),
					"%v may name the same objects as %v of pipeline %q, which publishes to the same topic; "+
						"give one pipeline another topic, such as %s.{pipeline}, or different namespaces", r.Resource, o.Resource, a.Name,
					y.Topic)
			}
		}
	}
}

// topic is the template of p's topics with what is the same for all of them filled in.
func (v *validator) topic(p *Pipeline) string {
	return strings.NewReplacer("{pipeline}", p.Name, "{cluster}", v.cluster).Replace(p.Sink.Kafka.Topic)
}

func commonBroker(a, b *Kafka) bool {
	return slices.ContainsFunc(b.Brokers, func(s string) bool { return containsFold(a.Brokers, s) })
}

// checkpointTopics refuses b, at path, where one of the two may publish to the topic with the other's checkpoint.
func (v *validator) checkpointTopics(path string, a, b *Pipeline) {
	if a.Sink.Kafka == nil || b.Sink.Kafka == nil || !commonBroker(a.Sink.Kafka, b.Sink.Kafka) {
		return
	}
	if k := b.Checkpoint.Kafka; k != nil && v.publishes(a, k.Topic) {
		v.once(path+".checkpoint.kafka.topic",
			"%q may be a topic that pipeline %q publishes to, and one with checkpoints holds nothing else; "+
				"name another topic in either pipeline", k.Topic, a.Name)
	}
	if k := a.Checkpoint.Kafka; k != nil && v.publishes(b, k.Topic) {
		v.once(path+".sink.kafka.topic",
			"%q may give topic %s, which has the checkpoint of pipeline %q; name another topic in either pipeline",
			b.Sink.Kafka.Topic, k.Topic, a.Name)
	}
}

var topicPattern = regexp.MustCompile(`^[A-Za-z0-9._-]{1,249}$`)

// publishes reports whether a topic may be one of p's sink, which takes every topic that fits the template for its own,
// whatever resources the pipeline has.
func (v *validator) publishes(p *Pipeline, topic string) bool {
	const unknown, uid = `[A-Za-z0-9._-]+`, `[0-9a-f-]{36}`
	if p.Sink.Kafka == nil {
		return false
	}
	cluster := uid
	if v.cluster != "" {
		cluster = regexp.QuoteMeta(v.cluster)
	}
	form := strings.NewReplacer(`\{pipeline\}`, regexp.QuoteMeta(p.Name), `\{cluster\}`, cluster,
		`\{group\}`, unknown, `\{version\}`, unknown, `\{resource\}`, unknown).Replace(regexp.QuoteMeta(p.Sink.Kafka.Topic))
	return regexp.MustCompile("^" + form + "$").MatchString(topic)
}
