// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	"github.com/kube-eventbridge/kube-eventbridge/internal/config"
	"github.com/kube-eventbridge/kube-eventbridge/source"
)

// onePeek is a peeker that fails where it is told to, and says when it is closed.
type onePeek struct {
	err    error
	closed *int
}

func (p onePeek) Peek(context.Context) (map[string]checkpoint.Stream, error) {
	return map[string]checkpoint.Stream{"pods.v1": {}}, p.err
}

func (p onePeek) Close() error {
	*p.closed++
	return nil
}

func TestRenewedPeeker_is_another_one_after_a_failure_and_stays_otherwise(t *testing.T) {
	refused := errors.New("the password is another one")
	opened, closed := 0, 0
	p := &renewedPeeker{open: func() (checkpoint.Peeker, error) {
		switch opened++; opened {
		case 1:
			return onePeek{refused, &closed}, nil
		case 2:
			return nil, errors.New("the file is being written")
		default:
			return onePeek{nil, &closed}, nil
		}
	}}
	for i, wantErr := range []bool{true, true, false, false} {
		if streams, err := p.Peek(t.Context()); (err != nil) != wantErr || !wantErr && len(streams) != 1 {
			t.Errorf("look %d: %v, %v", i, streams, err)
		}
	}
	if err := p.Close(); err != nil || opened != 3 || closed != 2 {
		t.Errorf("%d were opened and %d closed, %v", opened, closed, err)
	}
}

// What is recorded may be all that is left of what the leader has not committed.
func TestStandby_keeps_what_it_has_recorded_of_what_keeps_its_positions(t *testing.T) {
	file, _ := elected(t)
	const other = "{name: b, checkpoint: {nats: {}}, resources: [{resource: pods}], sink: {nats: {servers: ['nats://127.0.0.1:1'], tokenFile: token, stream: B, subject: 'b.{group}.{resource}.{namespace}.{name}'}}}"
	rewritten(t, file, "pipelines: [", "pipelines: ["+other+", ")
	p := assembled(t, file, &output{})
	by := &standby{process: p, uid: "uid", open: peeker, failed: map[string]error{}}
	require.NoError(t, by.follow(t.Context(), p.current))
	defer func() {
		assert.NoError(t, by.close())
	}()
	whole := by.limit()
	recorded := func() map[string]*source.Holds {
		all := map[string]*source.Holds{}
		for _, r := range by.of {
			all[r.cfg.Name] = r.holds
		}
		return all
	}
	for _, c := range []struct {
		what, from, to string
		a, b           bool // stay
		err            string
	}{
		{"what one reads", "{name: a, checkpoint: {nats: {}}, resources: [{resource: pods}]", "{name: a, checkpoint: {nats: {}}, resources: [{resource: nodes}]", true, true, ""},
		{"where one publishes", "stream: B, subject: 'b.", "stream: C, subject: 'c.", true, false, ""},
		{"all the rest", "{name: a, checkpoint: {nats: {}},", "{name: a, onReject: stop, checkpoint: {nats: {}},", true, true, ""},
		{"what cannot be", "{name: a, onReject: stop, checkpoint: {nats: {}},", "{name: a, onReject: stop, checkpoint: {nats: {tokenFile: none, servers: ['nats://127.0.0.1:1']}},", true, true, "no such file"},
	} {
		before, former := recorded(), by.of
		rewritten(t, file, c.from, c.to)
		cfg, _, err := p.flags.parse(lookAt(file).data)
		require.NoError(t, err)
		if err := by.follow(t.Context(), cfg); (err != nil) != (c.err != "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: %v", c.what, err)
		}
		after := recorded()
		if a, b := after["a"] == before["a"], after["b"] == before["b"]; a != c.a || b != c.b {
			t.Errorf("%s is different: a stays: %v, b stays: %v", c.what, a, b)
		}
		for _, r := range by.fresh(former) {
			if runs := !over(r.keeping); !over(r.peeking) || runs != (after[r.cfg.Name] == r.holds) {
				t.Errorf("%s is different: %s peeks: %v, records: %v", c.what, r.cfg.Name, !over(r.peeking), runs)
			}
		}
	}
	if err := by.resume(t.Context(), &config.Config{LeaderElection: p.current.LeaderElection, Buffer: p.current.Buffer, Pipelines: p.current.Pipelines[1:]}); err != nil {
		t.Fatal(err)
	}
	if all := recorded(); len(all) != 1 || all["a"] == nil || by.problem() != nil && strings.Contains(by.problem().Error(), "pipeline b") {
		t.Errorf("%v are recorded, %v", all, by.problem())
	}
	n := by.limit()
	assert.True(t, n == whole && n != 0, "one may record %d bytes, and two %d", n, whole)
}

