// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"time"
)

// screen is what the person in front of it sees. Its methods may be called concurrently; lines stay whole.
type screen struct {
	mu     sync.Mutex
	out    *os.File
	colour bool
	act    int
}

func newScreen(out *os.File) *screen {
	info, err := out.Stat()
	terminal := err == nil && info.Mode()&os.ModeCharDevice != 0
	return &screen{out: out, colour: terminal && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"}
}

func (s *screen) say(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, _ = fmt.Fprintf(s.out, format+"\n", args...)
}

// heading begins the next act.
func (s *screen) heading(text string) {
	s.act++
	s.say("\n%s", s.bold(fmt.Sprintf("%d. %s", s.act, text)))
}

// doing says what the demo does to the cluster.
func (s *screen) doing(format string, args ...any) {
	s.say("  %s %s", s.bold("»"), s.bold(fmt.Sprintf(format, args...)))
}

// Write shows lines of progress, indented.
func (s *screen) Write(b []byte) (int, error) {
	for line := range strings.Lines(string(b)) {
		s.say("  %s", strings.TrimRight(line, "\n"))
	}
	return len(b), nil
}

// slowly does something that takes a while, and says every 15 seconds that it is not stuck.
func (s *screen) slowly(what string, do func() error) error {
	began := time.Now()
	ended := make(chan error, 1)
	go func() { ended <- do() }()
	tick := time.NewTicker(15 * time.Second)
	defer tick.Stop()
	for {
		select {
		case err := <-ended:
			return err
		case <-tick.C:
			s.say("  %s: %s …", what, time.Since(began).Round(time.Second))
		}
	}
}

func (s *screen) bold(text string) string  { return s.paint("1", text) }
func (s *screen) green(text string) string { return s.paint("32", text) }
func (s *screen) red(text string) string   { return s.paint("31", text) }
func (s *screen) dim(text string) string   { return s.paint("2", text) }

// operation colours the word that says what happened in a line of tail, which sees no terminal.
func (s *screen) operation(line string) string {
	for word, code := range map[string]string{
		"added": "32", "updated": "33", "deleted": "31", "snapshot": "36",
		"gap": "35",
	} {
		if before, after, ok := strings.Cut(line, "  "+word+"  "); ok && !strings.Contains(strings.TrimSpace(before), " ") {
			return before + "  " + s.paint(code, word) + "  " + after
		}
	}
	return line
}

func (s *screen) paint(code, text string) string {
	if !s.colour {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}
