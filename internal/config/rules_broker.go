// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/kube-eventbridge/kube-eventbridge/encode"
	"github.com/kube-eventbridge/kube-eventbridge/internal/config/value"
)

// sink checks where a pipeline publishes, and warns of what that costs.
func (c *checker) sink(path string, p *Pipeline) {
	js, _ := jetStreamOf(p)
	switch s := &p.Sink; {
	case s.NATS != nil:
		path += ".nats"
		checkAccess(c, path, s.NATS.Servers, &s.NATS.NATSAccess)
	case s.Embedded != nil:
		path += ".embedded"
	case s.Kafka != nil:
		checkKafka(c, path+".kafka", s.Kafka)
	}
	if js != nil {
		checkJetStream(c, path, js)
	}
	switch bucket := aBucket.Pattern; {
	case p.Oversize != OversizeStore:
	case js == nil:
		c.Add(strings.TrimSuffix(path, ".sink")+".oversize",
			"\"store\" is for a NATS server, which has a store for objects; valid with this sink: reject, metadata")
	case !bucket.MatchString(js.Stream):
		c.Once(path+".stream", "%q cannot name the bucket that oversize: store needs; use letters, digits, - and _",
			js.Stream)
	}
}

// checkJetStream warns where the server does not keep late events from following newer ones.
func checkJetStream(c *checker, path string, j *JetStream) {
	if t, err := encode.ParseTemplate(encode.Subject, j.Subject); err == nil && t.Literal() != "" && !t.PerObject() {
		c.Warn(path+".subject",
			"objects may share a subject, so the server does not check each object's last event: a late write of a process "+
				"that was thought dead may then follow a newer one, or repeat it; use {group}, {resource}, {namespace} and "+
				"{name}, each in a word of its own between dots")
	}
	switch {
	case j.Fence:
	case c.LeaderElection != nil:
		c.Add(path+".fence",
			"is false, and with leaderElection the server has to refuse what a former leader sends; remove one")
	default:
		c.Warn(path+".fence",
			"is false: an event that is late on its way, or that a replaced process sends, can stand behind a newer one of "+
				"its object, and the same state can be there twice")
	}
}

// checkAccess checks that one client can connect to all servers, and warns of secrets that the network shows.
func checkAccess(c *checker, path string, servers []string, n *NATSAccess) {
	other := func(server string) bool { return !value.Websocket(server) }
	if slices.ContainsFunc(servers, value.Websocket) && slices.ContainsFunc(servers, other) {
		c.Add(path+".servers", "has URLs with ws or wss beside others, and one client speaks one of them; keep either")
	}
	shown := ""
	switch {
	case n.TokenFile+n.TokenEnv != "":
		shown = "the token"
	case n.PasswordFile+n.PasswordEnv != "":
		shown = "the password"
	}
	if i := slices.IndexFunc(servers, value.Readable); i >= 0 && n.TLS == nil && shown != "" {
		c.Warn(fmt.Sprintf("%s.servers[%d]", path, i),
			"shows %s to whoever reads the network, unless the server asks for TLS; "+
				"add tls beside servers, or use nkeyFile or credsFile", shown)
	}
}

// checkKafka checks what a Kafka sink needs beside its keys, and warns of what its topics and credentials cost.
func checkKafka(c *checker, path string, k *Kafka) {
	if k.Create != nil {
		if _, nameless := k.Create.Settings[""]; nameless {
			c.Add(path+".create.settings",
				"has a value without a name; write the name of a topic's setting before it, such as retention.ms")
		}
	}
	if k.compacts() && !k.Tombstones {
		c.Warn(path+".create.settings.cleanup.policy",
			"compaction without tombstones keeps the last event of each deleted object without an end; "+
				"set tombstones: true, or cleanup.policy: delete")
	}
	if k.SASL != nil {
		checkSASL(c, path+".sasl", k.SASL, k.TLS != nil)
	}
}

// compacts reports whether the topics that are created keep the last record of each key only, as far as the file says.
func (k *Kafka) compacts() bool {
	return k != nil && k.Create != nil && strings.Contains(k.Create.Settings["cleanup.policy"], "compact")
}

