// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// event is one message of the log, as everybody else can read it too.
type event struct {
	id, kind, source, version string
	subject                   string    // of the message: one for each object
	stored                    time.Time // when the broker had it
	raw                       []byte    // headers and data
}

// eventLog is the JetStream stream, read from its first message to its last, over and over from where it got to.
type eventLog struct {
	conn   *nats.Conn
	js     jetstream.JetStream
	events []event
	byID   map[string]int // how often
	times  map[string]int // the same by source and id: an id is unique within its source
	next   uint64
}

// openLog connects to a broker, also one that is not there yet, and again whenever it was away.
func openLog(server string) (*eventLog, error) {
	conn, err := nats.Connect(server, nats.RetryOnFailedConnect(true), nats.MaxReconnects(-1), nats.ReconnectWait(100*time.Millisecond))
	if err != nil {
		return nil, fmt.Errorf("connect to the log: %w", err)
	}
	js, err := jetstream.New(conn)
	if err != nil {
		conn.Close()
		return nil, fmt.Errorf("connect to the log: %w", err)
	}
	return &eventLog{conn: conn, js: js, byID: map[string]int{}, times: map[string]int{}, next: 1}, nil
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
	stream, err := l.js.Stream(ctx, "KUBERNETES")
	if err != nil {
		return fmt.Errorf("open the log: %w", err)
	}
	for last := stream.CachedInfo().State.LastSeq; l.next <= last; l.next++ {
		m, err := stream.GetMsg(ctx, l.next)
		if err != nil {
			return fmt.Errorf("read message %d of the log: %w", l.next, err)
		}
		l.add(m)
	}
	return nil
}

func (l *eventLog) add(m *jetstream.RawStreamMsg) {
	var raw bytes.Buffer
	for name, values := range m.Header {
		fmt.Fprintln(&raw, name, values)
	}
	raw.Write(m.Data)
	e := event{
		id: m.Header.Get("ce-id"), kind: strings.TrimPrefix(m.Header.Get("ce-type"), "io.kube-eventbridge."), source: m.Header.Get("ce-source"),
		version: m.Header.Get("ce-resourceversion"), subject: m.Subject, stored: m.Time, raw: raw.Bytes(),
	}
	l.events = append(l.events, e)
	l.byID[e.id]++
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

// has says whether the log has all these events.
func (l *eventLog) has(ids ...string) bool {
	for _, id := range ids {
		if l.byID[id] == 0 {
			return false
		}
	}
	return true
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
