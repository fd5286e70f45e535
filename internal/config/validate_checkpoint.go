// SPDX-License-Identifier: Apache-2.0

package config

import (
	"math"
	"strings"
)

func (v *validator) checkpoint(path string, p *Pipeline) {
	c := &p.Checkpoint
	var kinds []string
	for _, kind := range []struct {
		key  string
		used bool
	}{{"file", c.File != (CheckpointFile{})}, {"kafka", c.Kafka != nil}, {"nats", c.NATS != nil}} {
		if kind.used {
			kinds = append(kinds, kind.key)
		}
	}
	if len(kinds) > 1 {
		v.add(path, "has %s, and positions are kept in one place; keep one", strings.Join(kinds, " and "))
	}
	if c.Kafka != nil {
		v.checkpointKafka(path+".kafka", p)
	}
	if c.NATS != nil {
		v.checkpointNATS(path+".nats", p)
	}
}

func (v *validator) checkpointKafka(path string, p *Pipeline) {
	k := p.Checkpoint.Kafka
	if p.Sink.Kafka == nil {
		v.add(path, "is kept by the brokers of sink.kafka, and this pipeline has none; use file, or publish to kafka")
	}
	v.count(path+".replicas", "replicas", k.Replicas, math.MaxInt16)
	switch {
	case !topicPattern.MatchString(k.Topic) || strings.Trim(k.Topic, ".") == "":
		v.add(path+".topic", "%q is not the name of a topic; use letters, digits, . _ and - (at most 249, not dots alone)",
			k.Topic)
	case v.publishes(p, k.Topic):
		v.add(path+".topic", "%q may be a topic of sink.kafka.topic, and one with checkpoints holds nothing else; "+
			"name another topic in either place", k.Topic)
	}
}

// maxBucket is how long a bucket's name may be: its stream has a prefix before it, and directories are named after
// that.
const maxBucket = 200

func (v *validator) checkpointNATS(path string, p *Pipeline) {
	n := p.Checkpoint.NATS
	if !bucketPattern.MatchString(n.Bucket) || len(n.Bucket) > maxBucket {
		v.add(path+".bucket", "%q is not the name of a bucket; use letters, digits, - and _ (at most 200)", n.Bucket)
	}
	v.replicas(path, n.Replicas)
	v.servers(path, n.Servers)
	v.access(path, n.Servers, &n.NATSAccess)
	switch {
	case len(n.Servers) > 0:
	case p.Sink.Embedded != nil:
		v.add(path,
			"names no servers, and the embedded one keeps its streams on the disk of this bridge; use file, or add servers")
	case p.Sink.NATS == nil:
		v.add(path,
			"names no servers, and this pipeline has no sink.nats whose servers could be meant; add servers, or use file")
	case n.NATSAccess != (NATSAccess{}):
		v.add(path, "says who we are and not to whom; add servers, or leave to sink.nats who we are")
	}
}
