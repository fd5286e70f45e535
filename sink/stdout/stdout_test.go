// SPDX-License-Identifier: Apache-2.0

package stdout_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/cloudevents/sdk-go/v2/event"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
	"github.com/kube-eventbridge/kube-eventbridge/sink"
	"github.com/kube-eventbridge/kube-eventbridge/sink/sinktest"
	"github.com/kube-eventbridge/kube-eventbridge/sink/stdout"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// paper is a writer that fails as told.
type paper struct {
	mu    sync.Mutex
	text  bytes.Buffer
	fault func(p []byte) (n int, err error)
}

func (p *paper) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.fault != nil {
		if n, err := p.fault(b); err != nil {
			p.text.Write(b[:n])
			return n, err
		}
	}
	return p.text.Write(b)
}

func (p *paper) String() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.text.String()
}

func TestSink_keeps_the_contract(t *testing.T) {
	sinktest.Run(t, func(*testing.T) *sinktest.Harness {
		p := &paper{}
		return &sinktest.Harness{
			Sink:      stdout.New(p, nil, nil),
			Subject:   func(key string) string { return "k8s." + key },
			Log:       func(t *testing.T) []sink.Stored { return parse(t, p.String()) },
			Unordered: true,
		}
	})
}

// parse reads the lines as any consumer would.
func parse(t *testing.T, text string) (log []sink.Stored) {
	t.Helper()
	for l := range strings.Lines(text) {
		var fields map[string]json.RawMessage
		require.NoError(t, json.Unmarshal([]byte(l), &fields), l)
		st := sink.Stored{Sequence: uint64(len(log) + 1), Data: fields["data"]}
		for _, name := range slices.Sorted(maps.Keys(fields)) {
			if name == "data" {
				continue
			}
			var v any
			require.NoError(t, json.Unmarshal(fields[name], &v))
			s, ok := v.(string)
			if !ok {
				s = string(fields[name])
			}
			st.Attributes = append(st.Attributes, sink.Attribute{Name: name, Value: s})
			switch name {
			case "id":
				st.ID = s
			case "datacontenttype":
				st.ContentType = s
			}
		}
		if st.ContentType == "" {
			st.ContentType, st.Attributes, st.Data = "application/cloudevents+json", nil, []byte(strings.TrimSuffix(l, "\n"))
		}
		log = append(log, st)
	}
	return log
}

func message(id, data string) *sink.Message {
	return &sink.Message{
		ID: id, Subject: "s", ContentType: "application/json", Data: []byte(data),
		Attributes: []sink.Attribute{
			{Name: "specversion", Value: "1.0"},
			{Name: "id", Value: id},
			{Name: "source", Value: "/x"},
			{Name: "type", Value: "t"},
			{Name: "datacontenttype", Value: "application/json"},
			{Name: "sampledrate", Value: "3"},
		},
	}
}

// run runs s and returns a function that ends it and returns Run's error.
func run(t *testing.T, s *stdout.Sink) (end func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	must.Succeed(t, "ready", s.Ready)
	return func() error { cancel(); return <-ended }
}

func TestSink_writes_what_the_SDK_reads(t *testing.T) {
	p := &paper{}
	s := stdout.New(p, nil, nil)
	end := run(t, s)
	done := make(chan error, 1)
	s.Publish(t.Context(), message("a", "{\n  \"x\": \"1\\n2\"\r\n}"), func(_ sink.Receipt, err error) { done <- err })
	require.NoError(t, <-done)
	require.NoError(t, end())
	var e event.Event
	require.NoError(t, json.Unmarshal([]byte(p.String()), &e))
	require.NoError(t, e.Validate())
	assert.True(t, e.ID() == "a" && string(e.Data()) == `{"x":"1\n2"}` && e.Extensions()["sampledrate"] == int32(3),
		"read back: %v", e)
	assert.Equal(t, 1, strings.Count(p.String(), "\n"), "lines")
}

