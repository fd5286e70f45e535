// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"io"
	"maps"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// publisherRole is the least a client of the broker can do: it repeats one message, with a subject and an id of its own
// for each, and the sequence of the subject's last message, as fast as the broker takes it. Each line read, a number,
// makes it publish that many and report.
func publisherRole(ctx context.Context, args []string, stdin io.Reader, stdout io.Writer) error {
	flags := flag.NewFlagSet("publisher", flag.ContinueOnError)
	url := flags.String("broker", nats.DefaultURL, "NATS `URL`")
	objects := flags.Int("objects", 20_000, "number of subjects")
	file := flags.String("sample", "", "message to repeat, from this `file`")
	if err := flags.Parse(args); err != nil {
		return err
	}
	p, err := newPublisher(*url, *file, *objects)
	if err != nil {
		return err
	}
	defer p.conn.Close()
	return obey(ctx, *url, stdin, stdout, p.publish)
}

// obey publishes as many messages as each line read says, a number, and reports when that is done.
func obey(
	ctx context.Context, broker string, stdin io.Reader, stdout io.Writer, publish func(context.Context, int) error,
) error {
	if err := say(stdout, report{Ready: broker}); err != nil {
		return err
	}
	// The read of stdin ends with the process: the driver closes it.
	for lines := bufio.NewScanner(stdin); lines.Scan(); {
		n, err := strconv.Atoi(strings.TrimSpace(lines.Text()))
		if err != nil {
			return fmt.Errorf("number of messages: %w", err)
		}
		if err := publish(ctx, n); err != nil {
			return err
		}
		if err := say(stdout, report{Published: n}); err != nil {
			return err
		}
	}
	return nil
}

type publisher struct {
	conn *nats.Conn
	js   jetstream.JetStream
	// ring holds more messages than can be unacknowledged, so that none is changed while it is on its way, and
	// making them costs nothing.
	ring     [2 * window]*nats.Msg
	subjects []string
	uids     []string
	sent     int
	failure  atomic.Pointer[error]
}

func newPublisher(url, file string, objects int) (*publisher, error) {
	s, err := readSample(file)
	if err != nil {
		return nil, err
	}
	p := &publisher{subjects: make([]string, objects), uids: make([]string, objects)}
	for i := range objects {
		id := identityOf(i)
		p.subjects[i], p.uids[i] = subjectOf(id.Namespace, id.Name), "6c62272e07bb0142."+id.UID+"."
	}
	for i := range p.ring {
		p.ring[i] = &nats.Msg{Header: maps.Clone(s.Header), Data: s.Data}
		p.ring[i].Header[nats.MsgIdHdr] = []string{""}
		p.ring[i].Header[jetstream.ExpectedLastSubjSeqHeader] = []string{""}
	}
	p.conn, p.js, err = connect(url, func(err error) { p.failure.CompareAndSwap(nil, &err) })
	return p, err
}

// before returns the sequence of the last message of the subject that is next, in a stream that has nothing else.
func (p *publisher) before() int { return max(0, p.sent+1-len(p.subjects)) }

// publish returns when n more messages are acknowledged.
func (p *publisher) publish(ctx context.Context, n int) error {
	for range n {
		object := p.sent % len(p.subjects)
		m := p.ring[p.sent%len(p.ring)]
		m.Subject, m.Reply = p.subjects[object], ""
		m.Header[nats.MsgIdHdr][0] = p.uids[object] + strconv.Itoa(baseVersion+p.sent)
		m.Header[jetstream.ExpectedLastSubjSeqHeader][0] = strconv.Itoa(p.before())
		p.sent++
		if _, err := p.js.PublishMsgAsync(m, jetstream.WithStallWait(30*time.Second)); err != nil {
			return fmt.Errorf("publish %s: %w", m.Subject, err)
		}
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-p.js.PublishAsyncComplete():
	}
	if err := p.failure.Load(); err != nil {
		return fmt.Errorf("publish: %w", *err)
	}
	return nil
}