// checkSASL checks that there are credentials, and warns of those that the network shows.
func checkSASL(c *checker, path string, s *SASL, protected bool) {
	switch s.Mechanism {
	case Plain, ScramSHA256, ScramSHA512:
		if s.User+s.PasswordFile+s.PasswordEnv == "" {
			c.Add(path+".user", "is missing; give it, with passwordFile or passwordEnv")
		}
		if s.Mechanism == Plain && !protected {
			c.Warn(path+".mechanism",
				"plain shows the password to whoever reads the network; add tls beside sasl, or use scram-sha-512")
		}
	case OAuthBearer:
		if s.TokenFile+s.TokenURL+s.ClientID+s.ClientSecretFile+s.ClientSecretEnv == "" && len(s.Scopes) == 0 {
			c.Add(path+".tokenFile",
				"is missing; give it, or tokenURL with clientID and clientSecretFile or clientSecretEnv")
		}
		if !protected {
			c.Warn(path+".mechanism", "oauthbearer shows the token to whoever reads the network; add tls beside sasl")
		}
		if strings.HasPrefix(strings.ToLower(s.TokenURL), "http:") {
			c.Warn(path+".tokenURL", "http shows the client's secret and the token to whoever reads the network; use https")
		}
	}
}

// checkpoint checks that there is a server for the checkpoint, and a topic that holds nothing else.
func (c *checker) checkpoint(path string, p *Pipeline) {
	if k := p.Checkpoint.Kafka; k != nil {
		switch {
		case p.Sink.Kafka == nil:
			c.Add(path+".kafka",
				"is kept by the brokers of sink.kafka, and this pipeline has none; use file, or publish to kafka")
		case c.publishes(p, k.Topic):
			c.Once(path+".kafka.topic", "%q may be a topic of sink.kafka.topic, and one with checkpoints holds nothing else; "+
				"name another topic in either place", k.Topic)
		}
	}
	n := p.Checkpoint.NATS
	if n == nil {
		return
	}
	path += ".nats"
	checkAccess(c, path, n.Servers, &n.NATSAccess)
	switch {
	case len(n.Servers) > 0:
	case p.Sink.Embedded != nil:
		c.Add(path,
			"names no servers, and the embedded one keeps its streams on the disk of this bridge; use file, or add servers")
	case p.Sink.NATS == nil:
		c.Add(path,
			"names no servers, and this pipeline has no sink.nats whose servers could be meant; add servers, or use file")
	case n.NATSAccess != (NATSAccess{}):
		c.Add(path, "has credentials without servers; add servers, or remove the credentials to use those of sink.nats")
	}
}

// sharedStream refuses b, at path, where it may publish a subject that a publishes too, in the same stream.
func (c *checker) sharedStream(path string, a, b *Pipeline) {
	ja, serversA := jetStreamOf(a)
	jb, serversB := jetStreamOf(b)
	sameServer := slices.ContainsFunc(serversA, func(s string) bool { return slices.Contains(serversB, s) })
	if ja == nil || jb == nil || ja.Stream != jb.Stream || !sameServer {
		return
	}
	at := path + ".sink.nats"
	if b.Sink.Embedded != nil {
		at = path + ".sink.embedded"
	}
	limitsA, limitsB := *ja, *jb // of the stream, and not of a pipeline
	limitsA.Subject, limitsB.Subject = "", ""
	if limitsA != limitsB {
		c.Once(at, "gives stream %s other limits than pipeline %q; write the same, or name another stream", jb.Stream, a.Name)
	}
	ta, errA := encode.ParseTemplate(encode.Subject, ja.Subject)
	tb, errB := encode.ParseTemplate(encode.Subject, jb.Subject)
	if errA != nil || errB != nil { // reported where the template stands
		return
	}
	for _, ra := range a.Resources {
		for _, rb := range b.Resources {
			if mayMeet(ta.Pattern(known(a, ra.Resource)), tb.Pattern(known(b, rb.Resource))) {
				c.Once(at+".subject", "%q may give the same subjects in stream %s as pipeline %q does; put {pipeline} into both, "+
					"or name another stream", jb.Subject, jb.Stream, a.Name)
				return
			}
		}
	}
}

