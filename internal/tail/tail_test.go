// SPDX-License-Identifier: Apache-2.0

package tail

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kube-eventbridge/kube-eventbridge/encode"
	"github.com/kube-eventbridge/kube-eventbridge/internal/event"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
)

// sliceLog is a log in memory. Reading begins at an index, and the log is replaced by another one before the message at
// another.
type sliceLog struct {
	messages         []event.Message
	start, replaceAt int
	asked            []uint64
	counted          []bool
}

func (l *sliceLog) Read(ctx context.Context, r event.Reading) error {
	for i, m := range l.messages[l.start:] {
		if l.replaceAt > 0 && l.start+i == l.replaceAt {
			r.Replaced()
		}
		l.counted = append(l.counted, r.Counts(m))
		if err := r.Each(ctx, m); err != nil {
			return err
		}
	}
	return ctx.Err()
}

func (l *sliceLog) Before(_ context.Context, m *event.Message) *event.Message {
	l.asked = append(l.asked, m.Sequence)
	for i := int(m.Sequence) - 2; i >= max(l.replaceAt, 0); i-- {
		if l.messages[i].Subject == m.Subject {
			return &l.messages[i]
		}
	}
	return nil
}

// lines prints events in short.
type lines struct {
	all []string
	err error
}

func (l *lines) Print(e *event.Event, previous func() *event.Event) error {
	l.all = append(l.all, string(e.Op)+" "+Describe(e, previous, 4))
	return l.err
}

func replicas(sequence uint64, n int) event.Message {
	return message(sequence, event.Updated, `{"spec":{"replicas":`+strconv.Itoa(n)+`}}`, nil)
}

func TestRun_asks_the_log_only_for_states_that_it_has_not_seen_itself(t *testing.T) {
	junk := message(4, event.Updated, "", map[string]string{"id": ""})
	log := &sliceLog{start: 1, messages: []event.Message{
		replicas(1, 1), replicas(2, 2), replicas(3, 3), junk, junk,
		replicas(6, 6),
	}}
	var p lines
	var notices []string
	err := Run(t.Context(), log, Config{Printer: &p, Notice: func(line string) { notices = append(notices, line) }})
	want := []string{"updated spec.replicas 1→2", "updated spec.replicas 2→3", "updated spec.replicas 3→6"}
	require.NoError(t, err)
	assert.Equal(t, want, p.all)
	assert.Equal(t, []uint64{2}, log.asked, "it asked for what is before")
	if len(notices) != 1 || !strings.HasPrefix(notices[0],
		"message 4 on k8s.east.apps.deployments.shop.web is skipped, and others like it") {
		t.Errorf("it said %q", notices)
	}
	assert.Equal(t, []bool{true, true, false, false, true}, log.counted, "it counted")
}

func TestRun_compares_with_nothing_of_a_log_that_was_replaced(t *testing.T) {
	log := &sliceLog{replaceAt: 1, messages: []event.Message{replicas(1, 1), replicas(2, 2), replicas(3, 3)}}
	var p lines
	err := Run(t.Context(), log, Config{Printer: &p})
	want := []string{"updated ", "updated ", "updated spec.replicas 2→3"}
	assert.True(t, err == nil && slices.Equal(p.all, want), "got %q, %v, want %q", p.all, err, want)
}

func TestRun_ends_at_a_log_of_the_old_format(t *testing.T) {
	old := message(1, event.Updated, `{}`, map[string]string{"sequence": "00000000000000000007"})
	var p lines
	err := Run(t.Context(), &sliceLog{messages: []event.Message{old, replicas(2, 2)}}, Config{Printer: &p})
	var format *encode.OldFormatError
	require.ErrorAs(t, err, &format)
	assert.Empty(t, p.all, "it was shown")
}

func patchOf(sequence uint64, data string) event.Message {
	n := strconv.FormatUint(sequence, 10)
	return message(sequence, event.Updated, data, map[string]string{
		"payload": "merge-patch", "resourceversion": n, "baseversion": strconv.FormatUint(sequence-1, 10),
	})
}

