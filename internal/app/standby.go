// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"fmt"
	"sync"
	"time"

	checkpointkafka "github.com/kube-eventbridge/kube-eventbridge/checkpoint/kafka"
	checkpointnats "github.com/kube-eventbridge/kube-eventbridge/checkpoint/nats"
	"github.com/kube-eventbridge/kube-eventbridge/internal/config"
	"github.com/kube-eventbridge/kube-eventbridge/internal/election"
	"github.com/kube-eventbridge/kube-eventbridge/internal/pause"
	"github.com/kube-eventbridge/kube-eventbridge/internal/wiring"
)

const (
	// brokersEvery is how often a standby asks the brokers.
	brokersEvery = 10 * time.Second
	// brokersAgain is how soon it asks again after a failure, and how soon after a term it asks first.
	brokersAgain = time.Second
)

// standing is a process of which another one may lead. While another process leads, it asks the brokers whether it
// could publish. A process that could not is not ready, so a rollout with wrong credentials stops before it ends the
// leader.
type standing struct {
	*election.Candidate
	process *process

	mu sync.Mutex
	// asked says that the brokers have been asked. failed is why this process could not publish then.
	asked  bool
	failed error
}

// idle says what the process does while it does not lead.
func (s *standing) idle() (line string, ready bool) {
	asked, err := s.brokers()
	switch {
	case s.Leads():
		return "starting: this process leads since a moment ago", false
	case s.Err() != nil:
		return "standing by: lease: " + s.Err().Error(), false
	case err != nil:
		return "standing by: " + err.Error(), false
	case !asked:
		return "standing by: the brokers have not answered yet", false
	case s.Leader() == "":
		return "standing by: no process leads yet", true
	default:
		return "standing by: " + s.Leader() + " leads", true
	}
}

// brokers returns whether the brokers were asked, and why this process could not publish then.
func (s *standing) brokers() (asked bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked, s.failed
}

// run asks the brokers until ctx ends. A leader finds out by itself.
func (s *standing) run(ctx context.Context) {
	for delay := time.Duration(0); pause.For(ctx, delay) == nil; {
		delay = brokersAgain
		if s.Leads() {
			continue
		}
		err := s.process.askBrokers(ctx)
		if ctx.Err() != nil {
			return
		}
		if s.note(err); err == nil {
			delay = brokersEvery
		}
	}
}

// note keeps what the brokers have answered, and logs a failure that is new.
func (s *standing) note(err error) {
	s.mu.Lock()
	before := s.failed
	s.asked, s.failed = true, err
	s.mu.Unlock()
	if err != nil && before == nil {
		s.process.log.Warn("this process could not publish if it led now; it asks the brokers again", "err", err)
	}
}

// askBrokers returns why a pipeline of the configuration could not publish or commit if this process led now.
func (p *process) askBrokers(ctx context.Context) error {
	p.turn.Lock()
	cfg := p.current
	p.turn.Unlock()
	for i := range cfg.Pipelines {
		c := &cfg.Pipelines[i]
		if err := p.askBrokersOf(ctx, c); err != nil {
			return fmt.Errorf("pipeline %s: %w", c.Name, err)
		}
	}
	return nil
}

// askBrokersOf reads the files of secrets, as they may have changed.
func (p *process) askBrokersOf(ctx context.Context, c *config.Pipeline) error {
	ctx, cancel := context.WithTimeout(ctx, wiring.AskFor)
	defer cancel()
	id := p.identity(c, p.clusterUID())
	check, err := wiring.CheckSink(c, id)
	if err == nil {
		err = check(ctx)
	}
	if err != nil {
		return err
	}
	if c.Checkpoint.Kafka != nil {
		at, err := wiring.KafkaCheckpoint(c)
		if err != nil {
			return err
		}
		return checkpointkafka.Check(ctx, at, id)
	}
	at, err := wiring.NATSCheckpoint(c)
	if err != nil {
		return err
	}
	return checkpointnats.Check(ctx, at)
}
