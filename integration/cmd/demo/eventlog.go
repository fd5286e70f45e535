// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/kube-eventbridge/kube-eventbridge/integration/internal/rig"
)

// event is one message of the log, as everybody else can read it too.
type event struct {
	id, kind, source, sequence string
	tells                      string    // see state and end
	subject                    string    // of the message: one for each object
	stored                     time.Time // when the broker had it
	raw                        []byte    // headers and data
}

// state names a state of an object, as an event tells it, and end its deletion.
func state(uid, version string) string { return uid + " at " + version }
func end(uid string) string            { return uid + " deleted" }

// eventLog is the JetStream stream, read from its first message to its last, over and over from where it got to.
type eventLog struct {
	conn   *nats.Conn
	log    rig.Log
	events []event
	told   map[string]int // how often something was told
	times  map[string]int // how often an event is there, by source and id: an id is unique within its source
}

// openLog connects to a broker, also one that is not there yet, and again whenever it was away.
func openLog(server string) (*eventLog, error) {
	conn, err := nats.Connect(server, nats.RetryOnFailedConnect(true), nats.MaxReconnects(-1),
		nats.ReconnectWait(100*time.Millisecond))
	if err != nil {
		return nil, fmt.Errorf("connect to the log: %w", err)
	}
	js, err := jetstream.New(conn)
	if err != nil {
		conn.Close()
		return nil, fmt.Errorf("connect to the log: %w", err)
	}
	return &eventLog{conn: conn, log: rig.NATSLog(js, "KUBERNETES"), told: map[string]int{}, times: map[string]int{}}, nil
}

func (l *eventLog) close() {
	if l != nil {
		l.conn.Close()
	}
}

// update reads what is new.
func (l *eventLog) update(ctx context.Context) error {
	if !l.conn.IsConnected() {
		return errors.New("the broker is away")
	}
	messages, err := l.log.Read(ctx)
	for i := len(l.events); i < len(messages); i++ {
		l.add(&messages[i])
	}
	return err
}

func (l *eventLog) add(m *rig.Message) {
	var raw bytes.Buffer
	for name, values := range m.Header {
		fmt.Fprintln(&raw, name, values)
	}
	raw.Write(m.Data)
	header := nats.Header(m.Header)
	e := event{
		id: header.Get("ce-id"), kind: strings.TrimPrefix(header.Get("ce-type"), "io.kube-eventbridge."),
		source: header.Get("ce-source"), sequence: header.Get("ce-sequence"),
		tells:   state(header.Get("ce-objectuid"), header.Get("ce-resourceversion")),
		subject: m.Subject, stored: m.Time, raw: raw.Bytes(),
	}
	if e.kind == "resource.deleted.v1" {
		e.tells = end(header.Get("ce-objectuid"))
	}
	l.events = append(l.events, e)
	l.told[e.tells]++
	l.times[e.source+" "+e.id]++
}

// repeated returns what the log has more than once.
func (l *eventLog) repeated() []string {
	var ids []string
	for id, n := range l.times {
		if n > 1 {
			ids = append(ids, id)
		}
	}
	return ids
}

// has says whether the log tells all this.
func (l *eventLog) has(tells ...string) bool {
	return !slices.ContainsFunc(tells, func(t string) bool { return l.told[t] == 0 })
}

// count returns how many events are of a kind, for a resource, given by the end of its source.
func (l *eventLog) count(kind, resource string) int {
	n := 0
	for _, e := range l.events {
		if e.kind == kind && strings.HasSuffix(e.source, resource) {
			n++
		}
	}
	return n
}
