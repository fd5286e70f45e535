// SPDX-License-Identifier: Apache-2.0

package election_test

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	coordination "k8s.io/client-go/kubernetes/typed/coordination/v1"

	"github.com/kube-eventbridge/kube-eventbridge/internal/election"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
)

const duration, deadline, retry = 15 * time.Second, 10 * time.Second, 2 * time.Second

// term is what a process has seen of a term of its own.
type term struct {
	number     int64
	began, end time.Time
	cause      error
}

// process is a candidate that runs.
type process struct {
	*election.Candidate
	line *line
	// stop asks it to end; drain is how long its work takes to.
	stop  context.CancelFunc
	drain time.Duration
	done  chan error

	mu    sync.Mutex
	terms []term
}

func start(t *testing.T, s *server, name string, drain time.Duration) *process {
	t.Helper()
	p := &process{line: &line{server: s}, drain: drain, done: make(chan error, 1)}
	p.line.latency.Store(int64(10 * time.Millisecond))
	p.Candidate = election.New(election.Config{
		Client: p.line, Name: "bridge", Identity: name, Duration: duration, Deadline: deadline, Retry: retry,
	})
	ctx, stop := context.WithCancel(t.Context())
	p.stop = stop
	go func() { p.done <- p.Run(ctx, p.lead) }()
	t.Cleanup(func() {
		stop()
		assert.NoError(t, <-p.done)
	})
	return p
}

func (p *process) lead(ctx context.Context, t election.Term) error {
	began := time.Now()
	select {
	case <-t.Held.Done():
	case <-ctx.Done():
		select {
		case <-time.After(p.drain):
		case <-t.Held.Done():
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.terms = append(p.terms, term{t.Number, began, time.Now(), context.Cause(t.Held)})
	return nil
}

func (p *process) past() []term {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.terms)
}

// until waits until a process leads.
func until(t *testing.T, p *process) {
	t.Helper()
	for range 10_000 {
		if p.Leads() {
			return
		}
		<-time.After(10 * time.Millisecond)
	}
	t.Fatal("no candidate leads after 100 s")
}

func TestCandidate_leads_alone_and_gives_the_lease_back_after_its_work(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{}
		first := start(t, s, "a", 5*time.Second)
		until(t, first)
		second := start(t, s, "b", 0)
		<-time.After(10 * time.Minute)
		if second.Leads() || !first.Leads() || second.Leader() != "a" {
			t.Fatalf("after ten minutes a leads: %v, b leads: %v, and b takes %q for the leader", first.Leads(), second.Leads(),
				second.Leader())
		}
		asked := time.Now()
		first.stop()
		until(t, second)
		end := first.past()[0]
		assert.Equal(t, 5*time.Second, end.end.Sub(asked), "the first stopped its work late; it takes 5 s")
		if wait := time.Since(end.end); wait < 0 || wait > time.Second {
			t.Errorf("the second leads %v after the first's work has ended, want at most a second", wait)
		}
		second.stop()
		<-time.After(time.Minute)
		if first, second := end.number, second.past()[0].number; first != 1 || second <= first {
			t.Errorf("the terms are %d and %d, want 1 and a greater one", first, second)
		}
	})
}

func TestCandidate_stops_its_work_before_another_can_lead(t *testing.T) {
	for name, lose := range map[string]func(l *line){
		"nothing gets through":     func(l *line) { l.cut.Store(true) },
		"requests have no answers": func(l *line) { l.hangs.Store(true) },
		"requests take long":       func(l *line) { l.latency.Store(int64(2 * deadline)) },
	} {
		// The moment within the time between two renewals decides how much is left.
		for _, after := range []time.Duration{time.Minute, time.Minute + time.Second, time.Minute + 1990*time.Millisecond} {
			must.RunInBubble(t, name+" after "+after.String(), func(t *testing.T) {
				s := &server{}
				first := start(t, s, "a", time.Hour)
				until(t, first)
				second := start(t, s, "b", 0)
				<-time.After(after)
				lost := time.Now()
				lose(first.line)
				until(t, second)
				took := time.Since(lost)
				terms := first.past()
				require.Len(t, terms, 1, "when the second leads, the first has ended")
				require.Error(t, terms[0].cause, "when the second leads, the first has ended")
				if early := time.Since(terms[0].end); early < duration-deadline-time.Second {
					t.Errorf("the first has stopped %v before the second began, want %v", early, duration-deadline)
				}
				assert.LessOrEqual(t, took, duration+time.Second, "the second leads late")
			})
		}
	}
}