func TestSink_continues_where_a_write_stopped(t *testing.T) {
	p := &paper{}
	writes := 0
	p.fault = func(b []byte) (int, error) {
		if writes++; writes <= 3 {
			return min(len(b), 7), errors.New("disk full")
		}
		return 0, nil
	}
	s := stdout.New(p, nil, nil)
	end := run(t, s)
	done := make(chan sink.Receipt, 3)
	for _, id := range []string{"a", "b", "c"} {
		s.Publish(t.Context(), message(id, "{}"), func(rc sink.Receipt, err error) {
			assert.NoError(t, err)
			done <- rc
		})
	}
	for want := range uint64(3) {
		rc := <-done
		assert.Equal(t, want+1, rc.Sequence, "line")
	}
	require.NoError(t, end())
	log := parse(t, p.String())
	assert.True(t, len(log) == 3 && log[0].ID == "a" && log[1].ID == "b" && log[2].ID == "c", "written:\n%s", p)
}

func TestSink_ends_without_a_reader(t *testing.T) {
	for name, fault := range map[string]error{
		"pipe": syscall.EPIPE, "file": os.ErrClosed,
		"in process": io.ErrClosedPipe,
	} {
		t.Run(name, func(t *testing.T) {
			p := &paper{fault: func([]byte) (int, error) { return 0, fault }}
			s := stdout.New(p, nil, nil)
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			ended, done := make(chan error, 1), make(chan error, 1)
			go func() { ended <- s.Run(ctx) }()
			must.Succeed(t, "ready", s.Ready)
			s.Publish(ctx, message("a", "{}"), func(_ sink.Receipt, err error) {
				stop() // a stop right behind the end does not hide its reason
				done <- err
			})
			var unusable *sink.UnusableError
			assert.ErrorAs(t, <-done, &unusable, "done was told")
			assert.ErrorAs(t, <-ended, &unusable, "Run")
		})
	}
}

func TestSink_does_not_wait_for_a_reader_at_its_end(t *testing.T) {
	r, w := must.Get2(os.Pipe())(t)
	defer r.Close()
	defer w.Close()
	s := stdout.New(w, nil, nil)
	end := run(t, s)
	const n = 10
	done := make(chan error, n)
	for range n {
		s.Publish(t.Context(), message("a", `"`+strings.Repeat("x", 100_000)+`"`),
			func(_ sink.Receipt, err error) { done <- err })
	}
	ended := make(chan error, 1)
	go func() { ended <- end() }()
	select {
	case err := <-ended:
		assert.NoError(t, err)
	case <-time.After(time.Minute):
		t.Fatal("still writing")
	}
	for range n {
		err := <-done
		assert.True(t, err == nil || errors.Is(err, context.Canceled), "%v", err)
	}
}

func TestSink_waits_while_too_much_is_unwritten(t *testing.T) {
	release := make(chan struct{})
	p := &paper{fault: func([]byte) (int, error) { <-release; return 0, nil }}
	s := stdout.New(p, nil, nil)
	end := run(t, s)
	big := message("a", `"`+strings.Repeat("x", 2<<20)+`"`)
	done := make(chan error, 3)
	tell := func(_ sink.Receipt, err error) { done <- err }
	s.Publish(t.Context(), big, tell)
	s.Publish(t.Context(), big, tell) // may wait for the first to be taken
	ctx := must.Within(t, 20*time.Millisecond)
	s.Publish(ctx, big, tell)
	assert.ErrorIs(t, <-done, context.DeadlineExceeded, "the third was told")
	close(release)
	for range 2 {
		assert.NoError(t, <-done)
	}
	require.NoError(t, end())
}

func TestSink_writes_what_a_format_makes_of_a_message(t *testing.T) {
	p := &paper{}
	s := stdout.New(p, func(b []byte, m *sink.Message, number uint64) ([]byte, error) {
		if m.ID == "bad" {
			return nil, errors.New("no form for it")
		}
		return fmt.Appendf(b, "%d %s\n", number, m.ID), nil
	}, nil)
	end := run(t, s)
	for _, id := range []string{"a", "bad", "b"} {
		done := make(chan error, 1)
		s.Publish(t.Context(), &sink.Message{Subject: "s", ID: id}, func(_ sink.Receipt, err error) { done <- err })
		err := <-done
		assert.True(t, (err != nil) == (id == "bad") && (err == nil || sink.IsPermanent(err)), "%s: %v", id, err)
	}
	require.NoError(t, end())
	assert.Equal(t, "1 a\n2 b\n", p.String(), "it wrote")
}
