// SPDX-License-Identifier: Apache-2.0

package config

import (
	"slices"
	"strings"

	"github.com/kube-eventbridge/kube-eventbridge/encode"
)

// subject checks the template of a NATS subject, and warns where the encoder cannot tell that each object has one of
// its own.
func (v *validator) subject(path, template string) {
	t, err := encode.ParseTemplate(encode.Subject, template)
	switch {
	case err != nil:
		v.add(path, "%v", err)
	case t.Literal() == "":
		v.add(path,
			"%q has no whole word before its first placeholder, and the stream is created for everything below those words; "+
				"begin as in %s", template, encode.DefaultSubject)
	case !t.PerObject():
		v.warn(path,
			"objects may share a subject, so the server does not check each object's last event: a late write of a process "+
				"that was thought dead may then follow a newer one, or repeat it; use {group}, {resource}, {namespace} and "+
				"{name}, each in a word of its own between dots")
	}
}

// streams refuses b, at path, where it may publish a subject that a publishes too, in the same stream.
func (v *validator) streams(path string, a, b *Pipeline) {
	ja, serversA := jetStreamOf(a)
	jb, serversB := jetStreamOf(b)
	sameServer := slices.ContainsFunc(serversA, func(s string) bool { return slices.Contains(serversB, s) })
	if ja == nil || jb == nil || ja.Stream != jb.Stream || !sameServer {
		return
	}
	key := path + ".sink.nats.subject"
	if b.Sink.Embedded != nil {
		key = path + ".sink.embedded.subject"
	}
	if ja.limits() != jb.limits() {
		v.once(strings.TrimSuffix(key, ".subject"),
			"gives stream %s other limits than pipeline %q; write the same, or name another stream", jb.Stream, a.Name)
	}
	ta, errA := encode.ParseTemplate(encode.Subject, ja.Subject)
	tb, errB := encode.ParseTemplate(encode.Subject, jb.Subject)
	if errA != nil || errB != nil { // reported where the template stands
		return
	}
	for _, ra := range a.Resources {
		for _, rb := range b.Resources {
			if mayMeet(ta.Pattern(known(a, ra.Resource)), tb.Pattern(known(b, rb.Resource))) {
				v.once(key,
					"%q may give the same subjects in stream %s as pipeline %q does; put {pipeline} into both, or name another stream",
					jb.Subject, jb.Stream, a.Name)
				return
			}
		}
	}
}

// limits returns what is a property of the stream and not of a pipeline.
func (j *JetStream) limits() JetStream {
	l := *j
	l.Subject = ""
	return l
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
func known(p *Pipeline, r ResourceName) map[string]string {
	values := map[string]string{"pipeline": p.Name}
	if !r.Wildcard() {
		values["resource"] = r.Plural
	}
	if !r.unresolved() {
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
	if len(as) != len(bs) {
		return false
	}
	for i := range as {
		if as[i] != "*" && bs[i] != "*" && as[i] != bs[i] {
			return false
		}
	}
	return true
}
