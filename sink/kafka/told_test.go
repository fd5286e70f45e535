// SPDX-License-Identifier: Apache-2.0

package kafka

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kube-eventbridge/kube-eventbridge/internal/kafka"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
	"github.com/stretchr/testify/assert"
)

func TestSink_tells_once_what_settings_lose(t *testing.T) {
	var said bytes.Buffer
	s := &Sink{cfg: Config{Clock: &Clock{}, Log: slog.New(slog.NewTextHandler(&said, nil))}}
	one, other := &topic{name: "one"}, &topic{name: "other"}
	for _, at := range []*topic{one, one, other} {
		s.tellLosses(at, map[string]string{settingISR: "1"})
	}
	assert.Equal(t, 1, strings.Count(said.String(), "topic=one "), "it says:\n%s", said.String())
	assert.Equal(t, 1, strings.Count(said.String(), "topic=other "), "it says:\n%s", said.String())
}

// The copies in all partitions are one event: same id, same everything.
func TestSink_announces_an_epoch_with_one_time(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &Sink{cfg: Config{Clock: &Clock{}, Cluster: "c", Pipeline: "p"}}
		s.take(kafka.Producer{ID: 4, Epoch: 1})
		first := s.announcement()
		<-time.After(time.Second)
		assert.Equal(t, s.announcement().Attributes, first.Attributes, "then")
		s.take(kafka.Producer{ID: 4, Epoch: 2})
		assert.NotEqual(t, first.ID, s.announcement().ID, "the next epoch has the same id")
	})
}

// Sinks follow one another when a session ends; a clock that begins anew would go back with the machine's.
func TestNew_keeps_the_clock_that_it_is_given(t *testing.T) {
	clock := &Clock{}
	cfg := Config{Brokers: []string{"127.0.0.1:1"}, Cluster: "c", Pipeline: "p", Topic: "kubernetes", Clock: clock}
	for range 2 {
		s := must.Get(New(cfg))(t)
		assert.Same(t, clock, newPartition(s, &topic{name: "kubernetes"}, 0).scribe.clock,
			"a partition has another clock")
	}
}
