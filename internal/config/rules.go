// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/kube-eventbridge/kube-eventbridge/encode"
	"github.com/kube-eventbridge/kube-eventbridge/encode/redact"
	"github.com/kube-eventbridge/kube-eventbridge/internal/config/value"
)

// rules checks what depends on several keys, or is allowed and costs something.
func (c *checker) rules() {
	for j := range c.Pipelines {
		at, p := fmt.Sprintf("pipelines[%d]", j), &c.Pipelines[j]
		c.resources(at, p)
		c.encoding(at, p)
		c.sink(at+".sink", p)
		c.checkpoint(at+".checkpoint", p)
		if c.LeaderElection != nil {
			c.elected(at, p)
		}
		for i := range j {
			c.pair(at, &c.Pipelines[i], p)
		}
	}
	rest, sharers := c.unclaimed()
	if c.Buffer.MaxBytes > 0 && (rest < 0 || rest == 0 && sharers > 0) {
		c.Once("buffer.maxBytes",
			"%v is less than what pipelines[].buffer.maxBytes ask for and the others need; raise it, or lower theirs",
			c.Buffer.MaxBytes)
	}
	c.replicas()
	c.servers()
	if c.LeaderElection != nil {
		c.election(c.LeaderElection)
	}
}

// servers checks that each server has an address of its own, and who can reach what changes something, or keeps a
// processor busy.
func (c *checker) servers() {
	s := &c.Server
	if s.Admin == s.Listen && !value.AnyPort(s.Listen) {
		c.Once("server.admin", "%q is the address of metrics and probes, too; give each server its own", s.Admin)
	}
	if s.Admin != "" && !value.Loopback(s.Admin) {
		c.Warn("server.admin",
			"whoever reaches %s can have everything published again; write 127.0.0.1 for the host if that need not be", s.Admin)
	}
	if s.Profiling && !value.Loopback(s.Listen) {
		c.Warn("server.profiling",
			"whoever reaches %s can keep a processor busy with profiles; write 127.0.0.1 for the host of server.listen if "+
				"that need not be", s.Listen)
	}
	for i := range c.Pipelines {
		e := c.Pipelines[i].Sink.Embedded
		if e == nil || !value.Listenable(e.Listen) || value.AnyPort(e.Listen) {
			continue
		}
		switch at := fmt.Sprintf("pipelines[%d].sink.embedded.listen", i); e.Listen {
		case s.Admin:
			c.Add(at, "%q is server.admin, too; give each server its own", e.Listen)
		case s.Listen:
			c.Add(at, "%q is the address of metrics and probes, too; give each server its own", e.Listen)
		}
	}
}

// pair checks b, at path, against the pipeline a before it.
func (c *checker) pair(path string, a, b *Pipeline) {
	// State is kept in files, and not every file system tells cases apart.
	if b.Name != "" && strings.EqualFold(a.Name, b.Name) {
		c.Once(path+".name", "%q is taken by another pipeline; give each a name of its own", b.Name)
	}
	if b.Checkpoint.File.Path != "" && filepath.Clean(a.Checkpoint.File.Path) == filepath.Clean(b.Checkpoint.File.Path) {
		c.Once(path+".checkpoint.file.path", "%q is the checkpoint of pipeline %q; give each a file of its own",
			b.Checkpoint.File.Path, a.Name)
	}
	if x, y := a.Sink.Embedded, b.Sink.Embedded; x != nil && y != nil &&
		(x.Listen != y.Listen && value.Listenable(x.Listen) && value.Listenable(y.Listen) || x.StoreDir != y.StoreDir) {
		c.Once(path+".sink.embedded",
			"differs from that of pipeline %q in listen or storeDir, and a process has one embedded server; write the same",
			a.Name)
	}
	c.sharedStream(path, a, b)
	if x, y := a.Sink.Kafka, b.Sink.Kafka; x != nil && y != nil && slices.ContainsFunc(y.Brokers, func(s string) bool {
		return slices.ContainsFunc(x.Brokers, func(o string) bool { return strings.EqualFold(o, s) })
	}) {
		c.checkpointTopics(path, a, b)
		c.sharedTopic(path, a, b)
	}
}

