// SPDX-License-Identifier: Apache-2.0

package election_test

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	coordination "k8s.io/client-go/kubernetes/typed/coordination/v1"
)

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
