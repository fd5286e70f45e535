// SPDX-License-Identifier: Apache-2.0

package memory

import (
	"context"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
)

func TestPercent_is_of_what_has_pointers(t *testing.T) {
	for _, c := range []struct {
		live, scanned, stacks uint64
		want                  int
	}{
		{10 << 20, 5 << 20, 0, 100}, // a small heap has room
		{64 << 20, 0, 0, 100},
		{160 << 20, 10 << 20, 0, 50},
		{200 << 20, 190 << 20, 0, 100},
		{300 << 20, 100 << 20, 0, 40},
		{2000 << 20, 10 << 20, 0, 10},
		{100 << 20, 90 << 20, 2 << 20, 90},
		{100 << 20, 60 << 20, 100 << 20, 40}, // very many streams
	} {
		assert.Equal(t, c.want, percent(c.live, c.scanned, c.stacks), "%d MiB in use, %d scanned, stacks of %d",
			c.live>>20, c.scanned>>20, c.stacks>>20)
	}
}

func TestPace_follows_the_heap(t *testing.T) {
	t.Setenv("GOGC", "")
	defer debug.SetGCPercent(debug.SetGCPercent(100))
	rows := make([]byte, 256<<20)
	runtime.GC()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { Pace(ctx); close(done) }()
	must.Happen(t, "an earlier collection", func() bool {
		set := []metrics.Sample{{Name: "/gc/gogc:percent"}}
		metrics.Read(set)
		return set[0].Value.Uint64() == 30
	})
	cancel()
	<-done
	runtime.KeepAlive(rows)
}

func TestPace_leaves_it_to_the_environment(t *testing.T) {
	t.Setenv("GOGC", "200")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	Pace(ctx)
	assert.NoError(t, ctx.Err())
}