// election checks that a leader stops before its Lease expires.
func (c *checker) election(e *LeaderElection) {
	const at, margin = "leaderElection", time.Second
	switch {
	case e.LeaseDuration%time.Second != 0:
		c.Once(at+".leaseDuration", "%v is not a duration of a Lease; write whole seconds, such as 15s", e.LeaseDuration)
	case e.RenewDeadline <= 0 || e.RenewDeadline > e.LeaseDuration-margin:
		c.Once(at+".renewDeadline",
			"%v does not leave a leader time to stop before its Lease of %v expires; write at most %v",
			e.RenewDeadline, e.LeaseDuration, e.LeaseDuration-margin)
	case e.RetryPeriod > e.RenewDeadline/2:
		c.Once(at+".retryPeriod", "%v does not allow at least two renewals in a renewDeadline of %v; write 100ms to %v",
			e.RetryPeriod, e.RenewDeadline, e.RenewDeadline/2)
	}
}

// elected checks whether processes can take turns with a pipeline.
func (c *checker) elected(path string, p *Pipeline) {
	valid := "nats"
	switch {
	case p.Sink.Stdout != nil:
		c.Add(path+".sink", "stdout has what one process printed, so leaderElection needs another sink; valid: nats, kafka")
		return
	case p.Sink.Embedded != nil:
		c.Add(path+".sink",
			"the embedded server is a process's own, so leaderElection needs another sink; valid: nats, kafka")
		return
	case p.Sink.NATS != nil:
		if t, err := encode.ParseTemplate(encode.Subject, p.Sink.NATS.Subject); err == nil && !t.PerObject() {
			c.Add(path+".sink.nats.subject",
				"%q does not give each object a subject of its own, by which a former leader is kept from publishing; "+
					"with leaderElection it needs {group}, {resource}, {namespace} and {name}", p.Sink.NATS.Subject)
		}
	case p.Sink.Kafka != nil:
		valid = "kafka, nats"
	}
	if p.Checkpoint.Kafka == nil && p.Checkpoint.NATS == nil {
		c.Add(path+".checkpoint",
			"a file is on one machine, and leaderElection needs a checkpoint that all processes reach; valid: %s", valid)
	}
}

// encoding checks payloads, what is redacted, and what is published of Secrets.
func (c *checker) encoding(path string, p *Pipeline) {
	texts, anything := 0, len(p.Encoding.Redact) > 0
	for i := range p.Resources {
		r, at := &p.Resources[i], fmt.Sprintf("%s.resources[%d]", path, i)
		if r.hasTexts() {
			texts++
		}
		anything = anything || len(r.Redact) > 0
		checkPayload(c, at+".payload", p, r.Payload)
		c.paths(at+".redact", r.Redact, *r)
		c.paths(at+".ignoreChanges", r.IgnoreChanges, *r)
	}
	c.paths(path+".encoding.redact", p.Encoding.Redact, p.Resources...)
	if 0 < texts && texts < len(p.Resources) {
		for i, parsed := range parsedPaths(p.Encoding.Redact) {
			if instead := parsed.Beyond(true); instead != "" && parsed.Beyond(false) == "" {
				c.Warn(fmt.Sprintf("%s.encoding.redact[%d]", path, i),
					"path %q names nothing in a ConfigMap or a Secret; if it is meant for them write %s", parsed, instead)
			}
		}
	}
	for i, part := range p.Encoding.Keep {
		if anything {
			c.Warn(fmt.Sprintf("%s.encoding.keep[%d]", path, i),
				"%s may repeat what is redacted, so it is removed all the same where anything is", part)
		}
	}
	if h := p.Encoding.Secrets.Hashes; h != nil && *h == (SecretHashes{}) {
		c.Add(path+".encoding.secrets.hashes", "has no key; give keyFile or keyEnv, with %d random bytes or more",
			redact.MinHashKey)
	}
}

// checkPayload checks that what a pipeline publishes can have a payload.
func checkPayload(c *checker, path string, p *Pipeline, payload Payload) {
	switch {
	case p.Encoding.Profile == ProfileKnative && (payload.patch() || payload == PayloadChange):
		c.Add(path, "%q is nothing that Knative's ApiServerSource publishes, and encoding.profile is knative; valid with "+
			"this profile: object, metadata", payload)
	case payload.patch() && p.Sink.Kafka.compacts():
		c.Add(path, "%q says nothing without the event before, which a compacted topic does not keep, and "+
			"sink.kafka.create.settings has cleanup.policy compact; valid with this topic: object, metadata, change", payload)
	}
}