func TestCandidate_stands_again_after_it_has_lost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t, &server{}, "a", 0)
		until(t, p)
		p.line.cut.Store(true)
		<-time.After(time.Minute)
		require.False(t, p.Leads(), "it leads without an API server")
		p.line.cut.Store(false)
		until(t, p)
		p.stop()
		<-time.After(time.Minute)
		terms := p.past()
		require.Len(t, terms, 2, "two terms, the second with a greater number")
		assert.Greater(t, terms[1].number, terms[0].number, "two terms, the second with a greater number")
	})
}

// As a process that was stopped and goes on when another one leads long since.
func TestCandidate_ends_its_term_as_soon_as_it_sees_another_holder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{}
		p := start(t, s, "a", time.Hour)
		until(t, p)
		lease := must.Get(s.get())(t)
		other := "z"
		lease.Spec.HolderIdentity = &other
		must.Get(s.put(lease, false))(t)
		seen := time.Now()
		for p.Leads() {
			<-time.After(10 * time.Millisecond)
		}
		assert.LessOrEqual(t, time.Since(seen), retry+time.Second, "it has led on")
		if l, _ := s.get(); *l.Spec.HolderIdentity != other {
			t.Errorf("the lease is %q's now, and was given back by who does not hold it", *l.Spec.HolderIdentity)
		}
	})
}

func TestCandidate_returns_what_its_work_returns_and_gives_the_lease_back(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, broken := &server{}, errors.New("broken")
		c := election.New(election.Config{
			Client: &line{server: s}, Name: "bridge", Identity: "a", Duration: duration, Deadline: deadline, Retry: retry,
		})
		assert.ErrorIs(t, c.Run(t.Context(), func(context.Context, election.Term) error { return broken }), broken)
		l, _ := s.get()
		assert.Empty(t, *l.Spec.HolderIdentity, "the lease is still %q's", *l.Spec.HolderIdentity)
	})
}

func TestCandidate_ends_while_it_waits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{}
		until(t, start(t, s, "a", 0))
		second := start(t, s, "b", 0)
		<-time.After(time.Minute)
		asked := time.Now()
		second.stop()
		err := <-second.done
		second.done <- nil
		took := time.Since(asked)
		assert.True(t, err == nil && took <= time.Second, "it ended after %v with %v", took, err)
	})
}

// server has one Lease, as an API server has it.
type server struct {
	mu      sync.Mutex
	lease   *v1.Lease
	version int
}

var leases = schema.GroupResource{Group: "coordination.k8s.io", Resource: "leases"}

func (s *server) get() (*v1.Lease, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lease == nil {
		return nil, apierrors.NewNotFound(leases, "bridge")
	}
	return s.lease.DeepCopy(), nil
}

func (s *server) put(l *v1.Lease, creates bool) (*v1.Lease, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case creates && s.lease != nil:
		return nil, apierrors.NewAlreadyExists(leases, "bridge")
	case !creates && s.lease == nil:
		return nil, apierrors.NewNotFound(leases, "bridge")
	case !creates && l.ResourceVersion != s.lease.ResourceVersion:
		return nil, apierrors.NewConflict(leases, "bridge", errors.New("it has changed"))
	}
	s.version++
	s.lease = l.DeepCopy()
	s.lease.ResourceVersion = strconv.Itoa(s.version)
	return s.lease.DeepCopy(), nil
}

