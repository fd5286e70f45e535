// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"context"
	"maps"
	"strings"

	"github.com/kube-eventbridge/kube-eventbridge/encode"
	"github.com/kube-eventbridge/kube-eventbridge/sink"
)

// readableLog is a fakeLog that can be read back, and that can lose what it acknowledged.
type readableLog struct{ *fakeLog }

func newReadableLog() readableLog { return readableLog{newFakeLog()} }

func (l readableLog) Bounds(context.Context, map[int32]uint64) (sink.LogBounds, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return sink.LogBounds{ID: l.id, Partitions: map[int32]sink.Bounds{0: {First: 1, Last: uint64(len(l.log))}}}, nil
}

func (l readableLog) At(_ context.Context, _ int32, sequence uint64) (*sink.Stored, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if sequence < 1 || sequence > uint64(len(l.log)) {
		return nil, nil
	}
	m := l.log[sequence-1]
	return &m, nil
}

func (l readableLog) Read(_ context.Context, q sink.Query, f func(*sink.Stored) error) error {
	l.mu.Lock()
	log := append([]sink.Stored(nil), l.log...)
	last, at := maps.Clone(l.last), append([]string(nil), l.at...)
	l.mu.Unlock()
	for i := range log {
		m := log[i]
		if !strings.HasPrefix(at[i], "k8s.") || m.Sequence <= q.After[0] || q.LastOfKey && last[at[i]] != i+1 {
			continue
		}
		m.Data = nil
		if err := f(&m); err != nil {
			return err
		}
	}
	return nil
}

// byPartition is a log whose markers are in a partition that is read first.
type byPartition struct{ readableLog }

func (l byPartition) Read(ctx context.Context, q sink.Query, f func(*sink.Stored) error) error {
	for _, markers := range []bool{true, false} {
		err := l.readableLog.Read(ctx, q, func(m *sink.Stored) error {
			if st, err := encode.StateOf(m); err != nil || (st.UID == "") != markers {
				return err
			}
			return f(m)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// lose restores the log from a copy that was made when it had n messages.
func (l readableLog) lose(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.log = l.log[:n]
	l.byID, l.last = map[string]int{}, map[string]int{}
	for i := range l.log {
		l.byID[l.log[i].ID], l.last[l.at[i]] = i+1, i+1
	}
	l.at = l.at[:n]
}
