// SPDX-License-Identifier: Apache-2.0

package kafka

import (
	"context"
	"errors"
	"fmt"

	"github.com/kube-eventbridge/kube-eventbridge/internal/kafka"
	"github.com/kube-eventbridge/kube-eventbridge/sink"
)

// Check says what is wrong with the brokers or the topics for a sink of c, without making or changing anything, or
// taking the place of another writer. A topic that is missing is not wrong where it may be created. Warnings are what
// loses events, or cannot be looked at. The error is a [*sink.UnusableError] where a topic must not be used, is
// permanent ([sink.IsPermanent]) where the brokers refuse what is configured, and else says why that is not known.
func Check(ctx context.Context, c Config) (warnings []string, err error) {
	s, err := New(c)
	if err != nil {
		return nil, sink.Permanent(err)
	}
	defer s.client.Close()
	warnings, err = s.examine(ctx)
	if kafka.Explained(err) {
		err = sink.Permanent(err)
	}
	return warnings, err
}

// examine looks at all topics that are there.
func (s *Sink) examine(ctx context.Context) (warnings []string, err error) {
	known, err := s.topics.known(ctx, s.client)
	if err != nil {
		return nil, err
	}
	for _, name := range known {
		_, _, err := s.client.Incarnation(ctx, name)
		switch {
		case errors.Is(err, kafka.ErrNoTopic) && s.cfg.Create == nil:
			return warnings, s.admin.missing(ctx, name)
		case errors.Is(err, kafka.ErrNoTopic):
			continue
		case err != nil:
			return warnings, err
		}
		n, err := s.client.Partitions(ctx, name)
		if err != nil {
			return warnings, err
		}
		if err := s.topics.countable(name, n); err != nil {
			return warnings, err
		}
		settings, err := s.client.Settings(ctx, name, settingCleanup, settingISR, settingUnclean)
		switch {
		case kafka.Forbidden(err):
			warnings = append(warnings, fmt.Sprintf("the settings of topic %s may not be read, so they are not checked: %v",
				name, err))
		case err != nil:
			return warnings, err
		}
		for _, problem := range losses(settings, s.cfg.Tombstones) {
			warnings = append(warnings, "topic "+name+" loses events: "+problem)
		}
	}
	return warnings, nil
}

// missing says what to do about a topic that is not there.
func (a *admin) missing(ctx context.Context, name string) error {
	return unusable(name, "it does not exist, or the permission to see it (Describe) is missing",
		a.adviceToCreate(ctx, name))
}
