// SPDX-License-Identifier: Apache-2.0

package storetest

import (
	"bufio"
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
)

const (
	// childPlace is the environment variable that makes a process of the test binary one that commits until it is
	// killed.
	childPlace = "KUBE_EVENTBRIDGE_STORETEST_PLACE"
	committed  = "committed "
	kills      = 6
)

// commitForEver commits numbered batches, from where the store stands, and says so after each.
func commitForEver(t *testing.T, open Opener, place string) {
	store, err := open(place, Identity)
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	state, err := store.Load(t.Context())
	if err != nil {
		t.Fatalf("load: %v", err)
	}
	for n := number(t, state) + 1; ; n++ {
		if err := store.Commit(t.Context(), numbered(n)); err != nil {
			t.Fatalf("commit: %v", err)
		}
		if _, err := fmt.Fprintf(os.Stdout, "%s%d\n", committed, n); err != nil {
			return
		}
	}
}

// number returns the number of the batch that was committed last.
func number(t *testing.T, s *checkpoint.State) int {
	t.Helper()
	if len(s.Streams) == 0 {
		return 0
	}
	n, err := strconv.Atoi(s.Streams["pods.v1"].Position)
	if err != nil {
		t.Fatalf("position: %v", err)
	}
	return n
}

func (s suite) killed(t *testing.T) {
	at, want, applied := place(t), Empty(), 0
	for range kills {
		last := killAfter(t, at, 1+rand.IntN(12), rand.N(10*time.Millisecond))
		store := s.mustOpen(t, at)
		got, err := store.Load(t.Context())
		if err != nil {
			t.Fatalf("load after a kill: %v", err)
		}
		require.NoError(t, store.Close())
		n := number(t, got)
		if n != last && n != last+1 {
			t.Fatalf("the store is at commit %d, and %d was the last that returned", n, last)
		}
		for ; applied < n; applied++ {
			Apply(want, numbered(applied+1))
		}
		if diff := difference(got, want); diff != "" {
			t.Fatalf("the store is not as commit %d left it: %s", n, diff)
		}
	}
}

// killAfter runs a process that commits, kills it a while after it has said so that many times, and returns the
// last commit that it spoke of.
func killAfter(t *testing.T, place string, commits int, while time.Duration) (last int) {
	t.Helper()
	caller := t.Name()[:strings.LastIndex(t.Name(), "/")]
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run="+exactly(caller), "-test.count=1")
	cmd.Env = append(os.Environ(), childPlace+"="+place)
	var problems bytes.Buffer
	cmd.Stderr = &problems
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	require.NoError(t, cmd.Start())
	defer func() { _ = cmd.Wait() }()
	last, seen := -1, 0
	for lines := bufio.NewScanner(out); lines.Scan(); {
		n, ok := strings.CutPrefix(lines.Text(), committed)
		if !ok {
			problems.WriteString(lines.Text() + "\n")
			continue
		}
		if last, err = strconv.Atoi(n); err != nil {
			t.Fatal(err)
		}
		if seen++; seen == commits {
			<-time.After(while)
			if err := cmd.Process.Kill(); err != nil {
				t.Fatalf("kill: %v", err)
			}
		}
	}
	if seen < commits {
		t.Fatalf("the process ended by itself after %d commits: %s", seen, &problems)
	}
	return last
}

// exactly returns the pattern of -test.run that matches the test of that name only.
func exactly(name string) string {
	parts := strings.Split(name, "/")
	for i, part := range parts {
		parts[i] = "^" + regexp.QuoteMeta(part) + "$"
	}
	return strings.Join(parts, "/")
}
