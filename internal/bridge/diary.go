// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"sync"
	"time"

	"github.com/kube-eventbridge/kube-eventbridge/source"
)

// Event is something that happened, and why; the zero Event is nothing.
type Event struct {
	At  time.Time
	Err error
	// Object is what it happened to, where that is one.
	Object string
}

// Past is what happened to a stream last since the process started.
type Past struct {
	// Failure is the last time that it could not be read, and Cleared when that was over; zero where it is not.
	Failure Event
	Cleared time.Time
	// Gap is the last one that was announced.
	Gap GapEvent
	// Rejection is the last event that the broker refused for good, of so many as Rejections.
	Rejection  Event
	Rejections int
}

// GapEvent is a gap that was announced in the log: what changed between two versions is not known. The zero GapEvent is none.
type GapEvent struct {
	At       time.Time
	From, To string
	Why      source.Why
}

// diary is a stream's Past, for who writes it and who asks.
type diary struct {
	mu sync.Mutex
	Past
}

func (p *diary) now() Past {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.Past
}

// failed takes note of why the stream cannot be read, since when.
func (p *diary) failed(err error, since time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.Failure, p.Cleared = Event{At: since, Err: err}, time.Time{}
}

// recovered takes note that the stream is read. What kept it from that may be of a session before.
func (p *diary) recovered() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.Failure.Err != nil && p.Cleared.IsZero() {
		p.Cleared = time.Now()
	}
}

func (p *diary) gap(m source.Marker) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.Gap = GapEvent{At: time.Now(), From: m.From, To: m.To, Why: m.Why}
}

func (p *diary) rejected(object string, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.Rejections++
	p.Rejection = Event{At: time.Now(), Err: err, Object: object}
}

// diaries are those of a pipeline's streams, which outlive its sessions.
type diaries struct {
	mu       sync.Mutex
	ofStream map[string]*diary
	lost     Event
	writer   Event
}

// of returns the past of a stream.
func (p *diaries) of(stream string) *diary {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ofStream == nil {
		p.ofStream = map[string]*diary{}
	}
	if p.ofStream[stream] == nil {
		p.ofStream[stream] = &diary{}
	}
	return p.ofStream[stream]
}

// forget drops what is known of a stream that is not read any more.
func (p *diaries) forget(stream string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.ofStream, stream)
}

// lose takes note that the log was seen to have lost something.
func (p *diaries) lose(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lost = Event{At: time.Now(), Err: err}
}

func (p *diaries) loss() Event {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.lost
}

// meet takes note that another process publishes as the pipeline.
func (p *diaries) meet(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.writer = Event{At: time.Now(), Err: err}
}

func (p *diaries) met() Event {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.writer
}
