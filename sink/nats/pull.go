// SPDX-License-Identifier: Apache-2.0

package nats

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	gonats "github.com/nats-io/nats.go"
)

// puller asks a consumer for messages.
type puller struct {
	nc *gonats.Conn
	// next is where to ask, inbox the beginning of where the messages come to: each pull has a subject of its own.
	next, inbox string
	pulls       int
	messages    chan *gonats.Msg
	patience    time.Duration
	// batch and bytes bound a pull, expires its time.
	batch   int
	bytes   int64
	expires time.Duration
}

func (r *reader) puller(nc *gonats.Conn, next string) *puller {
	p := &puller{
		nc: nc, next: next, inbox: nc.NewInbox(), patience: r.sink.cfg.AckTimeout,
		messages: make(chan *gonats.Msg, pullMessages+16),
		batch:    pullMessages, bytes: max(pullBytes, 2*nc.MaxPayload()), expires: min(pullWait, r.sink.cfg.AckTimeout/2),
	}
	if r.q.LastOfKey {
		// Of the last messages of subjects a server loses the one that it has in hand when a pull ends by anything but
		// its number.
		p.bytes, p.expires = 0, forgetAfter
		if r.data {
			p.batch = int(min(max(pullBytes/max(nc.MaxPayload(), 1), 1), pullMessages))
		}
	}
	return p
}

var errSilent = errors.New("no answer")

// pull calls take for the messages that there are, a batch at most, and waits a moment for more, until take wants no
// more.
func (p *puller) pull(ctx context.Context, take func(*gonats.Msg) (bool, error)) error {
	query, err := json.Marshal(map[string]any{"batch": p.batch, "max_bytes": p.bytes, "expires": p.expires})
	if err != nil {
		return err
	}
	p.pulls++
	reply := p.inbox + "." + strconv.Itoa(p.pulls)
	if err := p.nc.PublishRequest(p.next, reply, query); err != nil {
		if errors.Is(err, gonats.ErrReconnectBufExceeded) {
			return errDisconnected
		}
		return err
	}
	for n := 0; n < p.batch; {
		m, err := p.receive(ctx)
		switch {
		case err != nil:
			return err
		case m.Reply != "":
			n++
			if more, err := take(m); err != nil || !more {
				return err
			}
		case m.Subject == reply: // what is said of an earlier pull is late
			if n == 0 && p.bytes > 0 && m.Header.Get("Status") == "409" {
				p.bytes *= 2 // a message from when larger ones were allowed, perhaps
			}
			return pulled(m.Header.Get("Status"), m.Header.Get("Description"))
		}
	}
	return nil
}

// pulled returns nil if status says that this pull has brought all it can.
func pulled(status, description string) error {
	full := description == "Batch Completed" || description == "Message Size Exceeds MaxBytes"
	if status == "404" || status == "408" || status == "409" && full {
		return nil
	}
	return fmt.Errorf("the broker's answer is %s %s", status, description)
}

func (p *puller) receive(ctx context.Context) (*gonats.Msg, error) {
	select {
	case m := <-p.messages:
		return m, nil
	default:
	}
	late := time.NewTimer(p.patience)
	defer late.Stop()
	select {
	case m := <-p.messages:
		return m, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-late.C:
		return nil, errSilent
	}
}
