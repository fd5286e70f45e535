// SPDX-License-Identifier: Apache-2.0

package nats

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	gonats "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/kube-eventbridge/kube-eventbridge/internal/natsclient"
	"github.com/kube-eventbridge/kube-eventbridge/sink"
)

// answer is JetStream's answer to a publish.
type answer struct {
	Stream    string              `json:"stream"`
	Sequence  uint64              `json:"seq"`
	Duplicate bool                `json:"duplicate"`
	Error     *jetstream.APIError `json:"error"`
}

// parseAnswer reads an answer. The usual one is {"stream":"NAME","seq":N}, perhaps with a domain, and is not decoded.
func parseAnswer(data, usual []byte) (answer, error) {
	if n, ok := parseUsual(data, usual); ok {
		return answer{Sequence: n}, nil
	}
	var a answer
	if err := json.Unmarshal(data, &a); err != nil {
		return a, fmt.Errorf("answer of the broker: %w", err)
	}
	if a.Error == nil && a.Sequence == 0 {
		return a, errors.New("answer of the broker: neither a sequence nor an error")
	}
	return a, nil
}

var sequenceField = []byte(`"seq":`)

func parseUsual(data, usual []byte) (n uint64, ok bool) {
	rest, ok := bytes.CutPrefix(data, usual)
	if !ok {
		return 0, false
	}
	rest = rest[max(bytes.LastIndex(rest, sequenceField), 0):]
	digits, ok := bytes.CutPrefix(rest, sequenceField)
	if !ok || len(digits) < 2 || len(digits) > 20 || digits[len(digits)-1] != '}' {
		return 0, false
	}
	for _, c := range digits[:len(digits)-1] {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + uint64(c-'0')
	}
	return n, n > 0
}

// usualAnswer is what the usual answer of a stream begins with.
func usualAnswer(stream string) []byte { return fmt.Appendf(nil, `{"stream":%q,`, stream) }

// answered is called with each message that arrives in the inbox.
func (p *publisher) answered(msg *gonats.Msg) {
	p.answering.Lock()
	defer p.answering.Unlock()
	i, gen, ok := p.window.Parse(msg.Subject)
	if !ok {
		return
	}
	a, err := parseAnswer(msg.Data, p.usual)
	silent := len(msg.Data) == 0 && msg.Header.Get("Status") == "503"
	if !silent && err == nil && a.Error == nil && a.Stream != "" && a.Stream != p.cfg.Stream {
		err = fmt.Errorf("stream %s answered instead of %s", a.Stream, p.cfg.Stream)
	}
	m, done, ok := p.window.Take(i, gen, msg, nil)
	if !ok {
		return
	}
	switch {
	case silent:
		p.finish(i, m, done, sink.Receipt{}, p.noStream(m))
	case err != nil:
		p.finish(i, m, done, sink.Receipt{}, err)
	case a.Error != nil:
		p.refused(i, m, done, a.Error)
	default:
		if !p.acked.add(mark{a.Sequence, m.ID}, a.Duplicate) {
			p.state.look() // sequences only ever grow in one log
		}
		if a.Duplicate {
			p.recognised(i, m, done, a.Sequence)
			return
		}
		p.finish(i, m, done, sink.Receipt{Sequence: a.Sequence}, nil)
	}
}

// recognised deals with a message that the stream has, or had, at a sequence. The server looks at ids before it looks
// at the expected last sequence, so that another message may stand behind it. The slot stays taken while the last
// message of the subject is looked up. Where other keys and streams publish to the subject too, its last message says
// nothing.
func (p *publisher) recognised(i int, m *sink.Message, done sink.Done, sequence uint64) {
	if !m.Shared && !m.Everywhere {
		p.lookups <- lookup{slot: i, m: m, done: done, duplicate: sequence}
		return
	}
	p.duplicates.Add(1)
	p.finish(i, m, done, sink.Receipt{Sequence: sequence, Duplicate: true}, nil)
}

// finish gives the slot of a message that was taken back, and tells its fate.
func (p *publisher) finish(i int, m *sink.Message, done sink.Done, rc sink.Receipt, err error) {
	if err != nil {
		err = fmt.Errorf("publish %s: %w", m.Subject, err)
	}
	p.window.Release(i)
	done(rc, err)
}

// noStream makes an error of the answer that no stream listens to the subject of m.
func (p *publisher) noStream(m *sink.Message) error {
	if !natsclient.CoveredByAny(p.cfg.Subjects, m.Subject) {
		return sink.Permanent(fmt.Errorf("no stream takes this subject; stream %s is for %s", p.cfg.Stream,
			strings.Join(p.cfg.Subjects, ", ")))
	}
	p.state.suspect(fmt.Errorf("stream %s does not answer", p.cfg.Stream))
	return fmt.Errorf("stream %s: %w", p.cfg.Stream, gonats.ErrNoResponders)
}

// refused deals with an answer that is an error. The slot stays taken while the last message is looked up.
func (p *publisher) refused(i int, m *sink.Message, done sink.Done, e *jetstream.APIError) {
	switch e.ErrorCode {
	case natsclient.CodeWrongLast, natsclient.CodeWrongLastInProcess:
		p.lookups <- lookup{slot: i, m: m, done: done, cause: e}
		return
	case natsclient.CodeMessageTooLarge:
		p.finish(i, m, done, sink.Receipt{}, sink.TooLarge(fmt.Errorf("%d bytes: %w", len(m.Data), e)))
		return
	case natsclient.CodeHeaderTooLarge:
		p.finish(i, m, done, sink.Receipt{}, sink.Permanent(fmt.Errorf("%d bytes: %w", len(m.Data), e)))
		return
	case natsclient.CodeStreamMismatch:
		p.state.suspect(e)
	default:
		p.state.look() // it may have been sealed, for one
	}
	p.finish(i, m, done, sink.Receipt{}, e)
}