func TestRun_says_what_was_before_a_patch_as_far_as_the_events_before_tell(t *testing.T) {
	whole := func(n uint64, data string) event.Message {
		return message(n, event.Updated, data, map[string]string{"payload": "object", "resourceversion": strconv.FormatUint(n, 10)})
	}
	first := whole(1, `{"spec":{"replicas":1,"paused":true,"a":{"b":1}}}`)
	patches := []event.Message{
		patchOf(2, `{"spec":{"replicas":2}}`), patchOf(3, `{"spec":{"replicas":5,"a":null}}`),
		patchOf(4, `{"spec":{"paused":null,"a":{"c":1}}}`),
		whole(5, `{"spec":{"replicas":6,"a":{"c":1}}}`), patchOf(6, `{"spec":{"replicas":7}}`),
	}
	shown := []string{
		"updated spec.replicas 1→2", "updated spec.a.b removed (1), spec.replicas 2→5",
		"updated spec.a.c added (1), spec.paused removed (true)",
		"updated spec.replicas 5→6", "updated spec.replicas 6→7",
	}
	lost := slices.Clone(patches)
	lost[1].Attributes = slices.Clone(lost[1].Attributes)
	for i := range lost[1].Attributes {
		if lost[1].Attributes[i].Name == "baseversion" {
			lost[1].Attributes[i].Value = "0"
		}
	}
	for _, c := range []struct {
		name  string
		start int
		log   []event.Message
		want  []string
	}{
		{"from an object on", 1, append([]event.Message{first}, patches...), shown},
		{
			"from a patch on", 2, append([]event.Message{first}, patches...),
			[]string{
				"updated spec.a removed, spec.replicas 2→5", "updated spec.a.c added (1), spec.paused removed", "updated ",
				"updated spec.replicas 6→7",
			},
		},
		{
			"behind one that applies to something else", 1, append([]event.Message{first}, lost...),
			[]string{
				"updated spec.replicas 1→2", "updated spec.a removed, spec.replicas →5",
				"updated spec.a.c added (1), spec.paused removed", "updated ", "updated spec.replicas 6→7",
			},
		},
	} {
		var p lines
		err := Run(t.Context(), &sliceLog{start: c.start, messages: c.log}, Config{Printer: &p})
		assert.True(t, err == nil && slices.Equal(p.all, c.want),
			"%s:\ngot  %q, %v\nwant %q", c.name, p.all, err, c.want)
	}
}

func TestRun_returns_what_printing_fails_with_and_nil_when_it_is_interrupted(t *testing.T) {
	broken := errors.New("broken")
	log := &sliceLog{messages: []event.Message{replicas(1, 1), replicas(2, 2)}}
	p := lines{err: broken}
	err := Run(t.Context(), log, Config{Printer: &p})
	assert.True(t, errors.Is(err, broken) && len(p.all) == 1, "got %v after %q", err, p.all)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	assert.NoError(t, Run(ctx, log, Config{Printer: new(lines)}), "interrupted")
}