// A reload that gains a pipeline leaves less for the others, of which what is recorded stays.
func TestStandby_records_as_much_of_each_pipeline_as_a_configuration_leaves_it(t *testing.T) {
	file, _ := elected(t)
	p := assembled(t, file, &output{})
	by := &standby{process: p, uid: "uid", open: peeker, failed: map[string]error{}}
	defer func() {
		assert.NoError(t, by.close())
	}()
	one := p.current
	rewritten(t, file, "pipelines: [", "pipelines: [{name: b, checkpoint: {nats: {}}, resources: [{resource: pods}], sink: {nats: {servers: ['nats://127.0.0.1:1'], stream: B, subject: 'b.{group}.{resource}.{namespace}.{name}'}}}, ")
	two, _, err := p.flags.parse(lookAt(file).data)
	require.NoError(t, err)
	var limits []int64
	for _, cfg := range []*config.Config{one, two, one} {
		require.NoError(t, by.follow(t.Context(), cfg))
		for _, r := range by.of {
			limits = append(limits, r.holds.Limit())
			assert.Equal(t, int64(cfg.StandbyShare(r.cfg)), r.holds.Limit(),
				"of %d pipelines, %s may record %d bytes", len(cfg.Pipelines), r.cfg.Name, r.holds.Limit())
		}
	}
	if whole := limits[0]; whole == 0 || limits[1] >= whole || limits[2] >= whole || limits[3] != whole {
		t.Errorf("the limits are %d", limits)
	}
}

// What reads a checkpoint is a connection to a broker.
func TestStandby_closes_what_reads_a_checkpoint_that_is_not_read_any_more(t *testing.T) {
	file, _ := elected(t)
	p := assembled(t, file, &output{})
	opened, closed, refuses := 0, 0, ""
	by := &standby{process: p, uid: "uid", failed: map[string]error{}, open: func(c *config.Pipeline, _ checkpoint.Identity) (checkpoint.Peeker, error) {
		if c.Name == refuses {
			return nil, errors.New("no such file")
		}
		opened++
		return onePeek{nil, &closed}, nil
	}}
	const other = "{name: z, checkpoint: {nats: {}}, resources: [{resource: pods}], sink: {nats: {servers: ['nats://127.0.0.1:1'], stream: Z, subject: 'z.{group}.{resource}.{namespace}.{name}'}}}"
	for _, c := range []struct {
		what, from, to, refuses string
		opened, closed          int
	}{
		{"the first one", "", "", "", 1, 0},
		{"the same again", "", "", "", 1, 0},
		{"another one", "{name: a,", "{name: a, onReject: stop,", "", 2, 1},
		{"two of which one cannot be", "pipelines: [{name: a, onReject: stop,", "pipelines: [" + other + ", {name: a,", "a", 3, 2},
		{"both", "", "", "", 5, 3},
	} {
		if c.from != "" {
			rewritten(t, file, c.from, c.to)
		}
		cfg, _, err := p.flags.parse(lookAt(file).data)
		require.NoError(t, err)
		refuses = c.refuses
		if err := by.follow(t.Context(), cfg); (err != nil) != (c.refuses != "") {
			t.Errorf("%s: %v", c.what, err)
		}
		assert.Equal(t, c.opened, opened, "%s: %d were opened and %d closed", c.what, opened, closed)
		assert.Equal(t, c.closed, closed, "%s: %d were opened and %d closed", c.what, opened, closed)
	}
	if err := by.close(); err != nil || closed != opened {
		t.Errorf("in the end %d were opened and %d closed, %v", opened, closed, err)
	}
}

// over reports whether a task has ended.
func over(t *task) bool {
	select {
	case <-t.done:
		return true
	default:
		return false
	}
}
