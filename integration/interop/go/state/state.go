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
)

// State is in a file. A real consumer keeps it in its database, and changes it together with what it makes of events.
// One goroutine at a time uses it.
type State struct {
	Next    map[string]int64  `json:"next"`    // by partition, the place of the first message that was not handled
	Logs    map[string]string `json:"logs"`    // by partition, what tells the log from another one of its name
	Objects map[string]told   `json:"objects"` // by pipeline and partitionkey
	Resyncs map[string]int64  `json:"resyncs"` // by partition, scope and number, the place of the first marker
	file    string
}

// told is what was told last of an object.
type told struct {
	Sequence  string `json:"sequence"`
	Partition string `json:"partition"`
	Place     int64  `json:"place"`
}

// Load reads a file. A missing one is an empty state.
func Load(file string) (*State, error) {
	s := &State{map[string]int64{}, map[string]string{}, map[string]told{}, map[string]int64{}, file}
	text, err := os.ReadFile(file)
	if errors.Is(err, os.ErrNotExist) {
		return s, nil
	}
	return s, errors.Join(err, json.Unmarshal(text, s))
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
	s.Next[partition], s.Logs[partition] = max(place, first), name
	return max(place, first)
}

// Handle returns whether an event applies, and the keys of the objects that a resync shows to be gone.
func (s *State) Handle(e event.Event, partition string, place int64) (applies bool, gone []string, err error) {
	if place < s.Next[partition] {
		return false, nil, nil // the client has read it again
	}
	s.Next[partition] = place + 1
	if e.Type() == started || e.Type() == completed {
		gone, err = s.resync(e, partition, place)
		return true, gone, err
	}
	sequence, ok := e.Extensions()["sequence"].(string)
	if !ok {
		return true, nil, nil // another marker; from Kafka it comes once from every partition
	}
	key := fmt.Sprint(e.Extensions()["pipeline"], " ", e.Extensions()["partitionkey"])
	remembered := s.Objects[key].Sequence
	applies = sequence > remembered // the one rule
	if applies && strings.HasSuffix(sequence, ".1") {
		delete(s.Objects, key) // an end: nothing that was published before it is read again
	} else {
		s.Objects[key] = told{max(sequence, remembered), partition, place}
	}
	return applies, nil, nil
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
		if strings.HasPrefix(key, prefix) && t.Partition == partition && t.Place < begun {
			delete(s.Objects, key)
			gone = append(gone, strings.TrimPrefix(key, pipeline+" "))
		}
	}
	return gone, nil
}
