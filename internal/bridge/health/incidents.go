// SPDX-License-Identifier: Apache-2.0

package health

import (
	"sync"
	"time"
)

// Event is something that happened, and why; the zero Event is nothing.
type Event struct {
	At  time.Time
	Err error
	// Object is what it happened to, where that is one.
	Object string
}

// Gap is a gap that was announced in the log: what changed between two versions is not known. The zero Gap is none.
type Gap struct {
	At       time.Time
	From, To string
	// Cause and Message are those of the gap's data.
	Cause, Message string
}

// Past is what happened to a stream last since the process started.
type Past struct {
	// Failure is the last time that it could not be read, and Cleared when that was over; zero where it is not.
	Failure Event
	Cleared time.Time
	// Gap is the last one that was announced.
	Gap Gap
	// Rejection is the last event that the broker refused for good, of so many as Rejections.
	Rejection  Event
	Rejections int
}

// StreamIncidents are what happened to a stream. Its methods may be called by several goroutines at a time.
type StreamIncidents struct {
	mu   sync.Mutex
	past Past
}

// Past returns what happened last.
func (s *StreamIncidents) Past() Past {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.past
}

// Failed takes note of why the stream cannot be read, and since when.
func (s *StreamIncidents) Failed(since time.Time, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.past.Failure, s.past.Cleared = Event{At: since, Err: err}, time.Time{}
}

// Recovered takes note that the stream is read. What kept it from that may be of a session before.
func (s *StreamIncidents) Recovered() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.past.Failure.Err != nil && s.past.Cleared.IsZero() {
		s.past.Cleared = time.Now()
	}
}

// Announced takes note of a gap.
func (s *StreamIncidents) Announced(g Gap) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.past.Gap = g
}

// Rejected takes note of why the broker refuses an event of an object for good.
func (s *StreamIncidents) Rejected(object string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.past.Rejections++
	s.past.Rejection = Event{At: time.Now(), Err: err, Object: object}
}

// Incidents are what happened to a pipeline and its streams, in all its sessions. Its methods may be called by several
// goroutines at a time.
type Incidents struct {
	mu           sync.Mutex
	streams      map[string]*StreamIncidents
	loss, writer Event
}

// Stream returns what happened to a stream.
func (i *Incidents) Stream(name string) *StreamIncidents {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.streams == nil {
		i.streams = map[string]*StreamIncidents{}
	}
	if i.streams[name] == nil {
		i.streams[name] = &StreamIncidents{}
	}
	return i.streams[name]
}

// Forget drops what happened to a stream that is not read any more.
func (i *Incidents) Forget(stream string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	delete(i.streams, stream)
}

// LogLost takes note that the log was seen to have lost something.
func (i *Incidents) LogLost(err error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.loss = Event{At: time.Now(), Err: err}
}

// Loss returns the last time that the log was seen to have lost something.
func (i *Incidents) Loss() Event {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.loss
}

// OtherWriter takes note that another process publishes as the pipeline.
func (i *Incidents) OtherWriter(err error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.writer = Event{At: time.Now(), Err: err}
}

// Writer returns the last time that another process was seen to publish as the pipeline.
func (i *Incidents) Writer() Event {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.writer
}
