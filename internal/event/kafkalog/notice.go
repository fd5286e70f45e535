// SPDX-License-Identifier: Apache-2.0

package kafkalog

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	kafkago "github.com/segmentio/kafka-go"

	"github.com/kube-eventbridge/kube-eventbridge/internal/kafka"
)

// noTopic is the error where a topic is not waited for.
func (l *Log) noTopic(name string) error {
	none := l.what.none()
	if name != "" {
		none = fmt.Sprintf("there is no topic %q", name)
	}
	return fmt.Errorf("%s at %s, or it may not be seen; name another one with --topic, or follow until it exists", none,
		l.brokers())
}

// hopeless returns what reading ends with where another attempt would fail as this one did, or no caller wants to wait
// for it. What interrupts a reading that had begun, such as a restart of the brokers, passes.
func (r *reader) hopeless(err error) error {
	var dial *net.OpError
	switch {
	case r.begun || r.Follow && passes(err):
		return nil
	case errors.Is(err, kafka.ErrNoTopic):
		return r.noTopic("")
	case away(err) && errors.As(err, &dial):
		return fmt.Errorf("connect to %s: %w; is Kafka running there?", r.brokers(), dial)
	default:
		return fmt.Errorf("read %s at %s: %w", r.what, r.brokers(), err)
	}
}

// passes reports whether waiting may cure what brokers, or their absence, answer.
func passes(err error) bool {
	var code kafkago.Error
	var transport *net.OpError
	switch {
	case kafka.Explained(err):
		return false
	case errors.As(err, &code):
		return !slices.Contains([]kafkago.Error{kafkago.InvalidTopic, kafkago.UnsupportedVersion}, code)
	case errors.As(err, &transport):
		return transport.Op != "remote error" // what the other side of TLS complains about
	default:
		return away(err) || hungUp(err) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, kafka.ErrNoTopic) ||
			errors.Is(err, errHearsay)
	}
}

// away reports whether there is no broker to connect to.
func away(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}

// hungUp reports whether a connection was closed.
func hungUp(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET) ||
		errors.Is(err, syscall.EPIPE)
}

// failed notes that a partition could not be fetched from.
func (r *reader) failed(p *partition, err error) error {
	if kafka.OutOfRange(err) {
		p.loss.seen, p.topic.doubted, r.surveys.now = true, true, true
		return nil
	}
	if kafka.Forbidden(err) && !r.what.only {
		r.cfg.Notice(fmt.Sprintf("leaving topic %s out: %v", p.place.topic, err))
		for _, p := range p.topic.partitions {
			p.closed = true
		}
		if r.topics.closed() {
			return fmt.Errorf("read %s at %s: %w", r.what, r.brokers(), err)
		}
		return nil
	}
	if err := r.hopeless(err); err != nil {
		return err
	}
	now := time.Now()
	p.trouble.add(err, now)
	p.trouble.again, r.surveys.now = now.Add(r.backoff(p.trouble.failures)), true
	return nil
}

// lateAfter is how long a partition may fail while brokers answer before notice is given: its leader may just move.
const lateAfter = 5 * time.Second

// late gives notice of partitions that cannot be read while brokers answer.
func (r *reader) late(now time.Time) {
	if r.surveys.failed > 0 {
		return
	}
	for _, t := range r.topics.byName {
		var numbers []string
		var cause error
		for _, p := range t.partitions {
			if p.trouble.failures > 0 && !p.trouble.told && t.absent.IsZero() && now.Sub(p.trouble.since) >= lateAfter {
				p.trouble.told, cause = true, p.trouble.err
				numbers = append(numbers, strconv.Itoa(int(p.number)))
			}
		}
		if len(numbers) > 0 {
			r.say(fmt.Sprintf("partition %s of topic %s cannot be read, trying again: %v", strings.Join(numbers, ", "), t.name,
				cause))
		}
	}
}

// surveyFailed notes that the topics could not be looked at. It matters where they cannot be read either.
func (r *reader) surveyFailed(err error) error {
	if err := r.hopeless(err); err != nil {
		return err
	}
	r.surveys.failed++
	r.surveys.again, r.surveys.now = time.Now().Add(r.backoff(r.surveys.failed)), true
	if !r.begun || r.topics.failing() {
		r.interrupted(err)
	}
	return nil
}

// interrupted gives notice of why nothing is read, once for each reason in a row.
func (r *reader) interrupted(err error) {
	switch {
	case errors.Is(err, kafka.ErrNoTopic):
		r.missing = true
		r.say(r.what.none() + " yet, or it may not be seen; waiting for it")
	case away(err):
		notice := "no connection to " + r.brokers() + ", trying again until there is one"
		if !r.begun {
			notice += "; is Kafka running there?"
		}
		r.say(notice)
	case errors.Is(err, context.DeadlineExceeded):
		r.say(fmt.Sprintf("no answer about %s from %s, trying again", r.what, r.brokers()))
	case (hungUp(err) || errors.Is(err, errHearsay)) && r.surveys.failed == 1: // it may be a broker that begins or ends
	default:
		r.say(fmt.Sprintf("reading %s failed, trying again: %v", r.what, err))
	}
}

func (r *reader) say(notice string) {
	if notice != r.waiting {
		r.waiting = notice
		r.cfg.Notice(notice)
	}
}

// reads gives notice that records are read: at first where the log is followed, and after what it gave notice of.
func (r *reader) reads() {
	switch {
	case !r.begun && r.Follow:
		r.cfg.Notice(fmt.Sprintf("reading %s at %s %s; ^C ends it", r.what, r.brokers(), r.Part(r.missing)))
	case r.waiting == "", r.topics.failing(), r.surveys.failed > 0:
		r.begun = true
		return
	default:
		r.cfg.Notice(fmt.Sprintf("reading %s at %s again", r.what, r.brokers()))
	}
	r.begun, r.waiting = true, ""
}