// jetStreamOf returns p's stream and how its server is reached; nil where p has none.
func jetStreamOf(p *Pipeline) (*JetStream, []string) {
	switch {
	case p.Sink.NATS != nil:
		return &p.Sink.NATS.JetStream, p.Sink.NATS.Servers
	case p.Sink.Embedded != nil:
		return &p.Sink.Embedded.JetStream, []string{p.Sink.Embedded.Listen, "nats://" + p.Sink.Embedded.Listen}
	default:
		return nil, nil
	}
}

// known returns the values of the placeholders that are known before the API server is asked. Namespaces count as
// unknown: the markers of a resource have one subject whatever the namespace.
func known(p *Pipeline, r value.ResourceName) map[string]string {
	values := map[string]string{"pipeline": p.Name}
	if !r.Wildcard() {
		values["resource"] = r.Plural
	}
	if !r.Unresolved() {
		values["group"] = r.Group
	}
	if r.Version != "" {
		values["version"] = r.Version
	}
	return values
}

// mayMeet reports whether a subject may match both.
func mayMeet(a, b string) bool {
	as, bs := strings.Split(a, "."), strings.Split(b, ".")
	return slices.EqualFunc(as, bs, func(a, b string) bool { return a == "*" || b == "*" || a == b })
}

// sharedTopic refuses what b, at path, publishes of the objects of a into the same topic: a record's key does not tell
// pipelines apart, so that compaction would keep the last of either.
func (c *checker) sharedTopic(path string, a, b *Pipeline) {
	topic := func(p *Pipeline) string { // with what is the same for all topics of p
		return strings.NewReplacer("{pipeline}", p.Name, "{cluster}", c.Cluster).Replace(p.Sink.Kafka.Topic)
	}
	if topic(a) != topic(b) {
		return
	}
	mean, others := meanings(b.Resources), meanings(a.Resources)
	for i := range b.Resources {
		for j := range a.Resources {
			r, o := &b.Resources[i], &a.Resources[j]
			if r.Resource != (value.ResourceName{}) && mean[i].Meets(others[j]) && shareNamespace(r.Namespaces, o.Namespaces) {
				c.Once(fmt.Sprintf("%s.resources[%d].resource", path, i),
					"%v may name the same objects as %v of pipeline %q, which publishes to the same topic; "+
						"give one pipeline another topic, such as %s.{pipeline}, or different namespaces", r.Resource, o.Resource, a.Name,
					b.Sink.Kafka.Topic)
			}
		}
	}
}

// checkpointTopics refuses b, at path, where one of the two may publish to the topic with the other's checkpoint.
func (c *checker) checkpointTopics(path string, a, b *Pipeline) {
	if k := b.Checkpoint.Kafka; k != nil && c.publishes(a, k.Topic) {
		c.Once(path+".checkpoint.kafka.topic",
			"%q may be a topic that pipeline %q publishes to, and one with checkpoints holds nothing else; "+
				"name another topic in either pipeline", k.Topic, a.Name)
	}
	if k := a.Checkpoint.Kafka; k != nil && c.publishes(b, k.Topic) {
		c.Once(path+".sink.kafka.topic",
			"%q may give topic %s, which has the checkpoint of pipeline %q; name another topic in either pipeline",
			b.Sink.Kafka.Topic, k.Topic, a.Name)
	}
}

// publishes reports whether a topic may be one of p's sink, in Kafka, which takes every topic that fits the template
// for its own, whatever resources the pipeline has.
func (c *checker) publishes(p *Pipeline, topic string) bool {
	const unknown, uid = `[A-Za-z0-9._-]+`, `[0-9a-f-]{36}`
	cluster := uid
	if c.Cluster != "" {
		cluster = regexp.QuoteMeta(c.Cluster)
	}
	form := strings.NewReplacer(`\{pipeline\}`, regexp.QuoteMeta(p.Name), `\{cluster\}`, cluster,
		`\{group\}`, unknown, `\{version\}`, unknown, `\{resource\}`, unknown).Replace(regexp.QuoteMeta(p.Sink.Kafka.Topic))
	return regexp.MustCompile("^" + form + "$").MatchString(topic)
}