// line is one process's way to the server. The methods that it lacks are not used.
type line struct {
	coordination.LeaseInterface
	server *server
	// cut: nothing gets through; hangs: requests have no answer until their contexts end.
	cut, hangs atomic.Bool
	// latency is in nanoseconds.
	latency atomic.Int64
}

func (l *line) wait(ctx context.Context) error {
	if l.hangs.Load() {
		<-ctx.Done()
	}
	select {
	case <-time.After(time.Duration(l.latency.Load())):
	case <-ctx.Done():
	}
	if l.cut.Load() {
		return errors.New("connection refused")
	}
	return ctx.Err()
}

func (l *line) Get(ctx context.Context, _ string, _ metav1.GetOptions) (*v1.Lease, error) {
	if err := l.wait(ctx); err != nil {
		return nil, err
	}
	return l.server.get()
}

func (l *line) Create(ctx context.Context, lease *v1.Lease, _ metav1.CreateOptions) (*v1.Lease, error) {
	if err := l.wait(ctx); err != nil {
		return nil, err
	}
	return l.server.put(lease, true)
}

func (l *line) Update(ctx context.Context, lease *v1.Lease, _ metav1.UpdateOptions) (*v1.Lease, error) {
	if err := l.wait(ctx); err != nil {
		return nil, err
	}
	return l.server.put(lease, false)
}

// answerless is a line on which requests arrive and answers do not.
type answerless struct {
	*line
	asked atomic.Bool
}

func (l *answerless) Create(ctx context.Context, lease *v1.Lease, _ metav1.CreateOptions) (*v1.Lease, error) {
	_, _ = l.server.put(lease, true)
	l.asked.Store(true)
	<-ctx.Done()
	return nil, ctx.Err()
}

// Asked to end while the answer to its taking the lease is on its way.
func TestCandidate_that_is_stopped_while_it_takes_the_lease_gives_it_back(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{}
		l := &answerless{line: &line{server: s}}
		c := election.New(election.Config{
			Client: l, Name: "bridge", Identity: "a", Duration: duration, Deadline: deadline,
			Retry: retry,
		})
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- c.Run(ctx, func(context.Context, election.Term) error { return nil }) }()
		for !l.asked.Load() {
			<-time.After(time.Millisecond)
		}
		stop()
		assert.NoError(t, <-done)
		if l, _ := s.get(); *l.Spec.HolderIdentity != "" {
			t.Errorf("no process runs, and the lease is %q's for %d s", *l.Spec.HolderIdentity, *l.Spec.LeaseDurationSeconds)
		}
	})
}

// counting counts how often the Lease is looked at.
type counting struct {
	*line
	looks atomic.Int32
}

func (c *counting) Get(ctx context.Context, name string, o metav1.GetOptions) (*v1.Lease, error) {
	c.looks.Add(1)
	return c.line.Get(ctx, name, o)
}

func TestCandidate_looks_at_the_lease_of_another_as_often_as_its_retry_period_says(t *testing.T) {
	for period, want := range map[time.Duration]float64{retry: 100, 4 * retry: 100, 400 * time.Millisecond: 20} {
		synctest.Test(t, func(t *testing.T) {
			s := &server{}
			leads, ctx := make(chan struct{}), t.Context()
			go func() {
				_ = election.New(election.Config{
					Client: &line{server: s}, Name: "bridge", Identity: "a", Duration: duration, Deadline: deadline, Retry: retry,
				}).Run(ctx, func(ctx context.Context, _ election.Term) error {
					close(leads)
					<-ctx.Done()
					return nil
				})
			}()
			<-leads
			l := &counting{line: &line{server: s}}
			go func() {
				_ = election.New(election.Config{
					Client: l, Name: "bridge", Identity: "b", Duration: duration, Deadline: deadline, Retry: period,
				}).Run(ctx, func(context.Context, election.Term) error { return nil })
			}()
			<-time.After(20 * period)
			assert.InDelta(t, want, l.looks.Load(), 2, "looks in twenty periods of %v", period)
		})
	}
}
