// SPDX-License-Identifier: Apache-2.0

package campaign

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/kube-eventbridge/kube-eventbridge/integration/faults/world"
)

// settings are what all results in a file have in common: those of other settings cannot be added to them.
type settings struct {
	Seed     uint64 `json:"seed"`
	PerRound int    `json:"perRound"`
	Only     string `json:"only"`
	Longest  string `json:"longest"`
	// Broker is empty for NATS.
	Broker string `json:"broker,omitempty"`
	// Replicas is -1 where each round draws it.
	Replicas int `json:"replicas,omitempty"`
	// Bridge is a hash of the program.
	Bridge string `json:"bridge"`
	// Clock says that there is one whose clock can be moved.
	Clock bool `json:"clock"`
	// Plan is a hash of the plan, empty where there is none.
	Plan string `json:"plan,omitempty"`
}

func (o Options) settings() (s settings, err error) {
	s = settings{
		Seed: o.Seed, PerRound: o.PerRound, Longest: o.Longest.String(), Clock: o.ClockBinary != "", Replicas: o.Replicas,
		Plan: hashPlan(o.Plan),
	}
	if o.Broker != world.NATS {
		s.Broker = o.Broker
	}
	if o.Only != nil {
		s.Only = o.Only.String()
	}
	if o.Binary != "" {
		s.Bridge, err = hashOf(o.Binary)
	}
	return s, err
}

func hashOf(file string) (_ string, err error) {
	f, err := os.Open(file)
	if err != nil {
		return "", fmt.Errorf("read the bridge: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", fmt.Errorf("read the bridge: %w", err)
	}
	return hex.EncodeToString(h.Sum(nil)[:8]), nil
}

// load reads the results of a campaign that was cut short, and begins the file if there is none. A last line that is
// not whole goes: its campaign was killed while it wrote.
func (c *campaign) load() error {
	want, err := c.options.settings()
	if err != nil {
		return err
	}
	data, err := os.ReadFile(c.file)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	whole := data[:bytes.LastIndexByte(data, '\n')+1]
	if len(whole) < len(data) {
		if err := os.Truncate(c.file, int64(len(whole))); err != nil {
			return fmt.Errorf("cut the last line, which is not whole: %w", err)
		}
	}
	first, lines, found := bytes.Cut(whole, []byte("\n"))
	if !found {
		return save(c.file, want)
	}
	if err := c.check(first, want); err != nil {
		return err
	}
	return c.read(lines)
}

// check compares what the file's campaign was with what this one is.
func (c *campaign) check(first []byte, want settings) error {
	var is settings
	from := json.NewDecoder(bytes.NewReader(first))
	from.DisallowUnknownFields()
	if err := from.Decode(&is); err != nil || is != want {
		now, _ := json.Marshal(want) // it has no value that JSON has not
		return fmt.Errorf("%s has results of a campaign with other settings, %s, and these are %s: use another directory "+
			"or seed, or move the file away",
			c.file, first, now)
	}
	return nil
}

func (c *campaign) read(lines []byte) error {
	for line := range bytes.Lines(lines) {
		var r Result
		if err := json.Unmarshal(line, &r); err != nil {
			return fmt.Errorf("read %s: %w", c.file, err)
		}
		c.results = append(c.results, r)
		c.played[r.Round] = true
		if r.Round >= len(c.options.Plan) {
			c.faults += r.Wanted
		}
	}
	return nil
}

// save adds a line.
func save(file string, what any) (err error) {
	line, err := json.Marshal(what)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	_, err = f.Write(append(line, '\n'))
	return err
}
