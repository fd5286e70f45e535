// SPDX-License-Identifier: Apache-2.0

package nats

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	gonats "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	"github.com/kube-eventbridge/kube-eventbridge/checkpoint/internal/session"
	"github.com/kube-eventbridge/kube-eventbridge/checkpoint/storetest"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
	"github.com/kube-eventbridge/kube-eventbridge/internal/pause"
	"github.com/kube-eventbridge/kube-eventbridge/internal/port"
	"github.com/kube-eventbridge/kube-eventbridge/internal/testtier"
)

// committed commits until disturb ends, some batches larger than a message, and fails if the checkpoint is ever not
// what was committed. More waits until 20 more were made, one of which is larger.
func committed(t *testing.T, cfg Config, disturb func(more func() error) error) {
	t.Helper()
	var g errgroup.Group
	var commits atomic.Int64
	more := func() error {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		for enough := commits.Load() + 20; commits.Load() < enough; {
			if err := pause.For(ctx, time.Millisecond); err != nil {
				return fmt.Errorf("wait for more commits: %w", err)
			}
		}
		return nil
	}
	over := make(chan struct{})
	g.Go(func() error { defer close(over); return disturb(more) })
	s, want, failed := mustOpen(t.Context(), t, cfg), storetest.Empty(), 0
	for n, last := 1, false; !last; n++ {
		select {
		case <-over:
			last = true
		default:
		}
		b := benchRows(n*31%2000, 50, n)
		if n%20 == 0 {
			b = benchRows(0, 8000, n) // more than a message
		}
		if n%50 == 0 {
			rebaseNow(s)
		}
		for err := s.Commit(t.Context(), b); err != nil; err = s.Commit(t.Context(), b) {
			failed++
			require.False(t, checkpoint.IsPermanent(err), "commit %d", n)
			require.LessOrEqual(t, failed, 100, "commit %d", n)
		}
		want = storetest.After(want, b)
		commits.Add(1)
	}
	require.NoError(t, g.Wait())
	t.Logf("%d commits, %d failed at first", commits.Load(), failed)
	storetest.MustHold(t.Context(), t, s, want)
	storetest.MustHold(t.Context(), t, mustOpen(t.Context(), t, cfg), want)
}

// Commits go on while the server is killed and comes back; those that returned are there, and nothing else is.
func TestCommits_survive_kills_of_the_server(t *testing.T) {
	p := newServerProcess(t)
	committed(t, at(p.url), func(more func() error) error {
		for range 4 {
			if err := more(); err != nil {
				return err
			}
			if err := p.restart(); err != nil {
				return err
			}
		}
		return nil
	})
}

// cluster is three servers that know each other.
type cluster struct {
	options [3]*server.Options
	servers [3]*server.Server
}

func newCluster(t *testing.T) *cluster {
	t.Helper()
	c := &cluster{}
	var routes []string
	testtier.Servers(t)
	for i := range c.servers {
		c.options[i] = &server.Options{
			ServerName: fmt.Sprint("server-", i), Host: "127.0.0.1", Port: must.Get(port.Free())(t), NoSigs: true, NoLog: true,
			JetStream: true, StoreDir: t.TempDir(),
			Cluster: server.ClusterOpts{Name: "test", Host: "127.0.0.1", Port: must.Get(port.Free())(t)},
		}
		routes = append(routes, fmt.Sprint("nats://127.0.0.1:", c.options[i].Cluster.Port))
	}
	t.Cleanup(func() {
		for _, s := range c.servers {
			if s != nil {
				stop(s)
			}
		}
	})
	for i, o := range c.options {
		o.Routes = server.RoutesFromStr(strings.Join(routes, ","))
		require.NoError(t, c.start(i))
	}
	for _, s := range c.servers {
		require.True(t, s.ReadyForConnections(time.Minute), "a server does not start")
	}
	return c
}

func (c *cluster) start(i int) error {
	s, err := server.NewServer(c.options[i].Clone())
	if err != nil {
		return err
	}
	s.Start()
	c.servers[i] = s
	return nil
}

// leader is the server that leads the bucket's stream.
func (c *cluster) leader() int {
	for i, s := range c.servers {
		if s.JetStreamIsStreamLeader(server.DEFAULT_GLOBAL_ACCOUNT, "KV_"+testBucket) {
			return i
		}
	}
	return 0
}

// A replica takes over without losing a commit, and without taking the process for another one.
func TestCommits_survive_changes_of_the_leader(t *testing.T) {
	c := newCluster(t)
	var all []string
	for _, s := range c.servers {
		all = append(all, s.ClientURL())
	}
	urls := strings.Join(all, ",")
	cfg := at(urls)
	cfg.Replicas, cfg.Patience = 3, 30*time.Second
	mustOpen(t.Context(), t, cfg)
	committed(t, cfg, func(more func() error) error {
		for range 3 {
			if err := more(); err != nil {
				return err
			}
			i := c.leader()
			stop(c.servers[i])
			if err := c.start(i); err != nil {
				return err
			}
		}
		return nil
	})
	nc := must.Get(gonats.Connect(urls))(t)
	defer nc.Close()
	js := must.Get(jetstream.New(nc, jetstream.WithDefaultTimeout(30*time.Second)))(t)
	kv := must.Get(js.KeyValue(t.Context(), testBucket))(t)
	s := must.Get(kv.Status(t.Context()))(t)
	assert.Equal(t, 3, s.Config().Replicas, "status %+v", s)
}

// A store that was closed does nothing any more, and says so.
func TestStore_that_is_closed(t *testing.T) {
	s := mustOpen(t.Context(), t, at(newServer(t).ClientURL()))
	require.NoError(t, s.Close())
	state, err := s.Load(t.Context())
	require.ErrorIs(t, err, session.ErrClosed, "load")
	assert.Equal(t, (*checkpoint.State)(nil), state, "load")
	assert.ErrorIs(t, s.Commit(t.Context(), benchRows(0, 1, 1)), session.ErrClosed, "commit")
}
