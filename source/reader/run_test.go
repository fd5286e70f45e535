// SPDX-License-Identifier: Apache-2.0

package reader

import (
	"context"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"go.uber.org/goleak"

	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
	"github.com/kube-eventbridge/kube-eventbridge/source"
	"github.com/kube-eventbridge/kube-eventbridge/source/kube"
	"github.com/kube-eventbridge/kube-eventbridge/source/kube/kubetest"
)

// TestMain runs one goroutine at a time. With more, two threads of a bubble can run timers at once, which the race
// detector does not survive (golang.org/issue/78156). It finds races by what happens before what, also of one thread.
func TestMain(m *testing.M) {
	runtime.GOMAXPROCS(1)
	goleak.VerifyTestMain(m)
}

// clientOf returns a client of a scripted server.
func clientOf(t *testing.T, s *kubetest.Script) *kube.Client {
	t.Helper()
	client := must.Get(kube.NewClient(s.Config()))(t)
	t.Cleanup(client.CloseIdleConnections)
	return client
}

// runUntil runs a reader until done says so, an hour has passed, or it ends by itself.
func runUntil(t *testing.T, s *kubetest.Script, r *recorder, done func() bool) ([]string, error) {
	t.Helper()
	return runReader(t, Reader{Client: clientOf(t, s), Stream: kubetest.ConfigMaps}, r, done)
}

// runReader is runUntil, of a reader that knows everything but its far side.
func runReader(t *testing.T, reader Reader, r *recorder, done func() bool) ([]string, error) {
	t.Helper()
	reader.Feed, reader.History, reader.Observer = r, r, r
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	var running sync.WaitGroup
	var ended error
	running.Go(func() {
		ended = reader.Run(ctx)
		r.mu.Lock()
		r.over = true
		r.mu.Unlock()
		cancel()
	})
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !done() && ctx.Err() == nil {
		<-tick.C
	}
	cancel()
	running.Wait()
	synctest.Wait()
	return r.seen(), ended
}

// lines is when the far side has seen n lines.
func lines(r *recorder, n int) func() bool {
	return func() bool { return len(r.seen()) >= n }
}

// minutes is when n of them have passed.
func minutes(n int) func() bool {
	over := time.Now().Add(time.Duration(n) * time.Minute)
	return func() bool { return time.Now().After(over) }
}

func check(t *testing.T, got []string, want ...string) {
	t.Helper()
	assert.Equal(t, strings.Join(want, "\n"), strings.Join(got, "\n"), "the far side saw")
}

// runAt is runReader, at a cluster.
func runAt(c *kubetest.Cluster, r *recorder, bounds Recovery, done func() bool) ([]string, error) {
	return runReader(c.T, Reader{Client: clientOf(c.T, c.Script), Stream: kubetest.ConfigMaps, Recovery: bounds}, r, done)
}

func known(name, uid string, rev int) source.Ident {
	return source.Ident{Namespace: "default", Name: name, UID: uid, ResourceVersion: strconv.Itoa(rev)}
}

// gap is what was noted of the last gap.
func (r *recorder) gap() source.Progress {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range slices.Backward(r.notes) {
		if p.Kind == source.Gap {
			return p
		}
	}
	return source.Progress{}
}

// until is when the far side has seen a line.
func until(r *recorder, line string) func() bool {
	return func() bool { return slices.Contains(r.seen(), line) }
}

// sortedByName puts the lines of each object together, in the order that they have.
func sortedByName(lines []string) []string {
	name := func(line string) string {
		_, rest, _ := strings.Cut(line, " ")
		name, _, _ := strings.Cut(rest, "@")
		return name
	}
	lines = slices.Clone(lines)
	slices.SortStableFunc(lines, func(a, b string) int { return strings.Compare(name(a), name(b)) })
	return lines
}
