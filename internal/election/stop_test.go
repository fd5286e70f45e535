// SPDX-License-Identifier: Apache-2.0

package election_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kube-eventbridge/kube-eventbridge/internal/election"
	"github.com/stretchr/testify/assert"
)

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
		c := election.New(election.Config{Client: l, Name: "bridge", Identity: "a", Duration: duration, Deadline: deadline, Retry: retry})
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- c.Run(ctx, func(context.Context, election.Term) error { return nil }) }()
		for !l.asked.Load() {
			<-time.After(time.Millisecond)
		}
		stop()
		assert.NoError(t, <-done)
		if l, _ := s.get(); *l.Spec.HolderIdentity != "" {
			t.Errorf("nobody runs, and the lease is %q's for %d s", *l.Spec.HolderIdentity, *l.Spec.LeaseDurationSeconds)
		}
	})
}
