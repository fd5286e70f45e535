// SPDX-License-Identifier: Apache-2.0

package natslog_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kube-eventbridge/kube-eventbridge/internal/event"
	"github.com/kube-eventbridge/kube-eventbridge/internal/event/natslog"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
	"github.com/kube-eventbridge/kube-eventbridge/internal/testlog"
)

// permissions are the subjects that the page of operations gives the user of a replica.
var permissions = []string{
	"$JS.API.STREAM.INFO.KUBERNETES",
	"$JS.API.STREAM.MSG.GET.KUBERNETES",
	"$JS.API.CONSUMER.CREATE.KUBERNETES.>",
	"$JS.API.CONSUMER.INFO.KUBERNETES.*",
	"$JS.API.CONSUMER.MSG.NEXT.KUBERNETES.*",
	"$JS.API.CONSUMER.DELETE.KUBERNETES.*",
	"$JS.API.DIRECT.GET.KUBERNETES",
	"$JS.ACK.KUBERNETES.>",
}

// limited starts a broker whose user reader may publish to some subjects alone.
func limited(t *testing.T, allowed []string) *broker {
	t.Helper()
	b := newBroker(t)
	b.users = []*server.User{
		{Username: "admin", Password: "pw"},
		{Username: "reader", Password: "pw", Permissions: &server.Permissions{
			Publish:   &server.SubjectPermission{Allow: allowed},
			Subscribe: &server.SubjectPermission{Allow: []string{"_INBOX.>"}},
		}},
	}
	b.login = "admin:pw@"
	b.start().stream()
	b.marker("_gap")
	b.publish(event.Added, "a", 1, 1)
	b.publish(event.Updated, "a", 2, 2)
	b.login = "reader:pw@"
	return b
}

// uses does all that a replica does, and returns what the server has refused meanwhile. Nothing may be done.
func uses(t *testing.T, allowed []string) (refused func() string, done func() error) {
	t.Helper()
	said := new(testlog.Text)
	r := limited(t, allowed).replica(newest, func(c *natslog.Config) {
		c.Notice = func(line string) {
			if strings.Contains(line, "the server refuses") {
				_, _ = said.Write([]byte(line + "\n"))
			}
		}
	})
	must.Happen(t, "the replica to read, or to be refused", func() bool {
		return r.count("caught-up") > 0 || said.String() != ""
	})
	ctx, cancel := context.WithTimeout(t.Context(), 6*time.Second) // longer than a question to the broker may take
	t.Cleanup(cancel)
	return said.String, func() error {
		_, err := r.log.At(ctx, 3)
		err = errors.Join(err, r.log.Acknowledge(ctx, event.Marks{0: 1}), r.log.Acknowledge(ctx, event.Marks{0: 2}))
		r.log.SetFarBehind(0) // the consumer is made again
		return errors.Join(err, r.log.Acknowledge(ctx, event.Marks{0: 3}))
	}
}

func TestReplica_needs_few_permissions(t *testing.T) {
	t.Parallel()
	refused, done := uses(t, permissions)
	require.NoError(t, done())
	assert.Empty(t, refused())
}

func TestReplica_needs_each_of_its_permissions(t *testing.T) {
	t.Parallel()
	for _, without := range permissions {
		t.Run(without, func(t *testing.T) {
			t.Parallel()
			others := slices.DeleteFunc(slices.Clone(permissions), func(p string) bool { return p == without })
			refused, done := uses(t, others)
			var working sync.WaitGroup
			working.Go(func() { _ = done() }) // it may not be done
			defer working.Wait()
			must.Happen(t, "it to be refused", func() bool {
				return strings.Contains(refused(), strings.TrimRight(without, ".*>"))
			})
		})
	}
}
