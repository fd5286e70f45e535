// SPDX-License-Identifier: Apache-2.0

package config

import "regexp"

var bucketPattern = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)

func (v *validator) oversize(path string, p *Pipeline) {
	oneOf(v, path+".oversize", p.Oversize)
	if p.Oversize != OversizeStore {
		return
	}
	at, stream := "", (*JetStream)(nil)
	switch s := p.Sink; {
	case s.NATS != nil:
		at, stream = ".sink.nats.stream", &s.NATS.JetStream
	case s.Embedded != nil:
		at, stream = ".sink.embedded.stream", &s.Embedded.JetStream
	default:
		v.add(path+".oversize",
			"\"store\" is for a NATS server, which has a store for objects; valid with this sink: reject, metadata")
		return
	}
	if streamPattern.MatchString(stream.Stream) && !bucketPattern.MatchString(stream.Stream) {
		v.add(path+at, "%q cannot name the bucket that oversize: store needs; use letters, digits, - and _", stream.Stream)
	}
}