func TestRun_says_at_the_end_what_it_looked_for_in_vain(t *testing.T) {
	pods := must.Get(ParseSelector("pods/web-0"))(t)
	deployments := must.Get(ParseSelector("deploy"))(t)
	beginning := event.Span{Start: event.Start{Beginning: true}}
	full := []event.Message{replicas(1, 1)}
	snapshot := []event.Message{message(1, event.SnapshotStarted, `{}`, nil)}
	gap := []event.Message{message(1, event.Gap, `{}`, map[string]string{"source": "/clusters/east/api/v1/pods"})}
	var many []event.Message
	for i := range maxSeen + 2 {
		many = append(many, message(1, event.Updated, `{}`, map[string]string{"source": "/clusters/east/api/v1/r" +
			strconv.Itoa(i)}))
	}
	for _, c := range []struct {
		name     string
		messages []event.Message
		cfg      Config
		want     string
	}{
		{"all is well", full, Config{Span: beginning, Filter: Filter{Resources: []Selector{deployments}}}, ""},
		{"nothing shown", full, Config{Span: beginning, Filter: Filter{Names: []string{"other"}}}, "no event matches"},
		{"a marker of more than the namespace", snapshot, Config{
			Span: beginning, Filter: Filter{Namespaces: []string{"other"}},
		}, "no event matches"},
		{"a marker that is asked for", snapshot, Config{
			Span: beginning, Filter: Filter{Namespaces: []string{"other"}, Ops: []event.Op{event.SnapshotStarted}},
		}, ""},
		{"a gap and a name", gap, Config{
			Span: beginning, Filter: Filter{Resources: []Selector{pods}},
		}, "no event matches pods/web-0; those read are about pods"},
		{"an empty log", nil, Config{Span: beginning}, "no event matches"},
		{
			"its end", nil,
			Config{},
			"no event matches: reading began at the end of the log; begin earlier with --from-start, --since or --last",
		},
		{
			"one of two resources", full,
			Config{Span: beginning, Filter: Filter{Resources: []Selector{pods, deployments}}},
			"no event matches pods/web-0; those read are about deployments.apps",
		},
		{
			"a resource in an empty log", nil,
			Config{Span: beginning, Filter: Filter{Resources: []Selector{pods}}},
			"no event matches",
		},
		{
			"a resource of many", many,
			Config{Span: beginning, Filter: Filter{Resources: []Selector{pods}}},
			"no event matches pods/web-0; those read are about r0, r1, r2, r3, r4, r5, r6, r7 and others",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			var notices []string
			c.cfg.Printer, c.cfg.Notice = new(lines), func(line string) { notices = append(notices, line) }
			require.NoError(t, Run(t.Context(), &sliceLog{messages: c.messages}, c.cfg))
			assert.Equal(t, c.want, strings.Join(notices, "\n"))
		})
	}
}

// followedLog has more to come.
type followedLog struct{ sliceLog }

func (l *followedLog) Read(ctx context.Context, r event.Reading) error {
	if err := l.sliceLog.Read(ctx, r); err != nil {
		return err
	}
	<-ctx.Done()
	return ctx.Err()
}

func TestRun_says_while_it_follows_what_it_looks_for_in_vain(t *testing.T) {
	pods := must.Get(ParseSelector("pods"))(t)
	deployments := must.Get(ParseSelector("deploy"))(t)
	for _, c := range []struct {
		name     string
		messages []event.Message
		of       []Selector
		within   []string
		want     []string
	}{
		{"what is there", []event.Message{replicas(1, 1)}, []Selector{deployments}, nil, nil},
		{"everything", nil, nil, nil, nil},
		{
			"another resource",
			[]event.Message{replicas(1, 1)},
			[]Selector{pods},
			nil,
			[]string{"no event matches pods so far; those read are about deployments.apps; it goes on waiting"},
		},
		{
			"a namespace",
			[]event.Message{replicas(1, 1)},
			nil,
			[]string{"other"},
			[]string{"no event matches so far; it goes on waiting"},
		},
		{"a namespace that is there", []event.Message{replicas(1, 1)}, nil, []string{"shop"}, nil},
		{"an empty log", nil, []Selector{pods}, nil, []string{"no event has come yet; it goes on waiting for pods"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var notices []string
				cfg := Config{
					Span: event.Span{Follow: true}, Filter: Filter{Resources: c.of, Namespaces: c.within}, Printer: new(lines),
					Notice: func(line string) { notices = append(notices, line) },
				}
				require.NoError(t, Run(must.Within(t, time.Minute), &followedLog{sliceLog{messages: c.messages}}, cfg))
				assert.Equal(t, c.want, notices)
			})
		})
	}
}
