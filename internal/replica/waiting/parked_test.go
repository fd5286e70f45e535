// SPDX-License-Identifier: Apache-2.0

package waiting

import (
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/kube-eventbridge/kube-eventbridge/internal/replica/keys"
	"github.com/kube-eventbridge/kube-eventbridge/internal/replica/plan"
)

var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

func TestParked_says_why_and_since_when_keys_wait(t *testing.T) {
	p := NewParked()
	assert.True(t, p.Put(1, Exists, "", noon))
	assert.False(t, p.Put(1, Exists, "of somebody else", noon.Add(time.Hour)))
	assert.True(t, p.Put(2, Exists, "", noon))
	assert.True(t, p.Put(2, Denied, "by a webhook", noon.Add(time.Hour)), "another reason")
	assert.Equal(t, map[keys.ID]Key{
		1: {Exists, "of somebody else", noon}, 2: {Denied, "by a webhook", noon.Add(time.Hour)},
	}, p.Oldest(10))
	assert.Equal(t, map[plan.Reason]int{Exists: 1, Denied: 1}, p.ByReason())
	assert.Equal(t, []keys.ID{2}, p.Waiting(Denied))
	p.Remove(1)
	assert.Empty(t, p.Reason(1))
	assert.Equal(t, "denied", p.Reason(2))
	p.Put(3, Denied, "", noon)
	assert.Len(t, p.Oldest(1), 1, "one of each reason")
}

// All keys may wait, for a namespace or because they are redacted.
func TestParked_takes_few_bytes_for_a_key(t *testing.T) {
	const n = 100_000
	used := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := used()
	p := NewParked()
	for id := range keys.ID(n) {
		p.Put(id, Denied, "it is not allowed: "+time.Duration(id).String(), noon)
	}
	assert.LessOrEqual(t, int(used()-before)/n, 48)
	runtime.KeepAlive(p)
}
