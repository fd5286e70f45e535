// SPDX-License-Identifier: Apache-2.0

package nats

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	"github.com/kube-eventbridge/kube-eventbridge/checkpoint/internal/holder"
	"github.com/kube-eventbridge/kube-eventbridge/checkpoint/storetest"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
)

// memory is a bucket for tests in which time passes at once.
type memory struct {
	mu   sync.Mutex
	all  []raw
	next uint64
}

func (m *memory) append(_ context.Context, _, after uint64, data []byte) (uint64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if after != m.end() {
		return 0, errMoved
	}
	m.next++
	m.all = append(m.all, raw{m.next, time.Now(), slices.Clone(data)})
	return m.next, nil
}

func (m *memory) end() uint64 {
	if len(m.all) == 0 {
		return 0
	}
	return m.all[len(m.all)-1].sequence
}

func (m *memory) last(context.Context) (raw, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.all) == 0 {
		return raw{}, nil
	}
	return m.all[len(m.all)-1], nil
}

func (m *memory) read(_ context.Context, after, to uint64, do func(raw)) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, r := range m.all {
		if r.sequence > after && r.sequence <= to {
			do(r)
		}
	}
	return nil
}

func (m *memory) purge(_ context.Context, before uint64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.all = slices.DeleteFunc(m.all, func(r raw) bool { return r.sequence < before })
	return nil
}

func TestStore_is_left_to_the_process_that_uses_it(t *testing.T) {
	storetest.RunHolding(t, func(t *testing.T) storetest.ProcessOpener {
		bucket := &memory{}
		return func(as holder.Holder, elected bool) (storetest.Shared, error) {
			cfg := Config{Bucket: testBucket, Elected: elected, self: as}.withDefaults(audit)
			return open(t.Context(), cfg, audit, bucket, 1<<20)
		}
	})
}

// beaten is a bucket to which another process writes right before the first message.
type beaten struct {
	*memory
	other func()
}

func (b *beaten) append(ctx context.Context, number, after uint64, data []byte) (uint64, error) {
	if other := b.other; other != nil {
		b.other = nil
		other()
	}
	return b.memory.append(ctx, number, after, data)
}

func TestOpen_leaves_the_checkpoint_to_a_process_that_was_faster(t *testing.T) {
	bucket := &memory{}
	as := func(host string) Config {
		return Config{Bucket: testBucket, self: holder.Holder{Host: host, PID: 1}}.withDefaults(audit)
	}
	var faster *Store
	late := &beaten{bucket, func() { faster = must.Get(open(t.Context(), as("faster"), audit, bucket, 1<<20))(t) }}
	_, err := open(t.Context(), as("late"), audit, late, 1<<20)
	var held *checkpoint.HeldError
	require.ErrorAs(t, err, &held)
	assert.Equal(t, "process 1 on host faster", held.Holder)
	require.NoError(t, faster.Commit(t.Context(), &checkpoint.Batch{Identity: audit}))
}
