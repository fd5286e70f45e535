// SPDX-License-Identifier: Apache-2.0

package natslog

import (
	"fmt"
	"strings"

	"github.com/kube-eventbridge/kube-eventbridge/internal/natsclient"
)

// CheckServer says what is wrong with the address of a NATS server; one without a scheme is as with nats. The error
// holds no secret.
func CheckServer(address string) error {
	u, err := natsclient.ParseServer(address)
	if err != nil || u.Hostname() == "" {
		return fmt.Errorf("%q is not the URL of a NATS server; write nats://host:4222, or tls, ws or wss for nats",
			natsclient.Redact(address))
	}
	switch u.Scheme {
	case "nats", "tls", "ws", "wss":
		return nil
	default:
		return fmt.Errorf("%q has the scheme %q; use nats, tls, ws or wss", natsclient.Redact(address), u.Scheme)
	}
}

// CheckSubject says why no subject of an event can match pattern.
func CheckSubject(pattern string) error {
	words := strings.Split(pattern, ".")
	for i, w := range words {
		switch {
		case w == "":
			return fmt.Errorf("%q is not a subject: a word between its dots is empty", pattern)
		case strings.ContainsAny(w, " \t\r\n"):
			return fmt.Errorf("%q is not a subject: it has a space in it", pattern)
		case w == ">" && i != len(words)-1:
			return fmt.Errorf("%q is not a subject: > stands for all that follows, so it comes last", pattern)
		case len(w) > 1 && strings.ContainsAny(w, "*>"):
			return fmt.Errorf("%q matches no subject: * and > stand for whole words, as in k8s.*.apps.>", pattern)
		}
	}
	return nil
}
