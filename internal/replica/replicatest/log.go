// SPDX-License-Identifier: Apache-2.0

// Package replicatest has a log in memory for tests of replicas: a test writes each event by hand. So it is with the
// API server of a target, for faults.
package replicatest

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/kube-eventbridge/kube-eventbridge/encode"
	"github.com/kube-eventbridge/kube-eventbridge/internal/event"
	"github.com/kube-eventbridge/kube-eventbridge/internal/sequence"
	"github.com/kube-eventbridge/kube-eventbridge/sink"
)

// Event is one to be written. Its zero members have values that fit.
type Event struct {
	Op event.Op
	// Namespace and Name are those of a ConfigMap; both are empty for a marker.
	Namespace, Name, UID string
	sequence.Sequence
	// Value is what the ConfigMap says. Data is the event's data in place of it.
	Value, Data string
	// At is when it was recorded.
	At time.Time
	// Lane is the partition; a marker is written to one.
	Lane uint16
	// More are attributes in place of others.
	More map[string]string
}

// Log is a log of ConfigMaps of cluster east and pipeline audit. It is safe for concurrent use.
type Log struct {
	// Lanes is how many partitions it has; 0 is one.
	Lanes int

	mu      sync.Mutex
	all     []event.Message
	gone    map[uint64]bool
	changed chan struct{}
	// replaced counts how often another log has taken its place.
	replaced int
	marks    event.Marks
}

// Append writes events, and returns the position of the last one.
func (l *Log) Append(events ...Event) (position uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range events {
		position = uint64(len(l.all)) + 1
		m := events[i].message(position)
		m.Lanes = max(l.Lanes, 1)
		l.all = append(l.all, m)
	}
	l.wake()
	return position
}

// Remove makes the log forget messages; positions stay.
func (l *Log) Remove(positions ...uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, p := range positions {
		l.gone = maps.Clone(l.gone)
		if l.gone == nil {
			l.gone = make(map[uint64]bool)
		}
		l.gone[p] = true
	}
}

// Replace puts another log with these events into its place.
func (l *Log) Replace(events ...Event) {
	l.mu.Lock()
	l.all, l.gone = nil, nil
	l.replaced++
	l.mu.Unlock()
	l.Append(events...)
}

// Marks returns what was acknowledged.
func (l *Log) Marks() event.Marks {
	l.mu.Lock()
	defer l.mu.Unlock()
	return maps.Clone(l.marks)
}

// Message returns a message as Read gives it.
func (l *Log) Message(position uint64) event.Message {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all[position-1]
}

func (l *Log) wake() {
	if l.changed != nil {
		close(l.changed)
	}
	l.changed = make(chan struct{})
}

// Read implements [event.Log].
func (l *Log) Read(ctx context.Context, r event.Reading) error {
	next, told := 0, false
	_, _, _, known := l.at(0)
	for {
		m, ok, changed, replaced := l.at(next)
		switch {
		case replaced != known:
			known, next, told = replaced, 0, false
			r.Replaced()
			continue
		case ok:
			if next++; m == nil {
				continue
			}
			if err := r.Each(ctx, *m); err != nil {
				return err
			}
			continue
		case !told:
			told = true
			r.CaughtUp()
			continue
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// at returns the message with an index, nil if it was removed, and what is closed when there are more.
func (l *Log) at(i int) (m *event.Message, ok bool, changed <-chan struct{}, replaced int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.changed == nil {
		l.changed = make(chan struct{})
	}
	if i >= len(l.all) {
		return nil, false, l.changed, l.replaced
	}
	if copied := l.all[i]; !l.gone[copied.Position] {
		m = &copied
	}
	return m, true, l.changed, l.replaced
}

// Before implements [event.Log].
func (l *Log) Before(_ context.Context, m *event.Message) *event.Message {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := int(m.Position) - 2; i >= 0; i-- { //nolint:gosec // few exist
		if found := l.all[i]; found.Subject == m.Subject && !l.gone[found.Position] {
			return &found
		}
	}
	return nil
}

// At implements [event.Bodies].
func (l *Log) At(ctx context.Context, position uint64) (*event.Message, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if position > uint64(len(l.all)) || l.gone[position] {
		return nil, ctx.Err()
	}
	m := l.all[position-1]
	return &m, ctx.Err()
}

// Acknowledge implements [event.Progress].
func (l *Log) Acknowledge(ctx context.Context, upTo event.Marks) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.marks = maps.Clone(upTo)
	return ctx.Err()
}

// Behind implements [event.Progress].
func (l *Log) Behind(context.Context, event.Marks) (uint64, error) { return 0, nil }

// Close does nothing: the log may be read again.
func (l *Log) Close() {}

func (e *Event) message(position uint64) event.Message {
	m := event.Message{Subject: e.subject(), Position: position, Lane: e.Lane}
	m.Stored = sink.Stored{Sequence: position, Subject: m.Subject, Data: []byte(e.data())}
	for name, value := range e.attributes() {
		m.Attributes = append(m.Attributes, sink.Attribute{Name: name, Value: value})
	}
	return m
}

func (e *Event) subject() string {
	if e.Name == "" {
		return "k8s.east.core.configmaps._._" + string(e.Op)
	}
	return "k8s.east.core.configmaps." + e.Namespace + "." + e.Name
}

func (e *Event) attributes() map[string]string {
	at := e.At
	if at.IsZero() {
		at = time.Now()
	}
	text := at.UTC().Format(time.RFC3339Nano)
	all := map[string]string{
		"specversion": "1.0", "type": typeOf(e.Op), "source": "/clusters/east/api/v1/configmaps", "time": text,
		"recordedtime": text, "datacontenttype": "application/json", "pipeline": "audit", "clustername": "east",
		"apiversion": "v1", "kind": "ConfigMap", "resource": "configmaps", "payload": "marker",
		"id": fmt.Sprintf("%s.%s.%s", e.Op, e.UID, e.Sequence),
	}
	if e.Name != "" {
		maps.Copy(all, map[string]string{
			"payload": "object", "namespace": e.Namespace, "name": e.Name, "objectuid": e.UID,
			"subject": e.Namespace + "/" + e.Name, "sequence": e.String(), "resourceversion": fmt.Sprint(e.Version),
		})
	}
	maps.Copy(all, e.More)
	return all
}

func (e *Event) data() string {
	if e.Data != "" {
		return e.Data
	}
	object, _ := json.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "data": map[string]string{"value": e.Value},
		"metadata": map[string]any{
			"name": e.Name, "namespace": e.Namespace, "uid": e.UID, "resourceVersion": fmt.Sprint(e.Version),
		},
	})
	return string(object)
}

func typeOf(op event.Op) string {
	return map[event.Op]string{
		event.Added: encode.TypeAdded, event.Updated: encode.TypeUpdated, event.Deleted: encode.TypeDeleted,
		event.Rejected: encode.TypeRejected, event.Gap: encode.TypeGap, event.ResyncStarted: encode.TypeResyncStarted,
		event.ResyncCompleted: encode.TypeResyncCompleted,
	}[op]
}
