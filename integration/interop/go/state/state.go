// SPDX-License-Identifier: Apache-2.0

// Package state keeps what a consumer has to know: where it is in the log, and of each object the sequence of the event
// that it applied last.
package state

import (
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"os"
	"strings"

	"github.com/cloudevents/sdk-go/v2/event"
)

const (
	started   = "io.kube-eventbridge.stream.resync-started.v1"
	completed = "io.kube-eventbridge.stream.resync-completed.v1"
	rejected  = "io.kube-eventbridge.resource.rejected.v1"
)

// State is in a file. A real consumer keeps it in its database, and changes it together with what it makes of events.
// One goroutine at a time uses it.
type State struct {
	Next    map[string]int64  `json:"next"`    // by partition, the place of the first message that was not handled
	Logs    map[string]string `json:"logs"`    // by partition, what tells the log from another one of its name
	Objects map[string]told   `json:"objects"` // by pipeline and partitionkey
	Resyncs map[string]int64  `json:"resyncs"` // by partition, scope and number, the place of the first marker
	file    string
	ends    map[string]int64    // by partition, where it ended when it was last begun
	deleted map[string]struct{} // the keys of objects that have ended
}

// told is what was told last of an object.
type told struct {
	Sequence  string `json:"sequence"`
	Partition string `json:"partition"`
	Place     int64  `json:"place"`
	Unknown   bool   `json:"unknown"` // the broker refused the state
}

func (t told) deleted() bool { return strings.HasSuffix(t.Sequence, ".1") }

// Load reads a file. A missing one is an empty state.
func Load(file string) (*State, error) {
	s := &State{
		Next: map[string]int64{}, Logs: map[string]string{}, Objects: map[string]told{}, Resyncs: map[string]int64{},
		file: file, ends: map[string]int64{}, deleted: map[string]struct{}{},
	}
	text, err := os.ReadFile(file)
	if errors.Is(err, os.ErrNotExist) {
		return s, nil
	}
	err = errors.Join(err, json.Unmarshal(text, s))
	for key, t := range s.Objects {
		if t.deleted() {
			s.deleted[key] = struct{}{}
		}
	}
	return s, err
}

// Save replaces the file as a whole, so that a crash leaves the old one or the new one.
func (s *State) Save() error {
	text, err := json.Marshal(s)
	if err != nil {
		return err
	}
	f, err := os.Create(s.file + ".new")
	if err != nil {
		return err
	}
	if _, err := f.Write(text); err != nil {
		return err
	}
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(s.file+".new", s.file)
}

// Resume returns where to read on in a log that has the places from first to before end. The name tells the log from
// another one; it is empty on Kafka.
func (s *State) Resume(partition string, first, end int64, name string) int64 {
	place, known := s.Next[partition]
	if known && (place > end || s.Logs[partition] != name) {
		log.Print("the log was made again or put back: it is read from its beginning")
		for key, t := range s.Objects {
			if t.Partition == partition {
				t.Place = -1
				s.Objects[key] = t
			}
		}
		known, s.Resyncs = false, map[string]int64{}
	}
	if !known {
		place = 0
		if name != "" {
			place = min(first, 1) // NATS counts from 1
		}
	}
	if place < first {
		log.Printf("partition %s: the log begins at %d, and %d was to be read next. Deletions may be missing, and objects. "+
			"Publish all again, with: kube-eventbridge resync", partition, first, place)
	}
	s.Next[partition], s.Logs[partition], s.ends[partition] = max(place, first), name, end
	return max(place, first)
}

// Passes takes note of a message, and returns whether it was not handled before: clients may read one again.
func (s *State) Passes(partition string, place int64) bool {
	if place < s.Next[partition] {
		return false
	}
	s.Next[partition] = place + 1
	return true
}

// Handle returns whether an event applies, and the keys of the objects that a resync shows to be gone.
func (s *State) Handle(e event.Event, partition string, place int64) (applies bool, gone []string, err error) {
	if !s.Passes(partition, place) {
		return false, nil, nil
	}
	if e.Type() == started || e.Type() == completed {
		gone, err = s.resync(e, partition, place)
		return true, gone, err
	}
	sequence, ok := e.Extensions()["sequence"].(string)
	if !ok {
		return true, nil, nil // another marker; from Kafka it comes once from every partition
	}
	key := fmt.Sprint(e.Extensions()["pipeline"], " ", e.Extensions()["partitionkey"])
	t := s.Objects[key]
	applies = sequence > t.Sequence || t.Unknown && whole(e) && sequence == t.Sequence // the one rule
	if applies {
		t.Sequence, t.Unknown = sequence, e.Type() == rejected
	}
	t.Partition, t.Place = partition, place
	s.Objects[key] = t
	if t.deleted() {
		s.deleted[key] = struct{}{}
	}
	s.forget()
	return applies, nil, nil
}

// whole reports whether an event has all that is published of the object.
func whole(e event.Event) bool {
	payload, _ := e.Extensions()["payload"].(string)
	_, reduced := e.Extensions()["datasize"]
	return !reduced && (payload == "object" || payload == "metadata" || payload == "change")
}

// forget forgets deleted objects when each partition has been read up to where it ended when it was begun. Before that
// another one may have older events of them: a topic that gets more partitions spreads its keys again.
func (s *State) forget() {
	for partition, end := range s.ends {
		if s.Next[partition] < end {
			return
		}
	}
	for key := range s.deleted {
		if s.Objects[key].deleted() {
			delete(s.Objects, key)
		}
	}
	clear(s.deleted)
}

// resync returns, at the second marker of a complete resync, what nothing has told of since the first one.
func (s *State) resync(e event.Event, partition string, place int64) (gone []string, err error) {
	var data struct {
		Namespace, LabelSelector, FieldSelector string
		N                                       json.Number
		Complete                                bool
	}
	if err := e.DataAs(&data); err != nil {
		return nil, err
	}
	pipeline, marker := fmt.Sprint(e.Extensions()["pipeline"]), fmt.Sprint(e.Extensions()["partitionkey"])
	resync := fmt.Sprintf("%q", []string{
		partition, pipeline, marker, data.Namespace, data.LabelSelector, data.FieldSelector, data.N.String(),
	})
	if e.Type() == started {
		s.Resyncs[resync] = place
		return nil, nil
	}
	begun, open := s.Resyncs[resync]
	delete(s.Resyncs, resync)
	if !open || !data.Complete {
		return nil, nil
	}
	// A marker's key ends in _/_resync, where that of an object has its namespace and name.
	prefix := pipeline + " " + strings.TrimSuffix(marker, "_/_resync")
	if data.Namespace != "" {
		prefix += data.Namespace + "/"
	}
	for key, t := range s.Objects {
		if strings.HasPrefix(key, prefix) && t.Partition == partition && t.Place < begun && !t.deleted() {
			delete(s.Objects, key)
			gone = append(gone, strings.TrimPrefix(key, pipeline+" "))
		}
	}
	return gone, nil
}
